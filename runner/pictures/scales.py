"""Where values lie on an axis, and how values and names are written. Pure."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from math import ceil, floor, isfinite, log10
from typing import TypeGuard

from msgspec import Struct

from runner.core.quantities import brief
from runner.core.screen import printable

SMALLEST, LARGEST = 1e-15, 1e18
"""Nothing smaller has a place on a logarithmic axis, and nothing larger on any."""

BODY, SMALL = 13.0, 12.0
"""Sizes of text, in pixels."""

MOST_CHARACTERS = 2000
"""A longer text is cut, even where there is room."""

_NO_XML = re.compile("[\ufdd0-\ufdef\ufffe\uffff]")
_NARROW, _WIDE = set(" !'(),-./:;I[\\]`fijlrt|"), set("#%+<=>@MW^mw~")


class Scale(Struct, frozen=True):
    """An axis: values from ``low`` to ``high``, at places from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """Return the place of a value, in pixels."""
        low, high = self.low, self.high
        if self.logarithmic:
            low, high, value = log10(low), log10(high), log10(value)
        return self.start + (self.end - self.start) * (value - low) / (high - low)

    def between(
        self, one: float | None, other: float | None
    ) -> tuple[float, float] | None:
        """Return the places of two values, the left one first, if both have one."""
        ends = [self.at(v) for v in (one, other) if has_place(v, self.logarithmic)]
        return (min(ends), max(ends)) if len(ends) == 2 else None

    def ticks(self, gap: float) -> list[float]:
        """Return as many round values as lie so many pixels apart."""
        return next(
            found
            for found in _round_values(self.low, self.high, self.logarithmic)
            if all(abs(self.at(b) - self.at(a)) >= gap for a, b in pairwise(found))
        )


def _round_values(low: float, high: float, logarithmic: bool) -> Iterator[list[float]]:
    """Yield round values of a range, fewer each time."""
    if logarithmic and high >= low * 10:
        first, last = ceil(log10(low)), floor(log10(high))
        for digits in ((1, 2, 5), (1, 3)):
            every = [d * 10.0**n for n in range(first - 1, last + 1) for d in digits]
            yield [value for value in every if low <= value <= high]
        for step in range(1, last - first + 2):
            yield [10.0**n for n in range(first, last + 1) if n % step == 0]
        return
    for n in range(-1, 3):
        for digit in (1, 2, 5):
            size = digit * 10.0 ** (floor(log10(high - low)) + n)
            found = range(ceil(low / size - 1e-9), floor(high / size + 1e-9) + 1)
            yield [size * each for each in found]


def has_place(value: float | None, logarithmic: bool) -> TypeGuard[float]:
    """Return whether a value has a place on an axis."""
    if value is None or not isfinite(value) or abs(value) > LARGEST:
        return False
    return not logarithmic or value >= SMALLEST


def around(
    values: Iterable[float], start: float, end: float, logarithmic: bool
) -> Scale:
    """Return an axis that is a bit longer than its values, or begins at 0."""
    found = list(values) or [1.0]
    low, high = min(found), max(found)
    if logarithmic:
        return Scale(low / 1.5, high * 1.5, start, end, True)
    low, high = min(low, 0.0), max(high, 0.0)
    return Scale(low, high if high > low else 1.0, start, end)


def written(value: float, unit: str) -> str:
    """Format a value with four digits: 16.60 ms, 12.5 %, 1.234 TFLOP/s."""
    if not isfinite(value):
        return "unknown"
    sign, amount = "-" if value < 0 else "", abs(value)
    if unit == "s" and amount < LARGEST:
        return sign + (brief(amount) if amount else "0 s")
    if unit == "%" and (0.05 <= amount < LARGEST or not amount):
        return f"{value:.1f} %"
    prefixes = " kMGTPE" if unit in ("FLOP/s", "B/s") else " "
    while amount >= 999.95 and len(prefixes) > 1:
        amount, prefixes = amount / 1000, prefixes[1:]
    digits = f"{amount:,.0f}" if 1e4 <= amount < 1e9 else f"{amount:.4g}"
    return f"{sign}{digits} {prefixes[0].strip()}{unit}".rstrip()


def round_value(value: float, unit: str) -> str:
    """Format a round value, for an axis: 10 ms, 0.5 s, 20 %."""
    if unit == "%":
        return f"{value:.4g} %"
    number, _, rest = written(value, unit).partition(" ")
    short = f"{float(number):g}" if "." in number else number
    return f"{short} {rest}".rstrip()


def safe(text: str) -> str:
    """Return a text in one line, with invisible characters as their numbers."""
    cut = text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
    line = printable(" ".join(cut.split()))
    return _NO_XML.sub(lambda match: ascii(match.group())[1:-1], line)


def width(text: str, height: float = BODY) -> float:
    """Return how many pixels a text is wide at most, in usual fonts of this size."""
    return height * sum(map(_share, text))


def _share(character: str) -> float:
    """Return the width of a character, in parts of the size of its font."""
    if character in _NARROW:
        return 0.41
    if character in _WIDE or not character.isascii():
        return 1.05 if unicodedata.east_asian_width(character) in "WF" else 1.0
    return 0.79 if character.isupper() or character == "&" else 0.64


def fitted(text: str, room: float, height: float = BODY) -> str:
    """Return a safe text that is at most so wide, if need be without its middle."""
    text = safe(text)
    if width(text, height) <= room:
        return text
    half = (room / height - 1) / 2
    first = bisect_right(list(accumulate(map(_share, text))), half)
    last = bisect_right(list(accumulate(map(_share, reversed(text)))), half)
    return f"{text[:first]}…{text[len(text) - last :]}"
