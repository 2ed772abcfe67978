"""Whether a block of output holds any of many words, at a fraction of a look for each.

Most of a text is made of a few letters, digits and spaces. Without them it is short,
and what a word keeps without them must stand in what the block keeps: only where it
does is the block itself looked through.
"""

from __future__ import annotations

from collections.abc import Iterable

_FLESH = b" \t\n0123456789.,eaiotnslhdcmpx"


def bones(block: bytes) -> bytes:
    """Give a block without the commonest characters, for `Traces.within`."""
    return block.translate(None, _FLESH)


class Traces:
    """Words to look for together."""

    def __init__(self, words: Iterable[str]) -> None:
        encoded = tuple(word.encode() for word in words)
        self._words = tuple((word, bones(word)) for word in encoded)

    def within(self, block: bytes, kept: bytes) -> bool:
        """Whether any of the words stands in a block, whose bones are ``kept``."""
        # A loop: any() over a generator costs as much as half of the looks.
        for word, bone in self._words:  # noqa: SIM110
            if bone in kept and word in block:
                return True
        return False
