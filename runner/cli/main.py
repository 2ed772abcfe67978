"""The door: routes the words, runs a command, turns errors into reports."""

from __future__ import annotations

import sys
import traceback
from typing import Annotated, NoReturn

import typer
from typer.main import get_command

from runner.cli import (
    doctor,
    history,
    init,
    logs,
    parse,
    ps,
    pull,
    run,
    show,
    validate,
    version,
    words,
)
from runner.errors import RaiError, UsageError
from runner.model import Reason

app = typer.Typer(
    name="rai",
    add_completion=True,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Run a project's rai_build.yml in a container or a sandbox, and keep a record."
    " `rai -p DIR` is `rai run -p DIR`.",
)
for command in (
    run.run,
    validate.validate,
    ps.ps,
    history.history,
    show.show,
    logs.logs,
    pull.pull,
    parse.parse,
    doctor.doctor,
    init.init,
    version.version,
):
    app.command()(command)


@app.callback()
def root(
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version and leave.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show a traceback with an error.")
    ] = False,
) -> None:
    """Say what rai is."""


def main() -> NoReturn:
    """Run the command line of this process."""
    given, debug = words.without_debug(sys.argv[1:])
    if given == ["--version"]:
        given = ["version"]
    try:
        given = words.routed(given)
        _refuse_contradictions(given)
        app(given)
    except RaiError as error:
        if debug:
            traceback.print_exc()
        _report(error)
        sys.exit(error.reason.exit_code)
    except KeyboardInterrupt:
        sys.exit(Reason.CANCELLED.exit_code)
    except BrokenPipeError:
        # The reader of our listing left; 141 is what a shell reports for SIGPIPE.
        sys.stderr.close()
        sys.exit(141)
    except Exception as error:
        if debug:
            traceback.print_exc()
        internal = RaiError(f"{type(error).__name__}: {error}")
        _report(internal)
        sys.exit(Reason.INTERNAL.exit_code)
    sys.exit(0)


def _refuse_contradictions(given: list[str]) -> None:
    group = get_command(app)
    command = getattr(group, "commands", {}).get(given[0] if given else "")
    if command is None:
        return
    options = [
        words.Option(
            parameter.name or "",
            (*parameter.opts, *parameter.secondary_opts),
            not getattr(parameter, "is_flag", False),
        )
        for parameter in command.params
        if parameter.param_type_name == "option"
    ]
    if found := words.contradictions(given[1:], options):
        raise UsageError(*found)


def _report(error: RaiError) -> None:
    from runner.term.problems import problems

    problems(error.problems)
    print(error.reason.advice, file=sys.stderr)
