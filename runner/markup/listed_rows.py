"""A list of runs as rows of CSV, one a run."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from runner.core import RunRecord
from runner.markup import spreadsheet
from runner.markup.spreadsheet import Cell
from runner.report import Listed, op_time_s

HEADER = (
    "run",
    "tag",
    "note",
    "started",
    "ended",
    "took_s",
    "state",
    "reason",
    "exit_code",
    "engine",
    "project",
    "submission",
    "branch",
    "commit",
    "changed",
    "op_time_s",
    "correctness",
    "synthetic",
    "size_bytes",
)
"""The columns. New ones are added at the end only."""


def table(found: Iterable[Listed]) -> str:
    """Return the runs as CSV; times of day are in UTC, as ISO 8601 writes them."""
    return spreadsheet.table(HEADER, map(_row, found))


def _row(one: Listed) -> tuple[Cell, ...]:
    record = one.record
    verdict, git, last = record.verdict, record.git, record.findings.inferences[-1:]
    ended = record.ended_at
    took = None if ended is None else max(0.0, ended - record.created_at)
    return (
        record.id,
        one.tag,
        one.note,
        _time(record.created_at),
        None if ended is None else _time(ended),
        None if took is None else round(took, 6),
        record.state.value,
        verdict.reason.value if verdict else None,
        verdict.reason.exit_code if verdict else None,
        record.engine.name if record.engine else None,
        record.project,
        record.title,
        git.branch if git else None,
        git.commit if git else None,
        _switch(git.dirty if git else None),
        op_time_s(record),
        last[0].correctness if last else None,
        _switch(_synthetic(record)),
        one.size_bytes,
    )


def _switch(value: bool | None) -> Cell:
    return None if value is None else str(value).lower()


def _synthetic(record: RunRecord) -> bool | None:
    """Whether the images were synthetic; None for a run that used none."""
    return record.synthetic if record.findings.inferences else None


def _time(at: float) -> str:
    """Format a time as ISO 8601, in UTC: 2026-11-22T07:02:44Z."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
