"""`rai submit` at a server, from its receipt to its verdict, and tables of both."""

from __future__ import annotations

import math
import signal
import time
from pathlib import Path

import typer

from runner.cli import attach, ci, copies, remotely
from runner.client.api import Patience, ServerClient
from runner.client.problems import UnreachableError, shown
from runner.client.profile import ProfileEntry
from runner.core import Reason, quantities
from runner.core.errors import RaiError
from runner.core.wire import MilestoneView, Submission
from runner.execution import places
from runner.execution.prepare import settings as read_settings
from runner.execution.server import copied, name_of
from runner.report import phrases
from runner.report.blocks import Table, filled
from runner.report.phrases import late_text
from runner.store import runs
from runner.store.paths import RunPaths
from runner.submit import standings, submission
from runner.submit.outcome import REHEARSED, SubmissionOutcome, verdict
from runner.terminal.console import Console

LOOK_S = 0.5
LISTED = "rai submissions"


def judge(
    entry: ProfileEntry,
    name: str,
    project: Path,
    reported: ci.CiSession,
    console: Console,
    *,
    rehearse: bool,
) -> tuple[Submission, SubmissionOutcome]:
    """Submit a project at a server, and show what happens to its verdict.

    Ctrl-C leaves it going once there is a receipt.
    """
    settings, _ = read_settings()
    with ServerClient(entry) as client:
        client.patience = _patience(console, remotely.STARTS_S)
        checked = submission.check(client, name, project, settings)
        reported.warn(checked.warnings)
        size = quantities.size(sum(file.size_bytes for file in checked.files))
        at = name_of(entry.url)
        text = f"Submitting to {checked.milestone.name} ({checked.milestone.title})"
        console.line(f"{text} at {at}: {size}", "cyan")
        client.patience = _patience(console, math.inf)
        one = submission.send(client, checked, settings.home, rehearse=rehearse)
        console.line(receipt(one), "cyan")
        try:
            following = _Following(client, console, one.number, settings.home)
            one = following.to_the_end(len(checked.milestone.runs))
        except KeyboardInterrupt:
            console.close()
            text = f"{titled(one)} goes on. Look again: {LISTED} {one.milestone}"
            console.line(text, "yellow")
            raise typer.Exit(Reason.CANCELLED.exit_code) from None
        for paths in following.copies:
            reported.ended(paths, places.record_of(paths))
    last, measured = following.copies[-1:], one.measured
    if measured is not None and last and last[0].id == one.runs[-1].run:
        runs.keep_measurement(last[0], measured)
    host = measured.host if measured else None
    uncounted = (REHEARSED,) if one.rehearsal else ()
    return one, SubmissionOutcome(
        checked.milestone,
        one.reason or Reason.INTERNAL,
        shown(one.message),
        standings.latest(one.runs),
        tuple(map(shown, host.why_not_ranked)) if host else uncounted,
        measured,
        places.record_of(last[0]) if last else None,
        f"see {LISTED}",
    )


class _Following:
    """Shows a submission's runs; ``copies`` are those that came here."""

    def __init__(
        self, client: ServerClient, console: Console, number: int, home: Path
    ) -> None:
        self._client, self._console, self._number = client, console, number
        self._home = places.open_home(home)
        self.copies: list[RunPaths] = []

    def to_the_end(self, stages: int) -> Submission:
        """Show what happens until there is a verdict; return the submission then.

        Raises:
            KeyboardInterrupt: by Ctrl-C or SIGTERM; it goes on.
        """
        seen = 0
        names: list[str] = []
        while True:
            one = self._client.submission(self._number)
            for run in one.runs[seen:]:
                if run.name in names:
                    why = shown(one.runs[seen - 1].why) or "it was lost"
                    self._console.line(f"{run.name} is repeated: {why}", "yellow")
                names.append(run.name)
                number = len(dict.fromkeys(names))
                text = f"Run {number} of {stages}, {shown(run.name)}: {run.run}"
                self._console.line(text, "cyan")
                self._follow(run.run)
                seen += 1
            if one.ended_at is not None:
                self._console.close()
                return one
            time.sleep(LOOK_S)

    def _follow(self, run: str) -> None:
        """Show a run from its place in the queue to its end."""
        paths = self._home.run(run)
        try:
            if not paths.root.is_dir():
                copied(self._home, run, self._client.entry)
        except RaiError:
            return  # it never began
        self.copies.append(paths)
        with copies.kept(paths, self._console) as copy:
            watched = attach.WatchedRun(paths, self._console, copy)
            if watched.follow((signal.SIGINT, signal.SIGTERM)):
                raise KeyboardInterrupt


def _patience(console: Console, seconds: float) -> Patience:
    """Ask again for so long; that is printed once."""
    told: list[UnreachableError] = []

    def tell(error: UnreachableError) -> None:
        if not told:
            text = f"The server does not answer ({error}); trying again."
            console.line(text, "yellow")
        told.append(error)

    return Patience(seconds, tell)


def titled(one: Submission) -> str:
    """Return what a submission is called."""
    return f"{'Rehearsal' if one.rehearsal else 'Submission'} {one.number}"


def receipt(one: Submission) -> str:
    """Return a receipt in words."""
    late = f", {late_text(one.late_s)} late" if one.late_s else ""
    of = f" of {one.attempts}" if one.attempts is not None else ""
    attempt = "" if one.rehearsal else f"; attempt {one.attempt}{of}"
    when = moment(one.received_at)
    return f"{titled(one)} received {when}{late}{attempt}; SHA-256 {shown(one.sha256)}"


def moment(at: float) -> str:
    """Return a time of this machine's zone, with the zone."""
    return f"{phrases.date(at)} {time.strftime('%Z', time.localtime(at))}"


def counts_now(one: Submission) -> str:
    """Return whether a submission counts, and what it earns, in sentences."""
    if not one.may_count:
        return ""
    said = "It counts now." if one.counts else "An earlier one counts still."
    points = "" if one.points is None else f" Points: {one.points:g}."
    return said + points


def milestone_table(some: tuple[MilestoneView, ...]) -> Table:
    """Return milestones with their deadlines in local time, and what is left."""
    rows = []
    for one in some:
        due = moment(one.deadline) if one.deadline is not None else ""
        due += " (closed)" if one.closed else ""
        most = one.attempts
        left = "" if most is None else f"{max(most - one.used, 0)} of {most}"
        last = shown(verdict(one.last)) if one.last else ""
        rows.append((shown(one.name), shown(one.title), due, left, last))
    heads = ("milestone", "title", "deadline", "attempts left", "last verdict")
    return filled("", heads, rows)
