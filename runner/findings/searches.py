"""Search a command's output for expected texts, line by line, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable

from runner.core import Stream
from runner.core.expectations import Expected
from runner.findings.lines import LineReader
from runner.patterns import Pattern

_SHOWN = 200


class TextSearch:
    """A search of both streams for texts and regular expressions, piece by piece.

    A text is within one line, as a terminal shows it. The first line that has it is
    kept; once all are found, the output is not read any more.
    """

    def __init__(self, wanted: Iterable[Expected]) -> None:
        self.found: dict[Expected, str] = {}
        self._texts = {one: one.value.encode() for one in wanted if one.how == "text"}
        self._patterns = {
            one: Pattern(one.value) for one in wanted if one.how == "regex"
        }
        self._readers = {stream: LineReader() for stream in Stream}

    def feed(self, stream: Stream, data: bytes) -> None:
        """Search the next piece of a stream."""
        if self._texts or self._patterns:
            self._search(self._readers[stream].feed(data))

    def finish(self) -> None:
        """Search the last lines, which have no line end."""
        for reader in self._readers.values():
            self._search(reader.finish())

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
