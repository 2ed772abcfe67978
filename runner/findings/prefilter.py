"""Tell quickly whether a block of output may contain any of many words.

Most of a text consists of a few letters, digits and spaces. Without them the text is
short, and the rest of a word must be in the rest of the block: only if it is, the block
itself is searched.
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
        """Whether a block contains any of the words; ``remains`` is ``rare(block)``."""
        # A loop: any() over a generator costs as much as half of the searches.
        for word, rest in self._words:  # noqa: SIM110
            if rest in remains and word in block:
                return True
        return False
