"""Search a command's output for expected texts, line by line."""

from __future__ import annotations

from collections.abc import Iterable

from runner.core.expectations import Expected
from runner.patterns import Pattern

_SHOWN = 200


class TextSearch:
    """A search of clean lines for texts and regular expressions, piece by piece.

    A text is within one line. The first line that has it is kept.
    """

    def __init__(self, wanted: Iterable[Expected]) -> None:
        self.found: dict[Expected, str] = {}
        self._texts = {one: one.value.encode() for one in wanted if one.how == "text"}
        self._patterns = {
            one: Pattern(one.value) for one in wanted if one.how == "regex"
        }

    def read(self, lines: bytes) -> None:
        """Search some lines."""
        text = lines.removesuffix(b"\n")
        if not text or not (self._texts or self._patterns):
            return
        text = text.decode("utf-8", "replace").encode()  # as expressions are of UTF-8
        for one, value in [*self._texts.items()]:
            if (place := text.find(value)) >= 0:
                end = text.find(b"\n", place)
                line = text[text.rfind(b"\n", 0, place) + 1 : end if end >= 0 else None]
                self._keep(one, line)
        for one, pattern in [*self._patterns.items()]:
            if (matched := pattern.line(text)) is not None:
                self._keep(one, matched)

    def _keep(self, one: Expected, line: bytes) -> None:
        self.found[one] = line.decode("utf-8", "replace").strip()[:_SHOWN]
        self._texts.pop(one, None)
        self._patterns.pop(one, None)
