"""Read a profiler's file, whose kind its content tells."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner import files
from runner.core import Problem
from runner.core.errors import UsageError
from runner.core.trace import Timeline, Trace
from runner.traces import building, database, kinds, nsys_file, nvidia_file, nvprof_file
from runner.traces.database import Database
from runner.traces.sqlite_trace import SqliteTrace

MOST = 60_000
"""Spans of a timeline; packed into a page they take about 1 MB."""


def summary(path: Path, name: str) -> Trace:
    """Return the sums of a file; ``name`` is what it is called within the build folder.

    Raise UsageError if it is not a file of a profiler, or nothing of it can be read.
    """
    with _opened(path, name) as file:
        return file.summary(name)


def timeline(path: Path, most: int = MOST) -> Timeline:
    """Return at most ``most`` spans of a file, or one of each of its lanes.

    Raise UsageError as ``summary`` does.
    """
    with _opened(path, path.name) as file:
        return _timeline(file, most)


def read(path: Path, name: str, most: int = MOST) -> tuple[Trace, Timeline]:
    """Return the sums and the timeline of a file, which is read once where it can be.

    Raise UsageError as ``summary`` does.
    """
    with _opened(path, name) as file:
        return file.summary(name), _timeline(file, most)


def _timeline(file: SqliteTrace, most: int) -> Timeline:
    return building.timeline(file.spans(), file.lane, file.describe, most)


@contextmanager
def _opened(path: Path, name: str) -> Iterator[SqliteTrace]:
    try:
        with files.open_regular(path) as file:
            start = file.read(kinds.START_BYTES)
    except OSError as error:
        raise _error(name, f"it cannot be read: {error.strerror or error}") from error
    if kinds.kind(start) is None:
        raise _error(name, *kinds.advice(start, name))
    try:
        base = Database(path)
    except database.Failure as error:
        raise _error(name, f"it is damaged: {error}") from error
    try:
        yield _sqlite(base, name)
    finally:
        base.close()


def _sqlite(base: Database, name: str) -> SqliteTrace:
    try:
        for kind in (nvprof_file, nvidia_file, nsys_file):
            if kind.is_one(base.tables):
                return SqliteTrace(base, kind.layout(base))
    except database.Failure as error:
        raise _error(name, f"it is damaged: {error}") from error
    raise _error(name, "it is an SQLite file that no profiler wrote")


def _error(name: str, message: str, hint: str = "") -> UsageError:
    return UsageError(Problem(f"{name}: {message}", hint=hint))
