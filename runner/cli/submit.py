"""`rai submit MILESTONE`."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated, NoReturn

import typer

from runner import milestones, report, session, submission
from runner.cli import ci, common
from runner.core import Problem, record
from runner.core.cancel import Cancel
from runner.core.errors import UsageError
from runner.core.events import Finished
from runner.session import Run
from runner.submission import outcome
from runner.submission.outcome import SubmissionOutcome
from runner.submission.proposal import Proposal
from runner.terminal.console import Console
from runner.terminal.layout import blocks


def submit(
    milestone: Annotated[
        str | None,
        typer.Argument(
            metavar="MILESTONE", help="m1, m2, m3, m4 or final, or one of your site."
        ),
    ] = None,
    directory: common.Directory = None,
    path: common.ProjectPath = None,
    rehearse: Annotated[
        bool,
        typer.Option("--rehearse", help="Judge it, and do not count the result."),
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
    """Judge a project as a milestone asks.

    It is compiled, checked and measured.

    All problems of its files come first. An accepted result counts: `rai ranking` lists
    it. Nothing is sent from this machine, and nothing is asked.

    \b
    rai submit final                  measure the project of this folder
    rai submit m2 -p DIR --rehearse   try it without counting
    """
    if milestone is None:
        known = ", ".join(milestones.names(common.settings().milestones))
        raise UsageError(Problem("name a milestone", hint=f"there are {known}"))
    options = session.Options(engine, None, gpus, wait)
    project = common.project(directory, path)
    with ci.session(in_ci, junit, answer=as_json) as reported:
        proposal = submission.propose(milestone, project, options, rehearse=rehearse)
        reported.warn(proposal.warnings)
        console = reported.console(quiet, to_stderr=as_json)
        server = proposal.settings.server
        if server and not rehearse:
            text = f"{server} takes no submissions yet; this machine judges."
            console.line(text, "yellow")
        console.line(submission.described(proposal, datetime.now(UTC)), "cyan")
        for name in proposal.left_out:
            console.line(f"Skipping {name}: it needs a GPU", "yellow")
        ended = _judge(proposal, reported, console)
        _show(ended, reported, as_json=as_json)


def _judge(
    proposal: Proposal, reported: ci.CiSession, console: Console
) -> SubmissionOutcome:
    """Judge the submission and show it; signals end it cleanly."""
    from runner.cli import interrupt

    cancel = Cancel()
    going: Run | None = None
    with (
        interrupt.cancel_on_signals(cancel, console),
        closing(submission.judge(proposal, cancel)) as events,
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
    raise AssertionError("a submission ends with its outcome")


def _show(
    ended: SubmissionOutcome, reported: ci.CiSession, *, as_json: bool
) -> NoReturn:
    """Print the outcome, and exit with its status."""
    measured = ended.measurement
    if measured:
        reported.concluded("", report.measured(measured))
    if not ended.accepted:
        reported.failed("rai: submission", [outcome.told(ended)])
    if as_json:
        common.print_json(record.plain(measured or outcome.plain(ended)))
    elif measured:
        blocks(report.measured(measured))
    elif ended.record and ended.accepted:
        blocks(report.figures(ended.record.findings))
    console = reported.console()
    good = ended.accepted
    text = f"{outcome.told(ended)} See it again: rai show {ended.last}"
    console.line(text, "green" if good else "red")
    if not good:
        console.line(ended.reason.advice, "yellow")
    raise typer.Exit(ended.reason.exit_code)
