"""`rai submit MILESTONE`."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from runner.cli import ci, common, remotely, submitting
from runner.client.api import ServerClient
from runner.client.profile import ProfileEntry
from runner.core import Problem
from runner.core.errors import Cancel, UsageError
from runner.core.events import Finished
from runner.execution import prepare
from runner.execution.session import Run
from runner.report import findings
from runner.report.exports import submission as results
from runner.spec import milestones
from runner.submit import judging, outcome, standings, submission
from runner.submit.outcome import SubmissionOutcome
from runner.submit.submission import Proposal
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
    on: common.On = None,
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
    gradescope: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write Gradescope's results.json."),
    ] = None,
) -> None:
    """Judge a project as a milestone asks.

    It is compiled, checked and measured.

    All problems of its files come first. An accepted result counts: `rai ranking` lists
    it. If you are logged in to a server, that judges, by its own milestones; Ctrl-C
    leaves it going. Without a MILESTONE they are listed.

    \b
    rai submit                        list the milestones
    rai submit final                  measure the project of this folder
    rai submit m2 -p DIR --rehearse   try it without counting
    """
    options = prepare.Options(engine, None, gpus, wait)
    to = remotely.destination(on, options)
    if milestone is None:
        _list(to if isinstance(to, ProfileEntry) else None, as_json=as_json)
        return
    project = common.project(directory, path)
    with ci.session(in_ci, junit, answer=as_json, gradescope=gradescope) as reported:
        if isinstance(to, ProfileEntry):
            given = {"--engine": engine, "--gpus": gpus, "--wait": wait}
            _refuse(to, [name for name, value in given.items() if value])
            console = reported.console(quiet, to_stderr=as_json)
            one, ended = submitting.judge(
                to, milestone, project, reported, console, rehearse=rehearse
            )
            late, more = one.late_s > 0, submitting.counts_now(one)
            _show(ended, reported, more, late=late, as_json=as_json)
        proposal = submission.propose(milestone, project, options, rehearse=rehearse)
        reported.warn(proposal.warnings)
        console = reported.console(quiet, to_stderr=as_json)
        if to is not None:
            text = "Slurm takes no submissions; this machine judges."
            console.line(text, "yellow")
        console.line(submission.described(proposal, datetime.now(UTC)), "cyan")
        for name in proposal.left_out:
            console.line(f"Skipping {name}: it needs a GPU", "yellow")
        late = proposal.milestone.late_s_at(datetime.now(UTC).timestamp()) > 0
        ended = _judge(proposal, reported, console)
        _show(ended, reported, late=late, as_json=as_json)


def _refuse(to: ProfileEntry, given: list[str]) -> None:
    """Refuse the options of a judge on this machine."""
    hint = "`--on here` judges on this machine"
    problems = [
        Problem(f"{name} is not for submissions at {to.url}: it decides", hint=hint)
        for name in given
    ]
    if problems:
        raise UsageError(*problems)


def _list(to: ProfileEntry | None, *, as_json: bool) -> None:
    """List the milestones of a server, or of this machine."""
    if to is not None:
        with ServerClient(to) as client:
            found = client.milestones().milestones
    else:
        folders, now = common.settings().milestones, datetime.now(UTC).timestamp()
        here = [milestones.find(name, folders) for name in milestones.names(folders)]
        found = tuple(standings.view(one, now) for one in here)
    if as_json:
        common.print_json(found)
    else:
        blocks([submitting.milestone_table(found)])


def _judge(
    proposal: Proposal, reported: ci.CiSession, console: Console
) -> SubmissionOutcome:
    """Judge the submission and show it; signals end it cleanly."""
    cancel = Cancel()
    going: Run | None = None
    with (
        common.cancel_on_signals(cancel, console),
        closing(judging.judge(proposal, cancel)) as events,
    ):
        for event in events:
            match event:
                case judging.StageStarted(name, run, number, count):
                    text = f"Run {number} of {count}, {name}: {run.id}"
                    console.line(text, "cyan")
                    going = run
                case judging.StageEnded(_, done):
                    console.close()
                    if going is not None:
                        reported.ended(going.paths, done, going.places)
                case judging.SubmissionEnded(ended):
                    return ended
                case Finished():
                    pass  # the outcome says more
                case _:
                    console.show(event)
    raise AssertionError("a submission ends with its outcome")


def _grade(ended: SubmissionOutcome, more: str, *, late: bool) -> dict[str, object]:
    """Return an outcome for Gradescope: the points, or 1 for an accepted submission."""
    best = ended.measurement.best if ended.measurement and ended.accepted else None
    ms, ratio = (best.ms, best.ratio) if best else (None, None)
    points = ended.milestone.earned(ms, ratio, late=late)
    score = (1.0 if points is None else points) if ended.accepted else 0.0
    most = max((one.points for one in ended.milestone.points), default=1.0)
    said = (outcome.sentence(ended), more, f"{score:g} of {most:g} points.")
    advice = () if ended.accepted else (ended.reason.advice,)

    return results([*filter(None, (*said, *advice))], score, ms, ratio)


def _show(
    ended: SubmissionOutcome,
    reported: ci.CiSession,
    more: str = "",
    *,
    late: bool,
    as_json: bool,
) -> NoReturn:
    """Print the outcome and ``more`` of it, and exit with its status."""
    measured = ended.measurement
    reported.grade = _grade(ended, more, late=late)
    if measured:
        reported.concluded("", findings.measured(measured))
    if not ended.accepted:
        reported.failed("rai: submission", [outcome.sentence(ended)])
    if as_json:
        common.print_json(measured or outcome.plain(ended))
    elif measured:
        blocks(findings.measured(measured))
    elif ended.record and ended.accepted:
        blocks(findings.figures(ended.record.findings))
    console = reported.console()
    good = ended.accepted
    again = f"See it again: rai show {ended.last}" if ended.runs else ""
    text = " ".join(filter(None, (outcome.sentence(ended), more, again)))
    console.line(text, "green" if good else "red")
    if ended.reason.advice:
        console.line(ended.reason.advice, "yellow")
    raise typer.Exit(ended.reason.exit_code)
