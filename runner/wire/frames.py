"""The stream in which a run is followed: `GET /api/v1/runs/{id}/follow`.

A frame is one line of JSON, and the bytes that it announces. The query has how much of
each file the client has: `?events=N&stdout=N&stderr=N`. A line of events comes after
the output that it speaks of, so whatever part of the stream arrives, the client's copy
is one that the run's folder had. The stream ends after a ``Done``; a client that reads
none asks again from where its files end.
"""

from __future__ import annotations

from msgspec import Struct, json

from runner.wire.remote_runs import RemoteRun

FILES = ("events.jsonl", "stdout.log", "stderr.log")
MOST_HEADER_BYTES = 64 << 10
MOST_PART_BYTES = 1 << 20
BEAT_S = 10.0
"""The stream is never silent for longer; a client takes three times that as a break."""


class FilePart(Struct, frozen=True, tag="part"):
    """``size`` bytes of a file from offset ``at``; they follow the header's line."""

    file: str
    at: int
    size: int


class Latest(Struct, frozen=True, tag="latest"):
    """What the running command uses: the content of latest.json."""

    text: str


class Status(Struct, frozen=True, tag="status"):
    """Where the run stands, when that changed."""

    run: RemoteRun


class Beat(Struct, frozen=True, tag="beat"):
    """Nothing new."""


class Done(Struct, frozen=True, tag="done"):
    """The run has ended, and all of it was sent; ``build`` is its archive's size.

    ``build`` is None if no build folder came back.
    """

    run: RemoteRun
    build: int | None = None


FrameHeader = FilePart | Latest | Status | Beat | Done


def to_line(header: FrameHeader) -> bytes:
    """Return a frame's first line."""
    return json.encode(header) + b"\n"


def from_line(line: bytes) -> FrameHeader:
    """Parse a frame's first line; raise ValueError if it is none.

    A size out of bounds and an unknown file are wrong too.
    """
    header: FrameHeader = json.decode(line, type=FrameHeader)
    if isinstance(header, FilePart):
        within = 0 <= header.size <= MOST_PART_BYTES and header.at >= 0
        if header.file not in FILES or not within:
            raise ValueError(f"no such part: {header}")
    return header
