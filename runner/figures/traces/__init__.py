"""Read a profiler's file, whose kind its content tells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from msgspec.structs import replace

from runner.core import Problem
from runner.core.errors import UsageError
from runner.core.evidence import Timeline, Trace
from runner.figures.traces import database, spans
from runner.figures.traces.database import Database
from runner.figures.traces.events import WANTED, EventTrace, NoTrace
from runner.figures.traces.layouts import layout
from runner.figures.traces.sqlite import SqliteTrace
from runner.system.files import open_regular

_File = SqliteTrace | EventTrace

START_BYTES = 1 << 12
"""Of a file, which tell its kind."""

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_JSON = re.compile(rb"(\xef\xbb\xbf)?\s*[\[{]")

_UNREADABLE = (
    (_ZSTD, "it is compressed by zstd", "decompress it: zstd -d"),
    (
        b"NVR",
        "it is a report of Nsight Compute, which has counters and no timeline",
        "read it with: ncu --import",
    ),
    (b"NVPROF", "it is a raw recording of nvprof", "write a file with: nvprof -o FILE"),
    # A Perfetto trace is packets of field 1.
    (
        b"\x0a",
        "it looks like Perfetto's own binary trace, which rai does not read",
        "convert it: traceconv json TRACE TRACE.json",
    ),
)

MOST = 60_000
"""Spans of a timeline; packed into a page they take about 1 MB."""


def summary(path: Path, name: str, files: int = 1) -> Trace:
    """Return the sums of a file; ``name`` is what it is called within the build folder.

    It is one of so many ``files`` that share what one may have.

    Raise UsageError if it is not a file of a profiler, or nothing of it can be read.
    """
    with _opened(path, name) as file:
        return file.summary(name, files)


def timeline(path: Path, most: int = MOST) -> Timeline:
    """Return at most ``most`` spans of a file, or one of each of its lanes.

    Raise UsageError as ``summary`` does.
    """
    with _opened(path, path.name) as file:
        return _timeline(file, most)


def read(
    path: Path, name: str, most: int = MOST, files: int = 1
) -> tuple[Trace, Timeline]:
    """Return the sums and the timeline of a file, which is read once where it can be.

    Raise UsageError as ``summary`` does.
    """
    with _opened(path, name) as file:
        found = file.summary(name, files)
        drawn = _timeline(file, most)
        # What the timeline lacks is known only now.
        problems = dict.fromkeys((*found.problems, *file.problems))
        return replace(found, problems=tuple(problems)), drawn


def _timeline(file: _File, most: int) -> Timeline:
    return spans.timeline(file.spans(), file.lane, file.describe, most)


@contextmanager
def _opened(path: Path, name: str) -> Iterator[_File]:
    try:
        with open_regular(path) as file:
            start = file.read(START_BYTES)
            file.seek(0)
            if start.startswith(b"SQLite format 3\0"):
                found: _File = _sqlite(path)
            elif start.startswith(_GZIP) or _JSON.match(start):
                found = EventTrace(file)
            else:
                raise NoTrace(*_advice(start, name))
    except OSError as error:
        raise _error(name, f"it cannot be read: {error.strerror or error}") from error
    except NoTrace as error:
        raise _error(name, *error.args) from error
    except database.Failure as error:
        raise _error(
            name, f"it is damaged: {database.message_of(error)}", "profile again"
        ) from error
    with closing(found):
        yield found


def _sqlite(path: Path) -> SqliteTrace:
    base = Database(path)
    try:
        if (found := layout(base)) is None:
            raise NoTrace("it is an SQLite file that no profiler wrote", WANTED)
        return SqliteTrace(base, found)
    except BaseException:
        base.close()
        raise


def _error(name: str, message: str, hint: str = "") -> UsageError:
    return UsageError(Problem(f"{name}: {message}", hint=hint))


def _advice(start: bytes, name: str) -> tuple[str, str]:
    """Return what a file that is not read seems to be, and what to do."""
    if not start:
        return "it is empty", "profile again"
    for magic, what, todo in _UNREADABLE:
        if start.startswith(magic):
            return what, todo
    if name.endswith((".nsys-rep", ".qdrep", ".qdstrm")):
        return (
            "it is a report of Nsight Systems, which only nsys reads",
            f"export it: nsys export --type sqlite {name}",
        )
    return "it is no trace that rai reads", WANTED
