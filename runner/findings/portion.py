"""Bound the work of a search by the size of the output, not by a clock.

So the same output has the same figures on every machine. A unit of work is about a
nanosecond; what the parts of the search cost was measured.
"""

from __future__ import annotations

from collections import deque

ALLOWANCE = 500_000_000
"""The work that the output of a command may take, whatever its size."""

LAST_ALLOWANCE = 2_000_000_000
"""The work for the end of a stream, where results are, if the rest took too much."""

BYTE, LINE = 25, 6_000
"""A byte of a line that is read, and the line."""

TEXT_BYTE, COLOUR, CONTROL = 5, 300, 1_500
"""A byte of which lines are made, a colour in it, and what moves the cursor."""

MOST_WORK = 2000
"""A growth that lets all of an output be read, whatever it is."""

FAULT_BYTE = 200
"""A byte of a line that may report a fault of a GPU."""

_BLOCKS, _BLOCK = 16, 64 * 1024


class Portion:
    """How much work the search of one command's output may still take.

    ``growth`` is added for each byte of the output.
    """

    def __init__(self, units: int = ALLOWANCE, growth: int = 2) -> None:
        self._left, self._growth = units, growth

    def grow(self, size: int) -> None:
        """Add what a piece of output allows."""
        self._left += size * self._growth

    def take(self, units: int) -> bool:
        """Take this much, or nothing and return False."""
        if units > self._left:
            return False
        self._left -= units
        return True


class LastBlocks:
    """The last blocks of a stream; ``lost`` counts the bytes of those before.

    Small ones are joined. Blocks that cannot hold a figure do not count.
    """

    def __init__(self) -> None:
        self.lost = 0
        self._kept: deque[tuple[bytearray, bool]] = deque()

    def add(self, block: bytes, *, dull: bool) -> None:
        """Add a block, and lose the first of too many."""
        if self._kept and len(self._kept[-1][0]) + len(block) <= _BLOCK:
            last, was_dull = self._kept.pop()
            last += block
            self._kept.append((last, was_dull and dull))
            return
        self._kept.append((bytearray(block), dull))
        if len(self._kept) > _BLOCKS:
            first, was_dull = self._kept.popleft()
            self.lost += 0 if was_dull else len(first)

    def take(self) -> list[bytes]:
        """Return the blocks and forget them."""
        blocks = [bytes(block) for block, _ in self._kept]
        self._kept.clear()
        return blocks
