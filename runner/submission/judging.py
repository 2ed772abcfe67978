"""Judge a submission on this machine: its runs one after another, as events.

Each is an ordinary run of rai, with a record of its own.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import closing, suppress

from msgspec import Struct
from msgspec.structs import replace

from runner import files, session
from runner.core import Profile, Reason, RunRecord
from runner.core import events as ev
from runner.core.cancel import Cancel
from runner.core.errors import RaiError
from runner.core.measurement import (
    MEASUREMENT_BYTES,
    MEASUREMENT_FILE,
    Measurement,
    MeasurementError,
    MeasurementHost,
    read,
)
from runner.core.milestone import Held, HeldKind, MilestoneRun, Trust
from runner.engines import Choice
from runner.session import Run
from runner.store import measurements
from runner.store.paths import RunPaths
from runner.submission import outcome, staging
from runner.submission.host import CONFINING
from runner.submission.outcome import SubmissionOutcome
from runner.submission.proposal import Proposal
from runner.submission.staging import StagedParts, StagingArea

MOST_SAID = 1000
"""Bytes at one end of stderr in which the line is that says why a run failed."""

MEASURED = ".measured"
"""The folder that a judge's measurement is taken to. No run has such a name."""


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
            if self.cancel.requested or _reason(self.record) is not Reason.DONE:
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
        proposal, record = self.proposal, self.record
        milestone = proposal.milestone
        judges = stage is milestone.runs[-1] and milestone.trust is not Trust.RECORDED
        measurement: Measurement | None = None
        left_none = ""
        if judges and _reason(record) is Reason.DONE:
            try:
                measurement = self._measured(stage)
            except RaiError as error:
                left_none = str(error)
        if measurement is not None:
            reason, message = outcome.judged(measurement, milestone.trust)
        elif self.cancel.requested:
            reason, message = self.cancel.end
        elif left_none and _reason(record) is Reason.DONE:
            reason, message = Reason.INTERNAL, f"the judge failed: {left_none}"
        else:
            said = self._said(stage)
            reason, message = outcome.failed(record, stage, milestone, said)
        return SubmissionOutcome(
            milestone,
            reason,
            message,
            self._ids(),
            proposal.uncounted,
            measurement,
            record,
        )

    def _measured(self, stage: MilestoneRun) -> Measurement:
        """Keep the measurement of a run in its folder, and return it.

        Raises:
            RaiError: it left none, or what it left cannot be one.
        """
        paths, into = self.done[stage.name], self.area.root / MEASURED
        wanted = Held(
            HeldKind.BUILD,
            of=stage.name,
            patterns=(MEASUREMENT_FILE,),
            most_bytes=MEASUREMENT_BYTES,
        )
        if not (paths.build.exists() and staging.take(wanted, paths.build, into)):
            raise MeasurementError(f"{stage.name} left no {MEASUREMENT_FILE}")
        told = read(files.read_below(into, MEASUREMENT_FILE, MEASUREMENT_BYTES))
        whole = replace(told, host=self._host(accepted=told.accepted))
        measurements.keep(paths, whole)
        return whole

    def _host(self, *, accepted: bool) -> MeasurementHost:
        """Return what rai knows of the submission, and the judge cannot."""
        proposal, record = self.proposal, self.record
        trust = proposal.milestone.trust
        return MeasurementHost(
            title=proposal.milestone.title,
            trust=trust,
            ranked=accepted and trust is Trust.RANKED and not proposal.uncounted,
            why_not_ranked=proposal.uncounted,
            runs=self._ids(),
            engine=proposal.host.engine.name,
            image=record.image.digest if record.image else "",
            golden=proposal.golden.digest,
            sources={file.path: file.sha256 for file in proposal.submitted.team},
            commit=proposal.commit.commit if proposal.commit else "",
            at=record.created_at,
        )

    def _said(self, stage: MilestoneRun) -> str:
        """Return the line in which a program of the judge says why it failed, or "".

        A compiler's output stands below it, what the team's program printed above it.
        """
        if stage.own_image:
            return ""
        with suppress(OSError), files.open_regular(self.done[stage.name].stderr) as log:
            if not stage.held(HeldKind.TEAM):
                log.seek(max(0, log.seek(0, os.SEEK_END) - MOST_SAID))
            lines = log.read(MOST_SAID).decode(errors="replace").split("\n")
            said = [line.strip() for line in lines if line.strip()]
            if said:
                return said[0 if stage.held(HeldKind.TEAM) else -1]
        return ""

    def _ids(self) -> dict[str, str]:
        return {name: paths.id for name, paths in self.done.items()}


def _reason(record: RunRecord) -> Reason:
    return record.verdict.reason if record.verdict else Reason.RUNNER_LOST
