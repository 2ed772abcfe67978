"""Collect the range of each printed share: correctness, agreement, accuracy.

The range tells whether every one of them is as expected, however many there are.
"""

from __future__ import annotations

import re

from msgspec import Struct

from runner.core import Inference
from runner.core.expectations import FIGURES

_CLAIM = re.compile(r"(Correctness|Agreement|EvalMetric|Test Accuracy):")
_FIGURE = {
    "Correctness": "correctness",
    "Agreement": "agreement",
    "EvalMetric": "accuracy",
    "Test Accuracy": "accuracy",
}
_SHOWN = 100


class Share(Struct, frozen=True):
    """The least and the greatest value of a figure, and a line that has none.

    Such a line begins as the figure's lines do, but has no number from 0 to 1.
    """

    least: float | None = None
    most: float | None = None
    unreadable: str = ""


def joined(one: Share, other: Share) -> Share:
    """Return the range of two streams or parts of a stream."""
    values = (one.least, one.most, other.least, other.most)
    known = [value for value in values if value is not None]
    unreadable = one.unreadable or other.unreadable
    if not known:
        return Share(unreadable=unreadable)
    return Share(min(known), max(known), unreadable)


class ShareReader:
    """A collector of the shares of one stream."""

    def __init__(self) -> None:
        self.found: dict[str, Share] = dict.fromkeys(FIGURES, Share())

    def add(self, inference: Inference) -> None:
        """Add what an inference printed."""
        for figure in FIGURES:
            value: float | None = getattr(inference, figure)
            if value is not None:
                self._join(figure, Share(value, value))

    def unread(self, line: str) -> None:
        """Note a line that could not be read as an inference's end."""
        if (match := _CLAIM.match(line)) is not None:
            self._join(_FIGURE[match[1]], Share(unreadable=line[:_SHOWN]))

    def _join(self, figure: str, share: Share) -> None:
        self.found[figure] = joined(self.found[figure], share)
