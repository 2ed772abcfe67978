"""The facts of a whole run in its report."""

from __future__ import annotations

from runner.core.evidence import RunEvidence
from runner.report.document.nouns import RunSummary
from runner.report.figures import incomplete


def summary(found: RunEvidence) -> RunSummary:
    """Return the summary of a run."""
    record = found.record
    ended = record.ended_at
    return RunSummary(
        run=record.id,
        tag=found.tag,
        note=found.note,
        project=record.project,
        title=record.title,
        created_at=record.created_at,
        ended_at=ended,
        took_s=None if ended is None else max(0.0, ended - record.created_at),
        state=record.state,
        verdict=record.verdict,
        exit_code=record.verdict.reason.exit_code if record.verdict else None,
        rounds=record.rounds,
        rounds_wanted=record.repeat,
        git=record.git,
        machine=record.machine,
        engine=record.engine,
        profile=record.profile,
        limits=record.limits,
        image=record.image,
        gpu=record.gpu,
        peak_memory_bytes=record.peak_memory_bytes,
        data=record.data,
        missing_data=record.missing_data,
        only=record.only,
        synthetic=record.synthetic,
        warnings=record.warnings,
        unfound=incomplete(record.findings),
        away=found.away,
        measurement=found.measurement,
        problems=found.problems,
    )
