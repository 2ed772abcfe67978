"""The entry point: find the command, run it, and report errors."""

from __future__ import annotations

import gc
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command

from runner import files
from runner.cli import corrections, original, suggestions, words
from runner.core import Problem, Reason, Severity
from runner.core.errors import RaiError, UsageError
from runner.terminal import streams

READER_LEFT = 141
"""The exit code that a shell reports for a program that SIGPIPE ended."""

COMMANDS = (
    "run",
    "bench",
    "submit",
    "replay",
    "attach",
    "wait",
    "cancel",
    "shell",
    "validate",
    "ps",
    "history",
    "show",
    "diff",
    "logs",
    "report",
    "export",
    "timeline",
    "pull",
    "tag",
    "note",
    "rm",
    "prune",
    "parse",
    "doctor",
    "config",
    "init",
    "version",
    "completion",
    "login",
    "logout",
    "whoami",
    "queue",
    "image",
    "server",
)
"""The commands in the order of the help.

Each is a module with a function, or a group of commands, of the same name.
"""


_WARNED: set[str] = set()


class Commands(TyperGroup):
    """The commands, with our own words about a wrong command line."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - typer hides the type
        """Run the command that is named."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            if not hasattr(error, "format_message"):  # typer's, about the words given
                raise
            command = f"rai {ctx.invoked_subcommand or ''}".rstrip()
            under: Any = self.commands.get(ctx.invoked_subcommand or "")
            names = getattr(under, "commands", ())
            raise UsageError(corrections.problem(error, command, names)) from error


def app(names: Sequence[str] = COMMANDS) -> typer.Typer:
    """Return the command line with all commands, or with the named ones."""
    made = typer.Typer(
        name="rai",
        cls=Commands,
        add_completion=False,
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
    streams.open_closed()
    streams.pass_names()
    warnings.showwarning = _show_warning
    if sys.argv[1:2] == [suggestions.WORD]:
        suggestions.show(sys.argv[2:], COMMANDS, command)
        sys.stdout.flush()
        os._exit(0)
    status = _status(sys.argv[1:])
    if (ci := sys.modules.get("runner.terminal.ci")) is not None:
        ci.end()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    # Everything is closed and written; the interpreter's own exit takes 20 ms more.
    os._exit(status)


def command(name: str) -> Any:  # noqa: ANN401 - typer hides the type
    """Return a command as typer makes it."""
    return get_command(app([name])).commands[name]  # type: ignore[attr-defined]


def _status(arguments: Sequence[str]) -> int:
    """Run the command, report its errors, and return its exit code."""
    debug = words.without_debug(arguments)[1]
    try:
        line = original.read(arguments, COMMANDS)
        debug = line.debug
        if not line.colour:
            os.environ["NO_COLOR"] = "1"
        _warn(line.notes)
        return _run(line.words)
    except KeyboardInterrupt:
        return Reason.CANCELLED.exit_code
    except BrokenPipeError:
        return READER_LEFT
    except RaiError as error:
        _report(error, debug)
        return error.reason.exit_code
    except OSError as error:
        # A full disk, a missing permission, a closed stream: not an error of rai.
        _report(UsageError(_explained(error)), debug)
    except Exception as error:
        _report(RaiError(f"{type(error).__name__}: {error}"), debug)
    return Reason.INTERNAL.exit_code


def _run(given: list[str]) -> int:
    """Run a command and return its exit code."""
    # Imports are never garbage; collect less often.
    gc.set_threshold(50_000)
    if given[:1] and given[0][:1] != "-" and given[0] not in COMMANDS:
        raise UsageError(corrections.unknown_command(given[0], COMMANDS))
    # Import only the command that is named.
    named = [word for word in given[:1] if word in COMMANDS]
    group = get_command(app(named or COMMANDS))
    _refuse_contradictions(group, given)
    status: object = 0
    try:
        group(given)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            raise end.__context__ from None
        status = end.code
    sys.stdout.flush()
    return status if isinstance(status, int) else int(status is not None)


def _explained(error: OSError) -> Problem:
    """Return what is wrong with a file, or with stdout, and what to do."""
    try:
        sys.stdout.flush()
    except OSError as unwritten:
        error = streams.unwritten(unwritten, sys.stdout)
    return files.problem(error)


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


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:  # noqa: ANN401
    """Print a warning as others of rai, and each text only once."""
    if (text := str(message)) not in _WARNED:
        _WARNED.add(text)
        _warn([text])


def _warn(texts: Sequence[str]) -> None:
    from runner.terminal.problems import problems

    problems([Problem(text, severity=Severity.WARNING) for text in texts])


def _report(error: RaiError, debug: bool) -> None:
    from runner.terminal.problems import problems

    with suppress(OSError):
        if debug:
            traceback.print_exc()
        problems(error.problems)
        # A usage error says itself what to do.
        if error.advice and error.reason is not Reason.USAGE:
            streams.say(error.advice, to_stderr=True)


if __name__ == "__main__":  # as a server starts its job host
    main()
