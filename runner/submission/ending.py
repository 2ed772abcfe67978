"""What became of a run of a submission, by its folder; the same here and at a server.

Nothing that the run left is trusted.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from runner import files
from runner.core import Reason, RunRecord
from runner.core.errors import RaiError
from runner.core.measurement import (
    MEASUREMENT_BYTES,
    MEASUREMENT_FILE,
    Measurement,
    MeasurementError,
    MeasurementHost,
    read,
)
from runner.core.milestone import Held, HeldKind, Milestone, MilestoneRun, Trust
from runner.store.paths import RunPaths
from runner.submission import outcome, staging

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
