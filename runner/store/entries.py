"""One run in the index: its columns, and how a record becomes a row."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from runner.core import Inference, Reason, RunRecord, State

COLUMNS = (
    "id TEXT PRIMARY KEY",
    "created_at REAL NOT NULL",
    "ended_at REAL",
    "project TEXT NOT NULL",
    "state TEXT NOT NULL",
    "reason TEXT",
    "engine TEXT NOT NULL",
    "exit_code INTEGER",
    "op_time_s REAL",
    "correctness REAL",
    "synthetic INTEGER NOT NULL",
)
_REASONS = {reason.value: reason for reason in Reason}


class Entry(Struct, frozen=True):
    """One run in the index.

    ``op_time_s`` is the least sum of op times of its inferences. ``size_bytes`` is None
    until it is measured, which is done after the run's end.
    """

    id: str
    created_at: float
    ended_at: float | None
    project: str
    state: State
    reason: Reason | None
    engine: str
    exit_code: int | None
    op_time_s: float | None
    correctness: float | None
    synthetic: bool
    tag: str = ""
    size_bytes: int | None = None


def to_row(record: RunRecord) -> tuple[object, ...]:
    """Return the values of the columns."""
    inferences = record.findings.inferences
    verdict, best = record.verdict, _best(inferences)
    return (
        record.id,
        record.created_at,
        record.ended_at,
        record.project,
        record.state.value,
        verdict.reason.value if verdict else None,
        record.engine.name if record.engine else "",
        verdict.reason.exit_code if verdict else None,
        sum(best.op_times_s) if best and best.op_times_s else None,
        best.correctness if best else None,
        any(inference.synthetic for inference in inferences),
    )


def _best(inferences: tuple[Inference, ...]) -> Inference | None:
    """Return the fastest with op times, otherwise the last with a correctness."""
    timed = [i for i in inferences if i.op_times_s]
    if timed:
        return min(timed, key=lambda i: sum(i.op_times_s))
    right = [i for i in inferences if i.correctness is not None]
    return right[-1] if right else None


def from_row(row: tuple[Any, ...]) -> Entry:
    """Return the entry that a whole row of the table holds."""
    values = dict(zip(Entry.__struct_fields__, row, strict=True))
    values["state"] = State(values["state"])
    values["reason"] = _REASONS.get(values["reason"])
    values["synthetic"] = bool(values["synthetic"])
    return Entry(**values)
