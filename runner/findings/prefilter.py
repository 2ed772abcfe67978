"""Whether a block of output can hold any of many words, without searching it for each.

Most of a text is made of a few letters, digits and spaces. Without them it is short,
and what remains of a word must stand in what remains of the block: only where it does
is the block itself searched.
"""

from __future__ import annotations

from collections.abc import Iterable

_FREQUENT = b" \t\n0123456789.,eaiotnslhdcmpx"


def rare(block: bytes) -> bytes:
    """Return a block without the most frequent characters, for `Prefilter.matches`."""
    return block.translate(None, _FREQUENT)


class Prefilter:
    """Words to search for together."""

    def __init__(self, words: Iterable[str]) -> None:
        encoded = tuple(word.encode() for word in words)
        self._words = tuple((word, rare(word)) for word in encoded)

    def matches(self, block: bytes, remains: bytes) -> bool:
        """Whether any of the words stands in a block; ``remains`` is its ``rare``."""
        # A loop: any() over a generator costs as much as half of the searches.
        for word, rest in self._words:  # noqa: SIM110
            if rest in remains and word in block:
                return True
        return False
