"""The entry point: find the command, run it, and report errors."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.main import get_command

from runner.cli import words
from runner.core import Reason
from runner.core.errors import RaiError, UsageError

READER_LEFT = 141
"""The exit code that a shell reports for a program that SIGPIPE ended."""

COMMANDS = (
    "run",
    "replay",
    "validate",
    "ps",
    "history",
    "show",
    "logs",
    "pull",
    "parse",
    "doctor",
    "init",
    "version",
    "image",
)
"""The commands in the order of the help.

Each is a module with a function, or a group of commands, of the same name.
"""


def app(names: Sequence[str] = COMMANDS) -> typer.Typer:
    """Return the command line with all commands, or with the named ones."""
    made = typer.Typer(
        name="rai",
        add_completion=names is COMMANDS,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Run a project's rai_build.yml in a container or a sandbox, and keep a"
        " record. `rai -p DIR` is `rai run -p DIR`.",
    )
    made.callback()(root)
    for name in names:
        found = getattr(import_module(f"runner.cli.{name}"), name)
        if isinstance(found, typer.Typer):
            made.add_typer(found, name=name)
        else:
            made.command()(found)
    return made


def root(
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show a traceback with an error.")
    ] = False,
) -> None:
    """Hold the options of `rai` itself."""


def main() -> NoReturn:
    """Run the command line of this process."""
    given, debug = words.without_debug(sys.argv[1:])
    if given == ["--version"]:
        given = ["version"]
    try:
        status = _run(words.routed(given))
    except RaiError as error:
        if debug:
            traceback.print_exc()
        _report(error)
        sys.exit(error.reason.exit_code)
    except KeyboardInterrupt:
        sys.exit(Reason.CANCELLED.exit_code)
    except BrokenPipeError:
        os._exit(READER_LEFT)
    except OSError as error:
        # A full disk, a missing permission, a closed stream: not an error of rai.
        if debug:
            traceback.print_exc()
        name = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"{name}{error.strerror or error}\n")
        os._exit(Reason.INTERNAL.exit_code)
    except Exception as error:
        if debug:
            traceback.print_exc()
        internal = RaiError(f"{type(error).__name__}: {error}")
        _report(internal)
        sys.exit(Reason.INTERNAL.exit_code)
    # Everything is closed and written; the interpreter's own exit takes 20 ms more.
    os._exit(status)


def _run(given: list[str]) -> int:
    """Run a command and return its exit code."""
    # Imports are never garbage; collect less often.
    gc.set_threshold(50_000)
    # Import only the command that is named.
    named = [word for word in given[:1] if word in COMMANDS]
    group = get_command(app(named or COMMANDS))
    _refuse_contradictions(group, given)
    status: object = 0
    try:
        group(given)
    except SystemExit as end:
        status = end.code
    sys.stdout.flush()
    sys.stderr.flush()
    return status if isinstance(status, int) else int(status is not None)


def _refuse_contradictions(group: object, given: list[str]) -> None:
    command: Any = group
    while (commands := getattr(command, "commands", None)) is not None:
        name, *given = given or [""]
        command = commands.get(name)
    if command is None:
        return
    options = [
        words.Option(
            parameter.name or "",
            (*parameter.opts, *parameter.secondary_opts),
            not getattr(parameter, "is_flag", False),
        )
        for parameter in command.params
        if parameter.param_type_name == "option" and not parameter.multiple
    ]
    if found := words.contradictions(given, options):
        raise UsageError(*found)


def _report(error: RaiError) -> None:
    from runner.terminal.problems import problems

    problems(error.problems)
    if error.reason is not Reason.USAGE:  # a usage error says itself what to do
        print(error.reason.advice, file=sys.stderr)
