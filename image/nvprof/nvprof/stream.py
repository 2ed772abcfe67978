"""Read a process's recording with bounded memory.

The format is that of `injection/records.h`. A process may have been killed at any
instruction, so incomplete records are ignored.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import BinaryIO, NamedTuple, Union

MAGIC = b"NVPROF01"
HEADER_BYTES = 4096
BLOCK_BYTES = 1 << 20


class Kind(IntEnum):
    """The kinds of records."""

    NAME = 1
    TOTAL = 2
    KERNEL = 3
    MEMCPY = 4
    MEMSET = 5
    API = 6
    DEVICE = 7


class Section(IntEnum):
    """The two parts of the summary."""

    GPU = 0
    CALLS = 1


class Header(NamedTuple):
    """The header of a recording."""

    pid: int
    parent: int
    trace: bool
    ended: bool
    committed: int
    dropped: int
    lost: int
    started_ns: int
    base: int
    driver: int
    cupti: int
    command: tuple[str, ...]


Fields = tuple[Union[int, str], ...]
"""A record's fields in the order of records.h; those of a name are its ID and text."""

HEADER = struct.Struct("<8sIIIIQQQQQII")
LEAD = struct.Struct("<II")
NAME = struct.Struct("<II")
SHAPES: dict[int, struct.Struct] = {
    Kind.TOTAL: struct.Struct("<III4xQQQQ"),
    Kind.KERNEL: struct.Struct("<QQIIII6I4I"),
    Kind.MEMCPY: struct.Struct("<QQQIIIIIBB2x"),
    Kind.MEMSET: struct.Struct("<QQQIIIIII"),
    Kind.API: struct.Struct("<QQIIII"),
    Kind.DEVICE: struct.Struct("<IIII"),
}


class NotARecording(Exception):
    """The file does not start like a recording."""


def header(data: bytes) -> Header:
    """Parse a header; raise NotARecording."""
    if len(data) < HEADER_BYTES or not data.startswith(MAGIC):
        raise NotARecording
    _, pid, parent, trace, ended, *numbers = HEADER.unpack_from(data)
    committed, dropped, lost, started_ns, base, driver, cupti = numbers
    words = data[HEADER.size : HEADER_BYTES].rstrip(b"\0").split(b"\0")
    command = tuple(word.decode("utf-8", "replace") for word in words)
    return Header(
        pid,
        parent,
        bool(trace),
        bool(ended),
        committed,
        dropped,
        lost,
        started_ns,
        base,
        driver,
        cupti,
        command,
    )


def whole(data: bytes) -> tuple[dict[Kind, list[Fields]], int, bool]:
    """Return complete records by kind, their size in bytes, and whether all are valid.

    Records of unknown kinds are skipped; an invalid size ends parsing.
    """
    found: dict[Kind, list[Fields]] = {kind: [] for kind in Kind}
    shapes = {
        kind: (shape.unpack_from, LEAD.size + shape.size, found[Kind(kind)].append)
        for kind, shape in SHAPES.items()
    }
    at, end, lead = 0, len(data), LEAD.unpack_from
    while at + LEAD.size <= end:
        kind, size = lead(data, at)
        if size < LEAD.size or size % 8:
            return found, at, False
        if at + size > end:
            break
        if kind in shapes:
            unpack, least, append = shapes[kind]
            if size < least:
                return found, at, False
            append(unpack(data, at + LEAD.size))
        elif kind == Kind.NAME:
            name = _name(data[at + LEAD.size : at + size])
            if name is None:
                return found, at, False
            found[Kind.NAME].append(name)
        at += size
    return found, at, True


def _name(body: bytes) -> Fields | None:
    if len(body) < NAME.size:
        return None
    number, length = NAME.unpack_from(body)
    if NAME.size + length > len(body):
        return None
    return number, body[NAME.size : NAME.size + length].decode("utf-8", "replace")


def read_header(file: BinaryIO) -> Header:
    """Read a file's header."""
    file.seek(0)
    return header(file.read(HEADER_BYTES))


def batches(
    file: BinaryIO, committed: int, block: int = BLOCK_BYTES
) -> Iterator[tuple[Kind, list[Fields]]]:
    """Yield the committed records block by block; names precede their uses."""
    file.seek(HEADER_BYTES)
    left, rest = committed, b""
    while left > 0:
        data = file.read(min(block, left))
        if not data:
            return
        left -= len(data)
        data = rest + data
        found, used, sound = whole(data)
        for kind, records in found.items():
            if records:
                yield kind, records
        if not sound:
            return
        rest = data[used:]
