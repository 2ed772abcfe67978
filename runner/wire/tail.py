"""How a run is followed: `GET /api/v1/runs/{id}/tail?events=&stdout=&stderr=&wait=`.

The query has how many bytes of each file the client has, and how many seconds it waits
for more. An answer is one line of JSON, a TailHeader, and then the bytes that it
announces: of stdout, of stderr, of the events. So a line of events comes after the
output that it speaks of, and wherever an answer breaks off, the client's copy is what
the run's folder was at some time; it asks again from where its files end.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, json

from runner.wire.remote_runs import RemoteRun

FILES = ("stdout.log", "stderr.log", "events.jsonl")
STDOUT, STDERR, EVENTS = FILES
MOST_HEADER_BYTES = 64 << 10
MOST_TAIL_BYTES = 1 << 20
"""Of the three files together, in one answer."""

LONGEST_WAIT_S = 30
LEAST_S = 0.2
"""An answer that brings all there is takes so long, so that it brings more."""


Size = Annotated[int, Meta(ge=0, le=MOST_TAIL_BYTES)]


class TailHeader(Struct, frozen=True):
    """Where a run stands, and how many bytes of each file follow, in their order.

    ``more`` says that there are more already, ``over`` that the run has ended and
    nothing more comes; ``build`` is then the size of its archive, None if there is
    none. ``latest`` is what the running command uses: the text of latest.json.
    """

    run: RemoteRun
    stdout: Size = 0
    stderr: Size = 0
    events: Size = 0
    latest: str = ""
    more: bool = False
    over: bool = False
    build: int | None = None

    @property
    def sizes(self) -> dict[str, int]:
        """The bytes that follow, by the names of their files."""
        return dict(zip(FILES, (self.stdout, self.stderr, self.events), strict=True))


def to_line(header: TailHeader) -> bytes:
    """Return an answer's first line."""
    return json.encode(header) + b"\n"


def from_line(line: bytes) -> TailHeader:
    """Parse an answer's first line; raise ValueError if it is none."""
    header = json.decode(line, type=TailHeader)
    if (size := sum(header.sizes.values())) > MOST_TAIL_BYTES:
        raise ValueError(f"{size:,} bytes in one answer")
    return header
