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

_ELAPSED = re.compile(rf"({_CLOCK}|{_CPU})(?:elapsed)?")
_ORDER = ("real", "user", "sys")
_DIGITS = frozenset("0123456789")


def elapsed(text: str) -> float:
    """Parse GNU time's elapsed time: ``0:05.21``, ``1:02:03``, ``4.57``."""
    match = _ELAPSED.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"not an elapsed time (m:ss.hh or h:mm:ss): {text!r}")
    total = Decimal(0)
    for part in match[1].split(":"):
        total = total * 60 + Decimal(part)
    return float(total)


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
        if line[:1] in _DIGITS:
            self._words.clear()
            usage = _read_gnu(line)
            if usage is not None:
                self._add(usage)
        elif line[:1] in "rus" and (match := _SHELL.fullmatch(line)) is not None:
            self._word(match)
        else:
            self._words.clear()

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
        self._words.append((bash, _shell_seconds(match)))
        if len(self._words) == len(_ORDER):
            real, user, system = (value for _, value in self._words)
            self._words.clear()
            self._add(TimeUsage(user, system, real))

    def _add(self, usage: TimeUsage) -> None:
        usage = replace(usage, source=self._sources.whole())
        self.left_out += keep(self.found, usage, MOST_USAGES)


def _shell_seconds(match: re.Match[str]) -> float:
    if match["plain"] is not None:
        return float(match["plain"])
    return float(Decimal(match["minutes"]) * 60 + Decimal(match["rest"]))


def _usage(match: re.Match[str]) -> TimeUsage:
    percent, rss = match["percent"], match["rss"]
    return TimeUsage(
        user_s=float(match["user"]),
        system_s=float(match["system"]),
        elapsed_s=elapsed(match["elapsed"]),
        cpu_percent=int(percent) if percent and percent.isdigit() else None,
        max_rss_kb=int(rss) if rss else None,
    )


def _read_gnu(line: str) -> TimeUsage | None:
    """Parse one line of GNU time; None if it is another line."""
    if "elapsed" not in line:
        return None
    match = _GNU.fullmatch(line)
    return _usage(match) if match else None
