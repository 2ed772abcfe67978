"""Judge a submission on this machine: its runs one after another, and their ends."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
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
from runner.execution import prepare, session
from runner.execution.session import Run
from runner.store import runs as measurements
from runner.store.paths import RunPaths
from runner.submit import outcome, staging
from runner.submit.host import CONFINING
from runner.submit.outcome import SubmissionOutcome
from runner.submit.staging import StagedParts, StagingArea
from runner.submit.submission import Proposal
from runner.system import files

MOST_REASON = 1000
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
    return RunEnd(*outcome.failed(record, stage, milestone, _reason_line(stage, paths)))


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


def _reason_line(stage: MilestoneRun, paths: RunPaths) -> str:
    """Return the line in which a program of the judge says why it failed, or "".

    A compiler's output stands below it, what the team's program printed above it.
    """
    if stage.own_image:
        return ""
    with suppress(OSError), files.open_regular(paths.stderr) as log:
        if not stage.held(HeldKind.TEAM):
            log.seek(max(0, log.seek(0, os.SEEK_END) - MOST_REASON))
        lines = log.read(MOST_REASON).decode(errors="replace").split("\n")
        full = [line.strip() for line in lines if line.strip()]
        if full:
            return full[0 if stage.held(HeldKind.TEAM) else -1]
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
    done: dict[str, RunPaths] = {}
    with staging.area(proposal.settings.home) as area:
        for number, stage in enumerate(proposal.runs, 1):
            run = _start(proposal, stage, area, done)
            done[stage.name] = run.paths
            yield StageStarted(stage.name, run, number, len(proposal.runs))
            with closing(run.events(cancel)) as events:
                yield from events
            yield StageEnded(stage.name, run.record)
            if cancel.requested or reason(run.record) is not Reason.DONE:
                break
        yield SubmissionEnded(_outcome(proposal, stage, area, done, run, cancel))


def _start(
    proposal: Proposal,
    stage: MilestoneRun,
    area: StagingArea,
    done: Mapping[str, RunPaths],
) -> Run:
    """Write the folder of a run, and begin it; ``done`` are those before it."""
    parts = StagedParts(proposal.golden, proposal.submitted.team, proposal.job)
    folder = area.stage(stage, parts, {name: p.build for name, p in done.items()})
    host, project = proposal.host, proposal.submitted.project
    options = replace(
        proposal.options,
        engine=host.engine.name if host.engine.name in CONFINING else None,
        profile=Profile.STRICT.value,
        gpus=host.gpus if stage.gpu else None,
    )
    title = f"{proposal.milestone.name}: {stage.name}"
    inner = stage is not proposal.runs[-1]
    prepared = prepare.staged(folder, project, options, title=title, inner=inner)
    return session.start(prepared, choice=Choice((host.engine,), host.why))


def _outcome(
    proposal: Proposal,
    stage: MilestoneRun,
    area: StagingArea,
    done: Mapping[str, RunPaths],
    run: Run,
    cancel: Cancel,
) -> SubmissionOutcome:
    """Return what came of a submission, after the last run that was begun."""
    ids = {name: paths.id for name, paths in done.items()}
    known = MeasurementHost(
        *("", ""),
        why_not_ranked=proposal.uncounted,
        runs=ids,
        golden=proposal.golden.digest,
        sources={file.path: file.sha256 for file in proposal.submitted.team},
        commit=proposal.commit.commit if proposal.commit else "",
    )
    its = proposal.milestone, stage, run.paths, run.record
    found = of_run(*its, area.root, known)
    reason, message = found.reason, found.message
    if found.measurement is not None:
        measurements.keep_measurement(run.paths, found.measurement)
    elif cancel.requested:
        reason, message = cancel.end
    ended = proposal.milestone, reason, message, ids, proposal.uncounted
    return SubmissionOutcome(*ended, found.measurement, run.record)
