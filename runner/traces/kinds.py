"""The kind of a profiler's file, by its first bytes."""

from __future__ import annotations

import re
from enum import StrEnum

START_BYTES = 1 << 12
"""How much of a file is looked at."""


WANTED = "give an SQLite file of nvprof -o or of nsys export, or trace events in JSON"
"""What to do about a file that is none of these."""


class TraceKind(StrEnum):
    """The kinds of files that are read."""

    SQLITE = "sqlite"
    EVENTS = "trace events"


_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_JSON = re.compile(rb"(\xef\xbb\xbf)?\s*[\[{]")

_NSYS = re.compile(r"\.(nsys-rep|qdrep|qdstrm)\Z")
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


def kind(start: bytes) -> TraceKind | None:
    """Return the kind of a file that starts with these bytes."""
    if start.startswith(b"SQLite format 3\0"):
        return TraceKind.SQLITE
    if start.startswith(_GZIP) or _JSON.match(start):
        return TraceKind.EVENTS
    return None


def advice(start: bytes, name: str) -> tuple[str, str]:
    """Return what a file that is not read seems to be, and what to do."""
    if not start:
        return "it is empty", "profile again"
    for magic, what, todo in _UNREADABLE:
        if start.startswith(magic):
            return what, todo
    if _NSYS.search(name):
        return (
            "it is a report of Nsight Systems, which only nsys reads",
            f"export it: nsys export --type sqlite {name}",
        )
    return "it is no trace that rai reads", WANTED
