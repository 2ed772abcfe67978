"""Read the output of GNU time and of the shells' ``time``.

There are four forms: GNU time's default (with or without its tail and second line),
the same three words with plain seconds (``-f "%Uuser %Ssystem %eelapsed"``), the three
lines of ``-p``, and bash's three lines with minutes.
"""

from __future__ import annotations

import re
from decimal import Decimal

from msgspec.structs import replace

from runner.core import TimeUsage
from runner.findings.sources import SourceReader
from runner.findings.units import keep

MOST_USAGES = 1000
"""The most that are kept; after that the newest replaces the last."""

_CPU = r"[0-9]{1,9}\.[0-9]{2}"
_CLOCK = r"[0-9]{1,6}(?::[0-9]{2}){1,2}(?:\.[0-9]{1,3})?"
_TAIL = (
    r"\([0-9]+avgtext\+[0-9]+avgdata\s+(?P<rss>[0-9]{1,15})maxresident\)k"
    r"|\([0-9a-z+ ]*"
)
_GNU = re.compile(
    rf"(?P<user>{_CPU})user\s+(?P<system>{_CPU})system\s+"
    rf"(?P<elapsed>{_CLOCK}|{_CPU})elapsed"
    rf"(?:\s+(?P<percent>[0-9]{{1,6}}|\?)%CPU(?:\s+(?:{_TAIL}))?)?"
)
"""GNU time's line; its end may be missing or truncated."""

_SHELL = re.compile(
    rf"(?P<word>real|user|sys)\s+"
    rf"(?:(?P<plain>{_CPU})"
    rf"|(?P<minutes>[0-9]{{1,6}})m ?(?P<rest>[0-9]{{1,2}}\.[0-9]{{2,3}})s)"
)
"""One of the three lines of ``time -p``, and of bash's and BusyBox's ``time``."""

_ORDER = ("real", "user", "sys")


class TimingReader:
    """A reader that collects the timing tools' output, line after line."""

    def __init__(self, sources: SourceReader) -> None:
        self.found: list[TimeUsage] = []
        self.left_out = 0
        self._sources = sources
        self._words: list[tuple[bool, float]] = []

    @property
    def busy(self) -> bool:
        """Whether a group of three lines is incomplete."""
        return bool(self._words)

    def read(self, line: str) -> None:
        """Read one line, cleaned and stripped."""
        if line[:1] in "rus" and (match := _SHELL.fullmatch(line)) is not None:
            self._word(match)
            return
        self._words.clear()
        if "elapsed" in line and (match := _GNU.fullmatch(line)) is not None:
            percent, rss = match["percent"], match["rss"]
            self._add(
                TimeUsage(
                    user_s=float(match["user"]),
                    system_s=float(match["system"]),
                    elapsed_s=_seconds(match["elapsed"]),
                    cpu_percent=int(percent) if percent and percent != "?" else None,
                    max_rss_kb=int(rss) if rss else None,
                )
            )

    def close(self) -> None:
        """Drop an incomplete group of lines."""
        self._words.clear()

    def _word(self, match: re.Match[str]) -> None:
        """Read one of the three lines; they are valid only in order and in one form."""
        place, bash = _ORDER.index(match["word"]), match["plain"] is None
        if place != len(self._words) or any(form != bash for form, _ in self._words):
            self._words.clear()
        if place != len(self._words):
            return
        text = f"{match['minutes']}:{match['rest']}" if bash else match["plain"]
        self._words.append((bash, _seconds(text)))
        if len(self._words) == len(_ORDER):
            real, user, system = (value for _, value in self._words)
            self._words.clear()
            self._add(TimeUsage(user, system, real))

    def _add(self, usage: TimeUsage) -> None:
        usage = replace(usage, source=self._sources.whole())
        self.left_out += keep(self.found, usage, MOST_USAGES)


def _seconds(text: str) -> float:
    """Parse seconds, with minutes and hours before them: ``4.57``, ``1:02:03``."""
    total = Decimal(0)
    for part in text.split(":"):
        total = total * 60 + Decimal(part)
    return float(total)
