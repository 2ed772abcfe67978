"""Search a command's output for expected texts, line by line, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable

from runner.core import Stream
from runner.core.expectations import Expected
from runner.findings import portion
from runner.findings.lines import LineReader
from runner.findings.portion import LastBlocks, Portion
from runner.patterns import Pattern

_SHOWN = 200
_ALLOWANCE = 2_000_000_000
_GROWTH = 15
"""More than for figures: all lines are read, until each text is found."""


class TextSearch:
    """A search of both streams for texts and regular expressions, piece by piece.

    A text is within one line, as a terminal shows it. The first line that has it is
    kept; once all are found, the output is not read any more. What would take too long
    is not read but for the last of it; ``unsearched`` counts its bytes.
    """

    def __init__(self, wanted: Iterable[Expected]) -> None:
        self.found: dict[Expected, str] = {}
        self.unsearched = 0
        self._texts = {one: one.value.encode() for one in wanted if one.how == "text"}
        self._patterns = {
            one: Pattern(one.value) for one in wanted if one.how == "regex"
        }
        self._portion = Portion(_ALLOWANCE, _GROWTH)
        self._readers = {stream: LineReader() for stream in Stream}
        self._last: dict[Stream, LastBlocks] = {}

    def feed(self, stream: Stream, data: bytes) -> None:
        """Search the next piece of a stream."""
        if not self._texts and not self._patterns:
            return
        self._portion.grow(len(data))
        if stream in self._last:
            self._last[stream].add(data, dull=False)
        elif self._portion.take(self._work(data)):
            self._search(self._readers[stream].feed(data))
        else:
            self._last[stream] = LastBlocks()
            self._last[stream].add(data, dull=False)
            self._search(self._readers[stream].finish())

    def finish(self) -> None:
        """Search the last lines, which have no line end."""
        for stream, last in self._last.items():
            self._portion = Portion(portion.LAST_ALLOWANCE)
            for block in last.take():
                if self._portion.take(self._work(block)):
                    self._search(self._readers[stream].feed(block))
                else:
                    self.unsearched += len(block)
            self.unsearched += last.lost
        for reader in self._readers.values():
            self._search(reader.finish())

    def _work(self, data: bytes) -> int:
        """Return what it costs to make lines of a piece and to search them."""
        controls = data.count(b"\x1b") + data.count(b"\b") + data.count(b"\r")
        patterns = sum(pattern.work(len(data)) for pattern in self._patterns.values())
        size = len(data) * portion.TEXT_BYTE
        return size + controls * portion.CONTROL + patterns

    def _search(self, lines: list[str]) -> None:
        if not lines:
            return
        text = "\n".join(lines).encode("utf-8", "replace")
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
