"""One run in the index: its columns, and how a record becomes a row."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from msgspec import Struct

from runner.core import Reason, RunRecord, State, written

RECORDED = (
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
    "branch TEXT NOT NULL",
    "commit_id TEXT NOT NULL",
    "dirty INTEGER",
    "title TEXT NOT NULL",
)
"""Columns that a record fills, and that a listing shows."""
SEARCHED = (
    "project_name TEXT NOT NULL",
    "commands TEXT NOT NULL",
)
"""Columns that runs are only chosen by; the last of a table, as they may be long."""
OWN_COLUMNS = (
    "tag TEXT NOT NULL DEFAULT ''",
    "note TEXT NOT NULL DEFAULT ''",
    "size_bytes INTEGER",
)
"""Facts of a run's folder that are not in its record."""

LONGEST_COMMANDS = 1 << 16
"""The most characters of a run's commands that are searched."""

_REASONS = {reason.value: reason for reason in Reason}


class Entry(Struct, frozen=True):
    """One run in the index.

    ``op_time_s`` is the sum of op times of its last inference, ``correctness`` that
    inference's. ``commit_id`` is "" for a project without git, ``dirty`` None if it is
    not known whether the files differed from the commit. ``size_bytes`` is None until
    it is measured, which is done after the run's end.
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
    branch: str = ""
    commit_id: str = ""
    dirty: bool | None = None
    title: str = ""
    tag: str = ""
    note: str = ""
    size_bytes: int | None = None


SHOWN = Entry.__struct_fields__
"""The names of the columns that make an entry."""


def to_row(record: RunRecord) -> tuple[object, ...]:
    """Return the values of ``RECORDED`` and ``SEARCHED``."""
    first = record.first_round
    inferences = [i for command in first for i in command.findings.inferences]
    verdict, git = record.verdict, record.git
    last = inferences[-1] if inferences else None
    return (
        record.id,
        record.created_at,
        record.ended_at,
        record.project,
        record.state.value,
        verdict.reason.value if verdict else None,
        record.engine.name if record.engine else "",
        verdict.reason.exit_code if verdict else None,
        sum(last.op_times_s) if last and last.op_times_s else None,
        last.correctness if last else None,
        any(inference.synthetic for inference in inferences),
        git.branch if git else "",
        git.commit if git else "",
        git.dirty if git else None,
        record.title,
        f"{PurePath(record.project).name} {record.title}".strip().casefold(),
        _commands(record),
    )


def _commands(record: RunRecord) -> str:
    """Return the names and the texts of the commands, each on lines of its own."""
    parts = (part for c in record.first_round for part in (c.name, c.text) if part)
    return written.text("\n".join(parts))[:LONGEST_COMMANDS]


def from_row(row: tuple[Any, ...]) -> Entry:
    """Return the entry of the columns ``SHOWN``."""
    values = dict(zip(Entry.__struct_fields__, row, strict=True))
    values["state"] = State(values["state"])
    values["reason"] = _REASONS.get(values["reason"])
    values["synthetic"] = bool(values["synthetic"])
    if values["dirty"] is not None:
        values["dirty"] = bool(values["dirty"])
    return Entry(**values)
