"""Read choices off the bytes that a fuzzer makes up."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")

MOST_CUTS = 7
REPEATED_BYTES = 1 << 16


class Parts:
    """Choices from the front of some bytes; behind their end each byte is zero."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def more(self) -> bool:
        """Whether there are bytes left."""
        return self._at < len(self._data)

    def number(self, most: int) -> int:
        """Return a number up to 65,535 or ``most``, whichever is less."""
        size = 1 if most < 256 else 2
        return int.from_bytes(self.take(size).ljust(size, b"\0")) % (most + 1)

    def one_of(self, choices: Sequence[T]) -> T:
        """Return one of the choices."""
        return choices[self.number(len(choices) - 1)]

    def take(self, size: int) -> bytes:
        """Return the next bytes, fewer at the end."""
        piece = self._data[self._at : self._at + size]
        self._at += len(piece)
        return piece

    def text(self, most: int) -> bytes:
        """Return some bytes, by a length that stands before them."""
        return self.take(self.number(most))

    def rest(self) -> bytes:
        """Return all that is left."""
        return self.take(len(self._data))

    def stream(self) -> list[bytes]:
        """Return all that is left, in pieces, and now and then repeated often."""
        shape = self.number(255)
        places = [self.number(0xFFFF) for _ in range(shape & MOST_CUTS)]
        data = self.rest()
        if shape == 0xFF and data:
            data *= REPEATED_BYTES // len(data)
        edges = sorted(place % (len(data) + 1) for place in places)
        return [data[a:b] for a, b in pairwise([0, *edges, len(data)])]
