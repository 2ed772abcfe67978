"""What an output has of that which a build file may expect: shares, texts, patterns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import inf

from msgspec import Struct

from runner.core import Inference
from runner.core.expectations import FIGURES, Expected
from runner.patterns import Pattern

_CLAIM = re.compile(r"(Correctness|Agreement|EvalMetric|Test Accuracy):")
_FIGURE = {
    "Correctness": "correctness",
    "Agreement": "agreement",
    "EvalMetric": "accuracy",
    "Test Accuracy": "accuracy",
}
_UNREADABLE, _SHOWN = 100, 200
"""Characters of a line that are kept."""


class Share(Struct):
    """The least and the greatest value of a figure, and a line that has none.

    Such a line begins as the figure's lines do, but has no number from 0 to 1.
    """

    least: float = inf
    most: float = -inf
    unreadable: str = ""


class OutputSearch:
    """A search of the clean lines of a command's streams, piece by piece.

    A text is within one line. The first line that has it is kept.
    """

    def __init__(self, wanted: Iterable[Expected] = ()) -> None:
        self.shares = {figure: Share() for figure in FIGURES}
        self.found: dict[Expected, str] = {}
        every = tuple(wanted)
        self._texts = {one: one.value.encode() for one in every if one.how == "text"}
        self._patterns = {
            one: Pattern(one.value) for one in every if one.how == "regex"
        }

    def add(self, inference: Inference) -> None:
        """Note the shares that an inference printed."""
        for figure, share in self.shares.items():
            if (value := getattr(inference, figure)) is not None:
                share.least = min(share.least, value)
                share.most = max(share.most, value)

    def unread(self, line: str) -> None:
        """Note a line that could not be read as an inference's end."""
        if (match := _CLAIM.match(line)) is not None:
            share = self.shares[_FIGURE[match[1]]]
            share.unreadable = share.unreadable or line[:_UNREADABLE]

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
