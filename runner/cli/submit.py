"""`rai submit MILESTONE --rehearse`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from runner.cli import ci, common
from runner.terminal.streams import say

if TYPE_CHECKING:
    from runner.session import Run
    from runner.submission.outcome import SubmissionOutcome
    from runner.submission.proposal import Proposal

NOT_YET = "nothing is wrong with the files, but no server takes submissions yet"
REHEARSE = "--rehearse does all of it on this machine"


def submit(
    milestone: Annotated[
        str | None,
        typer.Argument(
            metavar="MILESTONE", help="m1, m2, m3, m4 or final, or one of your site."
        ),
    ] = None,
    directory: common.Directory = None,
    path: common.ProjectPath = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")
    ] = False,
    rehearse: Annotated[
        bool,
        typer.Option(
            "--rehearse",
            help="Carry it out on this machine, for yourself; it does not count.",
        ),
    ] = False,
    engine: common.Engine = None,
    gpus: Annotated[
        str | None,
        typer.Option(metavar="UUID", help="The GPU that it is measured on."),
    ] = None,
    wait: common.Wait = None,
    quiet: common.Quiet = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print measurement.json on stdout; the rest goes to stderr."
        ),
    ] = False,
    in_ci: ci.Ci = None,
    junit: ci.Junit = None,
) -> None:
    """Check what a milestone asks of a project, run it, and judge it.

    It says every problem of the project's files first, then shows what is sent and run,
    and asks once. Without --rehearse it only checks.

    \b
    rai submit final --rehearse       measure the project of this folder
    rai submit m2 -p DIR --rehearse   check the results of another
    """
    from runner import milestones, session, submission
    from runner.core import Problem, Reason
    from runner.core.errors import RaiError, UsageError

    if milestone is None:
        known = ", ".join(milestones.names(common.settings().milestones))
        raise UsageError(Problem("name a milestone", hint=f"there are {known}"))
    options = session.Options(engine, None, gpus, wait)
    project = common.project(directory, path)
    not_yet = Problem(f"rai submit {milestone}: {NOT_YET}", hint=REHEARSE)
    with ci.session(in_ci, junit, answer=as_json) as reported:
        try:
            proposal = submission.propose(milestone, project, options)
        except RaiError as error:
            if rehearse or error.reason not in {Reason.NO_GPU, Reason.NO_ENGINE}:
                raise
            # The files are right, and that is all that was asked for.
            raise UsageError(not_yet, *error.problems) from error
        reported.warn(proposal.warnings)
        if not rehearse:
            raise UsageError(not_yet)
        _ask(proposal, yes=yes)
        ended = _carry_out(proposal, reported, quiet=quiet, as_json=as_json)
        _show(ended, reported, as_json=as_json)


def _ask(proposal: Proposal, *, yes: bool) -> None:
    """Show what is sent and run, and ask once.

    Raises:
        UsageError: there is nobody to ask.
        typer.Exit: the answer is no.
    """
    from datetime import UTC, datetime

    from runner.core import Problem, Reason
    from runner.core.errors import UsageError
    from runner.submission import shown
    from runner.terminal.tables import blocks

    blocks(shown.proposed(proposal, datetime.now(UTC)), to_stderr=True)
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        text = "there is no terminal to ask for confirmation in"
        raise UsageError(Problem(text, hint="-y goes on without asking"))
    say(to_stderr=True, now=True)
    if not typer.confirm("Rehearse this submission?", err=True):
        raise typer.Exit(Reason.CANCELLED.exit_code)


def _carry_out(
    proposal: Proposal, reported: ci.CiSession, *, quiet: bool, as_json: bool
) -> SubmissionOutcome:
    """Carry the submission out and show it; signals end it cleanly."""
    from contextlib import closing

    from runner import submission
    from runner.cli import interrupt
    from runner.core.cancel import Cancel
    from runner.core.events import Finished

    cancel = Cancel()
    console = reported.console(common.mode(quiet), to_stderr=as_json)
    going: Run | None = None
    with (
        interrupt.cancel_on_signals(cancel, console),
        closing(submission.rehearse(proposal, cancel)) as events,
    ):
        for event in events:
            match event:
                case submission.StageStarted(name, run, number, count):
                    text = f"Run {number} of {count}, {name}: {run.id}"
                    console.line(text, "cyan")
                    going = run
                case submission.StageEnded(_, done):
                    console.close()
                    if going is not None:
                        reported.ended(going.paths, done, going.places)
                case submission.SubmissionEnded(ended):
                    return ended
                case Finished():
                    pass  # the outcome says more
                case _:
                    console.show(event)
    raise AssertionError("a rehearsal ends with its outcome")


def _show(
    ended: SubmissionOutcome, reported: ci.CiSession, *, as_json: bool
) -> NoReturn:
    """Print the outcome, and exit with its status."""
    from runner import report
    from runner.core import record
    from runner.submission import outcome
    from runner.terminal.console import Mode
    from runner.terminal.tables import blocks

    measured = ended.measurement
    if measured:
        reported.show(report.measured(measured))
    if not ended.accepted:
        reported.failed("rai: submission", [outcome.told(ended)])
    if as_json:
        common.print_json(record.plain(measured or outcome.plain(ended)))
    elif measured:
        blocks(report.measured(measured))
    elif ended.record and ended.accepted:
        blocks(report.figures(ended.record.findings))
    console = reported.console(Mode.AUTO)
    good = ended.accepted
    text = f"{outcome.told(ended)} See it again: rai show {ended.last}"
    console.line(text, "green" if good else "red")
    if not good:
        console.line(ended.reason.advice, "yellow")
    raise typer.Exit(ended.reason.exit_code)
