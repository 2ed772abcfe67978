"""The entry point: find the command, run it, and report errors."""

from __future__ import annotations

import gc
import os
import platform
import re
import sys
import traceback
import warnings
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer._completion_classes import completion_init
from typer._completion_shared import get_completion_script, install
from typer.core import TyperGroup
from typer.main import get_command

from runner.cli import original
from runner.core import Problem, Reason, Severity
from runner.core.errors import RaiError, UsageError
from runner.system import files
from runner.terminal import streams

READER_LEFT = 141
"""The exit code that a shell reports for a program that SIGPIPE ended."""

COMPLETE = "_RAI_COMPLETE"
"""The variable by which a shell asks what may stand at the end of a command line."""

GROUPS = {
    "Run": {
        "run": "Run a project's rai_build.yml and keep a record of it.",
        "bench": "Measure versions in turn, and say whether one is slower.",
        "validate": "Check rai_build.yml and show the plan of its run.",
        "init": "Create a small rai_build.yml to start from, or a milestone's project.",
        "replay": "Run an earlier run again, and show what differed.",
        "shell": "Open a shell where a run's commands ran.",
        "attach": "Show a run from its first line to its end.",
        "wait": "Wait for runs to end; exit with the first status that is not 0.",
        "cancel": "Stop runs.",
    },
    "Look": {
        "runs": "List runs, newest first.",
        "show": "Show a run's settings, commands, results and figures.",
        "logs": "Print the output of a run's commands.",
        "diff": "Show what differs between two runs.",
        "report": "Make a report of runs, with the figures a milestone asks for.",
        "timeline": "Show in a browser what a profiler recorded over time.",
        "pull": "Unpack a run's build folder into a new folder.",
        "tag": "Name a run, and keep it from being removed.",
        "rm": "Remove runs that have ended, with all that is kept of them.",
        "prune": "Remove old runs, and what else rai keeps and nobody uses.",
        "parse": "Print the figures in a program's output.",
    },
    "Submit": {
        "submit": "Judge a project as a milestone asks.",
        "submissions": "List your team's submissions at the server, newest first.",
        "ranking": "List accepted submissions, best first.",
    },
    "Server": {
        "login": "Log in to a server with an invitation code.",
        "web": "Open the server's pages: your runs and submissions, and the standings.",
        "logout": "Log out at a server: revoke the token, and forget it.",
        "server": "Serve a machine's GPUs to several people.",
    },
    "Machine": {
        "doctor": "Check what this machine can run, and how.",
        "config": "List the settings, each with its value.",
        "image": "Build a project's image; list and remove built images.",
    },
}
"""The commands in the order of the help, each with its line there.

Each is a module with a function, or a group of commands, of the same name.
"""

COMMANDS = tuple(name for group in GROUPS.values() for name in group)
ALIASES = {"ps": "runs", "history": "runs", "queue": "runs"}
"""Commands that the help does not list: functions of another one's module."""

_WARNED: set[str] = set()

ALIKE = 0.7
"""How alike two words are, by difflib, if one is offered for the other."""


class Commands(TyperGroup):
    """The commands; only the one that is named is imported."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - typer hides the type
        """Return the names in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401 - as above
        """Return a command, or None if there is none of this name."""
        return command(cmd_name) if cmd_name in (*COMMANDS, *ALIASES) else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - as above
        """Write the list of the help, each command on one line."""
        wide = max(map(len, COMMANDS))
        for title, lines in GROUPS.items():
            with formatter.section(title):
                rows = [(f"{name:{wide}}", text) for name, text in lines.items()]
                formatter.write_dl(rows)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - as above
        """Run the command that is named."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            if not hasattr(error, "format_message"):  # typer's, about the words given
                raise
            named = ctx.invoked_subcommand or ""
            under = self.get_command(ctx, named)
            names = getattr(under, "commands", ())
            line = f"rai {named}".rstrip()
            raise UsageError(_correction(error, line, names)) from error


@cache
def command(name: str) -> Any:  # noqa: ANN401 - typer hides the type
    """Return a command, or a group of commands, as typer makes it."""
    module = import_module(f"runner.cli.{ALIASES.get(name, name)}")
    found = getattr(module, name)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(name)(found)
        found = alone
    made: Any = get_command(found)
    made.name = name
    return made


def app() -> Any:  # noqa: ANN401 - typer hides the type
    """Return the command line."""
    made = typer.Typer(
        name="rai",
        cls=Commands,
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={
            "help_option_names": ["-h", "--help"],
            "max_content_width": 100,
        },
        help="Run a project's rai_build.yml in a container or a sandbox, and keep a"
        " record. `rai -p DIR` is `rai run -p DIR`.",
    )
    made.callback()(root)
    return get_command(made)


def _show_version(wanted: bool) -> None:
    if wanted:
        from runner import __version__

        streams.say(f"rai {__version__} (Python {platform.python_version()})")
        raise typer.Exit


def _show_completion(shell: str | None) -> None:
    if shell:
        script = get_completion_script(
            prog_name="rai", complete_var=COMPLETE, shell=shell
        )
        streams.write_line(script, sys.stdout)
        raise typer.Exit


def _install_completion(shell: str | None) -> None:
    if shell:
        _, path = install(shell=shell, prog_name="rai", complete_var=COMPLETE)
        streams.say(f"Wrote {path}. Completion works in the next shell.")
        raise typer.Exit


def root(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Show the version and exit.",
        ),
    ] = False,
    install_completion: Annotated[
        str | None,
        typer.Option(
            metavar="SHELL",
            callback=_install_completion,
            help="Let bash, zsh or fish complete commands, options and runs.",
        ),
    ] = None,
    show_completion: Annotated[
        str | None,
        typer.Option(
            metavar="SHELL",
            callback=_show_completion,
            help="Print the script that does so.",
        ),
    ] = None,
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
    status = _completed() if COMPLETE in os.environ else _status(sys.argv[1:])
    if (ci := sys.modules.get("runner.terminal.ci")) is not None:
        ci.end()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    # Everything is closed and written; the interpreter's own exit takes 20 ms more.
    os._exit(status)


def _completed() -> int:
    """Print what a shell may offer. An error says nothing: somebody is typing."""
    completion_init()
    with suppress(Exception, SystemExit):
        app().main([], prog_name="rai", complete_var=COMPLETE)
    return 0


def _status(arguments: Sequence[str]) -> int:
    """Run the command, report its errors, and return its exit code."""
    debug = original.without_debug(arguments)[1]
    try:
        line = original.read(arguments, (*COMMANDS, *ALIASES))
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
        found = _explained(error)
        _report(found, debug)
        return found.reason.exit_code
    except Exception as error:
        _report(RaiError(f"{type(error).__name__}: {error}"), debug)
    return Reason.INTERNAL.exit_code


def _run(given: list[str]) -> int:
    """Run a command and return its exit code."""
    # Imports are never garbage; collect less often.
    gc.set_threshold(50_000)
    known = (*COMMANDS, *ALIASES)
    if given[:1] and given[0][:1] != "-" and given[0] not in known:
        raise UsageError(unknown_command(given[0], known))
    _refuse_contradictions(given)
    status: object = 0
    try:
        app()(given, prog_name="rai")
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            raise end.__context__ from None
        status = end.code
    sys.stdout.flush()
    return status if isinstance(status, int) else int(status is not None)


def _explained(error: OSError) -> RaiError:
    """Return what is wrong with a file, or with stdout, and what to do."""
    try:
        sys.stdout.flush()
    except OSError as unwritten:
        error = streams.unwritten(unwritten, sys.stdout)
    return RaiError(files.problem(error), reason=files.reason(error), advice="")


def _refuse_contradictions(given: list[str]) -> None:
    name, *given = given or [""]
    found: Any = command(name) if name in (*COMMANDS, *ALIASES) else None
    while (commands := getattr(found, "commands", None)) is not None:
        name, *given = given or [""]
        found = commands.get(name)
    if found is None:
        return
    options = [
        original.Option(
            parameter.name or "",
            (*parameter.opts, *parameter.secondary_opts),
            not getattr(parameter, "is_flag", False),
        )
        for parameter in found.params
        if parameter.param_type_name == "option" and not parameter.multiple
    ]
    if wrong := original.contradictions(given, options):
        raise UsageError(*wrong)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:  # noqa: ANN401
    """Print a warning as others of rai, and each text only once."""
    if (text := str(message)) not in _WARNED:
        _WARNED.add(text)
        _warn([text])


def _warn(texts: Sequence[str]) -> None:
    streams.problems(Problem(text, severity=Severity.WARNING) for text in texts)


def _report(error: RaiError, debug: bool) -> None:
    with suppress(OSError):
        if debug:
            traceback.print_exc()
        streams.problems(error.problems)
        if error.advice:
            streams.say(error.advice, to_stderr=True)


def unknown_command(typed: str, commands: Collection[str]) -> Problem:
    """Return the problem of a command that does not exist, with what may be meant."""
    text = f"rai has no command '{typed}'"
    if Path(typed).is_dir():
        hint = f"`rai run {typed}` runs the project in the folder {typed}"
    elif found := alike(typed, commands):
        hint = _meant([f"rai {name}" for name in found])
    else:
        hint = "`rai --help` lists the commands"
    return Problem(text, hint=hint)


def _correction(error: Any, command: str, commands: Collection[str]) -> Problem:  # noqa: ANN401 - typer hides the type
    """Return what is wrong with a command line, from typer's error about it.

    ``commands`` are those of the group that reported it.
    """
    context = getattr(error, "ctx", None)
    command = context.command_path if context else command
    text, hint = _finding(error, command, commands)
    return Problem(text, hint=hint or f"`{command} --help` shows what it takes")


def _finding(
    error: Any,  # noqa: ANN401 - typer hides the type
    command: str,
    commands: Collection[str],
) -> tuple[str, str]:
    """Return what is wrong, and what to do if that is known."""
    message: str = error.format_message().removesuffix(".")
    option = getattr(error, "option_name", None)
    if option and message.startswith("No such option"):
        found = alike(option, error.possibilities or ())
        return f"{command} has no option {option}", _meant(found)
    if option:
        what = "needs a value" if "requires" in message else "takes no value"
        return f"{option} {what}", ""
    parameter = getattr(error, "param", None)
    if parameter is not None and message.startswith("Missing argument"):
        name = parameter.make_metavar(error.ctx).strip("{}")
        if name.startswith("RUN"):
            return "name the run", f"for the last one: {command} latest"
        return f"{name} is missing", ""
    least = getattr(getattr(parameter, "type", None), "min", None)
    if parameter is not None and least is not None:
        value = error.message.partition(" is not ")[0].strip("'")
        expected = f"a whole number of at least {least}"
        return f'{parameter.opts[0]} is "{value}"; expected {expected}', ""
    if typed := re.fullmatch(r"No such command '(.*?)'.*", message, re.DOTALL):
        found = alike(typed[1], commands)
        meant = [f"{command} {name}" for name in found]
        return f"{command} has no command '{typed[1]}'", _meant(meant)
    if extra := re.fullmatch(
        r"Got unexpected extra argument\(s\) \((.*)\)", message, re.DOTALL
    ):
        return f"{command} does not take '{extra[1]}'", ""
    return f"{command}: {message[:1].lower()}{message[1:]}", ""


def _meant(found: Sequence[str]) -> str:
    words = " or ".join(f"`{word}`" for word in found)
    return f"did you mean {words}?" if words else ""


def alike(typed: str, known: Iterable[str]) -> list[str]:
    """Return the words that begin as a word does; if none does, those much like it."""
    known = [*known]
    if found := [name for name in known if name.startswith(typed)]:
        return found

    bare, word = {name.lstrip("-"): name for name in known}, typed.lstrip("-")
    swapped = [name for name in bare if sorted(name) == sorted(word)]
    found = swapped or get_close_matches(word, bare, 2, ALIKE)
    return [bare[name] for name in found]


if __name__ == "__main__":
    main()
