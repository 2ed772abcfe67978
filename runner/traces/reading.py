"""Read a profiler's file, whose kind its content tells."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from runner import files
from runner.core import Problem
from runner.core.errors import UsageError
from runner.core.trace import Timeline, Trace
from runner.traces import building, database, kinds, nsys_file, nvidia_file, nvprof_file
from runner.traces.database import Database
from runner.traces.events import EventTrace, NoEvents
from runner.traces.kinds import TraceKind
from runner.traces.sqlite_trace import SqliteTrace

_File = SqliteTrace | EventTrace

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
        found = file.summary(name)
        drawn = _timeline(file, most)
        # What the timeline lacks is known only now.
        problems = dict.fromkeys((*found.problems, *file.problems))
        return replace(found, problems=tuple(problems)), drawn


def _timeline(file: _File, most: int) -> Timeline:
    return building.timeline(file.spans(), file.lane, file.describe, most)


@contextmanager
def _opened(path: Path, name: str) -> Iterator[_File]:
    try:
        with files.open_regular(path) as file:
            start = file.read(kinds.START_BYTES)
            kind = kinds.kind(start)
            if kind is None:
                raise _error(name, *kinds.advice(start, name))
            file.seek(0)
            found = EventTrace(file) if kind is TraceKind.EVENTS else _sqlite(path)
    except OSError as error:
        raise _error(name, f"it cannot be read: {error.strerror or error}") from error
    except NoEvents as error:
        raise _error(name, *error.args) from error
    except database.Failure as error:
        raise _error(
            name, f"it is damaged: {database.said(error)}", "profile again"
        ) from error
    try:
        yield found
    finally:
        found.close()


def _sqlite(path: Path) -> SqliteTrace:
    base = Database(path)
    try:
        for kind in (nvprof_file, nvidia_file, nsys_file):
            if kind.is_one(base.tables):
                return SqliteTrace(base, kind.layout(base))
        raise NoEvents("it is an SQLite file that no profiler wrote", kinds.WANTED)
    except BaseException:
        base.close()
        raise


def _error(name: str, message: str, hint: str = "") -> UsageError:
    return UsageError(Problem(f"{name}: {message}", hint=hint))
