"""How output is gathered into events, so that a chatty program makes few of them."""

from __future__ import annotations

from collections.abc import Sequence

from runner.core.work import Stream

SMALL_BYTES = 1 << 15
"""A piece of at least this many bytes is an event at once."""

GATHER_S, LONG_GATHER_S = 0.002, 0.05
"""How long small pieces are gathered: at first, and after MANY events."""

MANY = 20_000
MOST_PIECES = 32

Piece = tuple[Stream, bytes]


class OutputPace:
    """The pace of a command's events.

    A line of events.jsonl takes more space than a small piece of output. So after many
    events fewer come, and a run of hours makes no more than megabytes of them.
    """

    def __init__(self) -> None:
        self._events = 0

    @property
    def gather_s(self) -> float:
        """How long to wait for more after a small piece."""
        return GATHER_S if self._events < MANY else LONG_GATHER_S

    def gathered(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Join pieces that came together; count what becomes events.

        Which stream a piece is of keeps its order, unless there are too many pieces.
        """
        most = MOST_PIECES if self._events < MANY else 2
        found = _in_runs(pieces)
        if len(found) > most:
            size = -(-2 * len(found) // most)
            parts = [found[at : at + size] for at in range(0, len(found), size)]
            found = [piece for part in parts for piece in _by_stream(part)]
        self.count(len(found))
        return found

    def count(self, events: int) -> None:
        """Count events that were made."""
        self._events += events


def _in_runs(pieces: Sequence[Piece]) -> list[Piece]:
    """Join neighbours of one stream."""
    runs: list[tuple[Stream, list[bytes]]] = []
    for stream, data in pieces:
        if not runs or runs[-1][0] is not stream:
            runs.append((stream, []))
        runs[-1][1].append(data)
    return [(stream, b"".join(data)) for stream, data in runs]


def _by_stream(pieces: Sequence[Piece]) -> list[Piece]:
    return [
        (stream, joined)
        for stream in Stream
        if (joined := b"".join(data for one, data in pieces if one is stream))
    ]
