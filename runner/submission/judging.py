"""Judge a submission on this machine: its runs one after another, as events.

Each is an ordinary run of rai, with a record of its own.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

from msgspec import Struct
from msgspec.structs import replace

from runner import session
from runner.core import Profile, Reason, RunRecord
from runner.core import events as ev
from runner.core.cancel import Cancel
from runner.core.measurement import MeasurementHost
from runner.core.milestone import MilestoneRun
from runner.engines import Choice
from runner.session import Run
from runner.store import measurements
from runner.store.paths import RunPaths
from runner.submission import ending, staging
from runner.submission.host import CONFINING
from runner.submission.outcome import SubmissionOutcome
from runner.submission.proposal import Proposal
from runner.submission.staging import StagedParts, StagingArea


class StageStarted(Struct, frozen=True):
    """A run of a submission begins: its name, and which of how many it is."""

    name: str
    run: Run
    number: int
    count: int


class StageEnded(Struct, frozen=True):
    """A run of a submission has ended."""

    name: str
    record: RunRecord


class SubmissionEnded(Struct, frozen=True):
    """The last event of a submission."""

    outcome: SubmissionOutcome


SubmissionEvent = StageStarted | StageEnded | SubmissionEnded | ev.Event


def judge(proposal: Proposal, cancel: Cancel) -> Generator[SubmissionEvent, None, None]:
    """Run a submission's runs in turn; yield their events among its own.

    The last event is SubmissionEnded. What was staged is removed, whenever it ends.

    Raises:
        RaiError: a run could not be started.
    """
    with staging.area(proposal.settings.home) as area:
        yield from _Submission(proposal, area, cancel).events()


class _Submission:
    """The runs so far, and what they left."""

    def __init__(self, proposal: Proposal, area: StagingArea, cancel: Cancel) -> None:
        self.proposal, self.area, self.cancel = proposal, area, cancel
        self.done: dict[str, RunPaths] = {}
        self.records: dict[str, RunRecord] = {}

    def events(self) -> Generator[SubmissionEvent, None, None]:
        runs = self.proposal.runs
        for number, stage in enumerate(runs, 1):
            run = self._start(stage)
            self.done[stage.name] = run.paths
            yield StageStarted(stage.name, run, number, len(runs))
            with closing(run.events(self.cancel)) as events:
                yield from events
            self.record = run.record
            yield StageEnded(stage.name, self.record)
            if self.cancel.requested or ending.reason(self.record) is not Reason.DONE:
                break
        yield SubmissionEnded(self._outcome(stage))

    def _start(self, stage: MilestoneRun) -> Run:
        """Write the folder of a run, and begin it."""
        proposal, host = self.proposal, self.proposal.host
        team = proposal.submitted.team
        parts = StagedParts(proposal.golden, team, proposal.job)
        earlier = {name: paths.build for name, paths in self.done.items()}
        folder = self.area.stage(stage, parts, earlier)
        options = replace(
            proposal.options,
            engine=host.engine.name if host.engine.name in CONFINING else None,
            profile=Profile.STRICT.value,
            gpus=host.gpus if stage.gpu else None,
        )
        title = f"{proposal.milestone.name}: {stage.name}"
        project = proposal.submitted.project
        inner = stage is not proposal.runs[-1]
        prepared = session.staged(folder, project, options, title=title, inner=inner)
        return session.start(prepared, choice=Choice((host.engine,), host.why))

    def _outcome(self, stage: MilestoneRun) -> SubmissionOutcome:
        """Return what came of it, after the last run that was begun."""
        proposal, record, paths = self.proposal, self.record, self.done[stage.name]
        milestone = proposal.milestone
        known = MeasurementHost(
            *("", ""),
            why_not_ranked=proposal.uncounted,
            runs=self._ids(),
            golden=proposal.golden.digest,
            sources={file.path: file.sha256 for file in proposal.submitted.team},
            commit=proposal.commit.commit if proposal.commit else "",
        )
        found = ending.of_run(milestone, stage, paths, record, self.area.root, known)
        reason, message = found.reason, found.message
        measurement = found.measurement
        if measurement is not None:
            measurements.keep(paths, measurement)
        elif self.cancel.requested:
            reason, message = self.cancel.end
        return SubmissionOutcome(
            milestone,
            reason,
            message,
            self._ids(),
            proposal.uncounted,
            measurement,
            record,
        )

    def _ids(self) -> dict[str, str]:
        return {name: paths.id for name, paths in self.done.items()}
