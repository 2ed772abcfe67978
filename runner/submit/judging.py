"""Judge a submission on this machine: its runs one after another, and their ends."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import closing, suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from runner.core import Profile, Reason, RunRecord
from runner.core import events as ev
from runner.core.errors import Cancel, RaiError
from runner.core.measurement import (
    MEASUREMENT_BYTES,
    MEASUREMENT_FILE,
    Measurement,
    MeasurementError,
    MeasurementHost,
    read,
)
from runner.core.milestone import Held, HeldKind, Milestone, MilestoneRun, Trust
from runner.engines import Choice
from runner.run import prepare, session
from runner.run.session import Run
from runner.store import runs as measurements
from runner.store.paths import RunPaths
from runner.submit import outcome, staging
from runner.submit.host import CONFINING
from runner.submit.outcome import SubmissionOutcome
from runner.submit.staging import StagedParts, StagingArea
from runner.submit.submission import Proposal
from runner.system import files

MOST_SAID = 1000
"""Bytes at one end of stderr in which the line is that says why a run failed."""

MEASURED = ".measured"
"""The folder that a judge's measurement is taken to. No run has such a name."""


class RunEnd(Struct, frozen=True):
    """How a run of a submission ended, and what it measured."""

    reason: Reason
    message: str
    measurement: Measurement | None = None


def reason(record: RunRecord) -> Reason:
    """Return the reason of a run's end."""
    return record.verdict.reason if record.verdict else Reason.RUNNER_LOST


def of_run(
    milestone: Milestone,
    stage: MilestoneRun,
    paths: RunPaths,
    record: RunRecord,
    scratch: Path,
    known: MeasurementHost,
) -> RunEnd:
    """Return how a run ended; ``scratch`` is a folder for what is unpacked of it.

    What is ``known`` of the submission becomes its measurement's, with what is of this
    run.
    """
    judges = stage is milestone.runs[-1] and milestone.trust is not Trust.RECORDED
    if judges and reason(record) is Reason.DONE:
        try:
            found = (
                outcome.timed(record, milestone)
                if milestone.trust is Trust.TIMED
                else measured(stage, paths, scratch / MEASURED)
            )
        except RaiError as error:
            return RunEnd(Reason.INTERNAL, f"the judge failed: {error}")
        ranked = found.accepted and milestone.trust.ranks
        host = replace(
            known,
            title=milestone.title,
            trust=milestone.trust,
            ranked=ranked and not known.why_not_ranked,
            engine=record.engine.name if record.engine else "",
            image=record.image.digest if record.image else "",
            at=record.created_at,
        )
        ended = outcome.judged(found, milestone.trust)
        return RunEnd(*ended, replace(found, host=host))
    said = _said(stage, paths)
    return RunEnd(*outcome.failed(record, stage, milestone, said))


def measured(stage: MilestoneRun, paths: RunPaths, into: Path) -> Measurement:
    """Return the measurement of a run.

    Raises:
        RaiError: it left none, or what it left cannot be one.
    """
    wanted = Held(
        HeldKind.BUILD,
        of=stage.name,
        patterns=(MEASUREMENT_FILE,),
        most_bytes=MEASUREMENT_BYTES,
    )
    if not (paths.build.exists() and staging.take(wanted, paths.build, into)):
        raise MeasurementError(f"{stage.name} left no {MEASUREMENT_FILE}")
    return read(files.read_below(into, MEASUREMENT_FILE, MEASUREMENT_BYTES))


def _said(stage: MilestoneRun, paths: RunPaths) -> str:
    """Return the line in which a program of the judge says why it failed, or "".

    A compiler's output stands below it, what the team's program printed above it.
    """
    if stage.own_image:
        return ""
    with suppress(OSError), files.open_regular(paths.stderr) as log:
        if not stage.held(HeldKind.TEAM):
            log.seek(max(0, log.seek(0, os.SEEK_END) - MOST_SAID))
        lines = log.read(MOST_SAID).decode(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        if said:
            return said[0 if stage.held(HeldKind.TEAM) else -1]
    return ""


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
            if self.cancel.requested or reason(self.record) is not Reason.DONE:
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
        prepared = prepare.staged(folder, project, options, title=title, inner=inner)
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
        found = of_run(milestone, stage, paths, record, self.area.root, known)
        reason, message = found.reason, found.message
        measurement = found.measurement
        if measurement is not None:
            measurements.keep_measurement(paths, measurement)
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
