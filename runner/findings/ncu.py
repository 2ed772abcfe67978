"""Nsight Compute's output: each launch of a kernel, and how long it took.

A launch begins at its title, which names the kernel, its grid and (in CUDA 10 and 11)
the time; somewhere below its duration stands among other metrics. The titles of a
process follow each other, so launches of a kernel are put together until another
process begins.
"""

from __future__ import annotations

import re
from collections import deque

from runner.core import ProfileRow, ProfileTable
from runner.findings.kernel_names import LONGEST_NAME, joined
from runner.findings.tables import MOST_ROWS, MOST_TABLES
from runner.findings.units import EXPONENTS, keep, scaled

TOOL = "ncu"
KERNELS = "GPU kernels"
DURATIONS = frozenset(
    {"Duration", *(f"gpu__time_duration.{part}" for part in ("sum", "avg", "max"))}
)
"""The metrics that hold how long a launch took; for one launch they are the same."""

_MOST_LINES = 16
"""How many lines a name may be broken into."""

_PROCESS = re.compile(r"==PROF== Connected to process|\[[0-9]{1,9}\] \S.*@\S+$")
_BETWEEN = re.compile(r"==(?:PROF|WARNING|ERROR)==|-{5}|`{3}|Section:|\[[0-9]{1,9}\] ")
_TITLE = re.compile(
    r"(?P<launch>.*), Context [0-9]{1,9}, Stream [0-9]{1,9}"
    r"(?:, Device [0-9]{1,4}, CC [0-9]{1,3}\.[0-9]{1,2})?"
)
_STARTED = re.compile(
    r",? ?[0-9]{4}-[A-Z][a-z]{2}-[0-9]{2} ?[0-9]{2}:[0-9]{2}:[0-9]{2}$"
)
_SHAPE = re.compile(r" ?(?:\([0-9]{1,10}(?:, ?[0-9]{1,10}){2}\)x?){2}$")
_PART = re.compile(r"x\([0-9, ]+\)|[A-Za-z]{1,3}-[0-9]{2} ?[0-9:]{8}")
_BEGINNING = re.compile(r"(?:void\s+)?[A-Za-z_]\w*(?:::\w+)*(?:::)?(?:<.*)?")
_METRIC = re.compile(r"(?P<name>[\w.]+)\s+(?P<unit>[a-zµ]{1,7})\s+(?P<number>[0-9.,]+)")
_LAST = frozenset("0123456789.,")
_DIGITS = re.compile(r"[0-9.,]{1,40}")
_ENGLISH = re.compile(r"[0-9]{1,3}(?:,[0-9]{3}){0,5}(?:\.[0-9]{1,9})?")
_PLAIN = re.compile(r"[0-9]{1,18}(?:[.,][0-9]{1,9})?")
_POINTS = re.compile(r"[0-9]{1,3}(?:\.[0-9]{3}){1,5},[0-9]{1,9}")


def seconds(number: str, unit: str) -> float | None:
    """Read a duration in any version's unit; None for what is none."""
    unit = unit.removesuffix("econd")
    if unit not in EXPONENTS:
        return None
    if _ENGLISH.fullmatch(number):
        return scaled(number.replace(",", ""), unit)
    if _PLAIN.fullmatch(number):
        return scaled(number.replace(",", "."), unit)
    if _POINTS.fullmatch(number):
        return scaled(number.replace(".", "").replace(",", "."), unit)
    return None


class Launches:
    """The launches of one process, put together by kernel, in flat memory."""

    def __init__(self) -> None:
        self._total_s = 0.0
        self._times: dict[str, tuple[int, float, float, float]] = {}

    def add(self, name: str, took_s: float) -> None:
        """Count one launch. Of too many kernels the one of the least time goes."""
        name = name[:LONGEST_NAME]
        self._total_s += took_s
        if name not in self._times and len(self._times) >= MOST_ROWS:
            del self._times[min(self._times, key=lambda each: self._times[each][1])]
        none = (0, 0.0, took_s, took_s)
        count, total, least, most = self._times.get(name, none)
        spread = min(least, took_s), max(most, took_s)
        self._times[name] = count + 1, total + took_s, *spread

    def table(self) -> ProfileTable | None:
        """Give a row for each kernel, the longest first; None without any launch."""
        rows = [
            ProfileRow(
                name=name,
                percent=round(100 * total / self._total_s, 2) if total else 0.0,
                total_s=total,
                calls=count,
                avg_s=total / count,
                min_s=least,
                max_s=most,
            )
            for name, (count, total, least, most) in self._times.items()
        ]
        rows.sort(key=lambda row: -row.total_s)
        return ProfileTable(TOOL, KERNELS, tuple(rows)) if rows else None


class LaunchReader:
    """Adds a table of each process's launches to ``found``."""

    def __init__(self, found: list[ProfileTable]) -> None:
        self._found = found
        self._launches = Launches()
        self._above: deque[str] = deque(maxlen=_MOST_LINES)
        self._name: str | None = None
        self._took: tuple[str, str, str] | None = None

    @property
    def busy(self) -> bool:
        """Whether a launch's duration, or its last digits, may still come."""
        return self._name is not None or self._took is not None

    def read(self, line: str) -> None:
        """Take one clean line, stripped."""
        self._ends(line)
        if not line or _BETWEEN.match(line):
            self._above.clear()
            if line and _PROCESS.match(line):
                self.close()
            return
        if line[-1] in _LAST and not self._begins(line) and self._name is not None:
            self._measured(self._name, line)
        self._above.append(line)

    def close(self) -> None:
        """End the process; one without a measured launch has no table."""
        self._ends("")
        if (table := self._launches.table()) is not None:
            keep(self._found, table, MOST_TABLES)
        self._launches = Launches()
        self._name = None

    def _wholes(self, line: str) -> list[str]:
        """Give what the line may have been before a cut, the line itself first."""
        last = self._above[-1] if self._above else ""
        return [line, last + line, f"{last} {line}"] if last else [line]

    def _begins(self, line: str) -> bool:
        """Take a title, or the end of one."""
        for cut, whole in enumerate(self._wholes(line)):
            if ", Context " in whole and (match := _TITLE.fullmatch(whole)):
                above = list(self._above)[: -1 if cut else None]
                self._name = _kernel(match["launch"], above)
                return True
        return False

    def _measured(self, name: str, line: str) -> None:
        for whole in self._wholes(line):
            match = _METRIC.fullmatch(whole)
            if match is not None and match["name"] in DURATIONS:
                self._took = name, match["number"], match["unit"]
                self._name = None
                return

    def _ends(self, line: str) -> None:
        """Count the launch, whose last digits a cut may have put on this line."""
        if self._took is None:
            return
        name, number, unit = self._took
        if _DIGITS.fullmatch(line):
            number += line
        if (took_s := seconds(number, unit)) is not None:
            self._launches.add(name, took_s)
        self._took = None


def _kernel(launch: str, above: list[str]) -> str:
    """Give the kernel of a title, whose first lines may stand above."""
    while above and not _whole(launch, above) and len(launch) < LONGEST_NAME:
        space = " " if launch[:1] in ("*", "&") else ""
        launch = joined(above.pop() + space, launch)
    return _named(launch)


def _named(launch: str) -> str:
    return _SHAPE.sub("", _STARTED.sub("", launch)).strip()


def _whole(launch: str, above: list[str]) -> bool:
    """Whether the title begins here and not on a line above."""
    name = _named(launch)
    if not name or not (name[0].isalpha() or name[0] in "_~") or _PART.fullmatch(name):
        return False
    if any(name.count(b) > name.count(a) for a, b in ("()", "<>", "[]")):
        return False
    # A word by itself, with nothing else above it, is a beginning cut in two.
    return len(above) > 1 or _BEGINNING.fullmatch(above[0]) is None
