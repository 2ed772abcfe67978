"""Read Nsight Compute's output: the launches of kernels and their durations.

A launch begins at its title, which names the kernel, its grid and (in CUDA 10 and 11)
the time; its duration is below, among other metrics. The launches of one process
follow each other and are summed by kernel until another process begins.
"""

from __future__ import annotations

import heapq
import re
from collections import deque

from runner.core import ProfileRow, ProfileTable
from runner.findings import ncu_counters
from runner.findings.kernel_names import LONGEST_NAME, joined
from runner.findings.ncu_counters import AddCounters, CounterSums, size
from runner.findings.tables import MOST_ROWS, Add
from runner.findings.units import EXPONENTS, scaled

TOOL = "ncu"
KERNELS = "GPU kernels"
DURATIONS = frozenset(
    {"Duration", *(f"gpu__time_duration.{part}" for part in ("sum", "avg", "max"))}
)
"""The metrics of a launch's duration; for one launch they are all the same."""

_MOST_LINES = 16
"""The most lines that a name may be broken into."""

_MOST_OTHERS = 300
"""The most lines without a counter after which a launch is over."""

_PROCESS = re.compile(r"==PROF== Connected to process|\[[0-9]{1,9}\] \S.*@[^\s@]+$")
_BETWEEN = re.compile(r"==(?:PROF|WARNING|ERROR)==|-{5}|`{3}|Section:|\[[0-9]{1,9}\] ")
_TITLE = re.compile(
    r"(?P<launch>.*), Context [0-9]{1,9}, Stream [0-9]{1,9}"
    r"(?:, Device [0-9]{1,4}, CC [0-9]{1,3}\.[0-9]{1,2})?"
)
_STARTED = re.compile(
    r",? ?[0-9]{4}-[A-Z][a-z]{2}-[0-9]{2} ?[0-9]{2}:[0-9]{2}:[0-9]{2}$"
)
_SIZE = r"\([0-9]{1,10}(?:, ?[0-9]{1,10}){2}\)"
_SHAPE = re.compile(rf" ?(?P<grid>{_SIZE})x?(?P<block>{_SIZE})x?$")
_METRIC = re.compile(r"(?P<name>[\w.]+)\s+(?P<unit>[a-zµ]{1,7})\s+(?P<number>[0-9.,]+)")
_LAST = frozenset("0123456789.,")


def seconds(number: str, unit: str) -> float | None:
    """Parse a duration in the unit of any version; None if it is not one."""
    unit = unit.removesuffix("econd")
    if unit not in EXPONENTS or (plain := ncu_counters.number(number)) is None:
        return None
    return scaled(plain, unit)


class Launches:
    """The launches of one process, summed by kernel, in bounded memory."""

    def __init__(self) -> None:
        self._total_s = 0.0
        self._times: dict[str, tuple[int, float, float, float]] = {}

    def add(self, name: str, took_s: float) -> None:
        """Count one launch; of too many kernels drop those with the least time."""
        name = name[:LONGEST_NAME]
        self._total_s += took_s
        if name not in self._times and len(self._times) >= 2 * MOST_ROWS:
            self._times = dict(self._longest())
        none = (0, 0.0, took_s, took_s)
        count, total, least, most = self._times.get(name, none)
        spread = min(least, took_s), max(most, took_s)
        self._times[name] = count + 1, total + took_s, *spread

    def _longest(self) -> list[tuple[str, tuple[int, float, float, float]]]:
        """Return the kernels that took longest, the longest first."""
        times = self._times.items()
        return heapq.nlargest(MOST_ROWS, times, key=lambda each: each[1][1])

    def table(self) -> ProfileTable | None:
        """Return a row for each kernel, the longest first; None without a launch."""
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
            for name, (count, total, least, most) in self._longest()
        ]
        return ProfileTable(TOOL, KERNELS, tuple(rows)) if rows else None


class LaunchReader:
    """A reader that hands a table of each process's launches to ``add``.

    Their counters it hands to ``count``.
    """

    def __init__(self, add: Add, count: AddCounters) -> None:
        self._add, self._count = add, count
        self._launches, self._counters = Launches(), CounterSums()
        self._others = _MOST_OTHERS
        self._above: deque[str] = deque(maxlen=_MOST_LINES)
        self._name: str | None = None

    @property
    def busy(self) -> bool:
        """Whether the duration or a counter of a launch may still follow."""
        return self._name is not None or self._others < _MOST_OTHERS

    def read(self, line: str) -> None:
        """Read one line, cleaned and stripped."""
        self._others += 1
        if not line or _BETWEEN.match(line):
            self._above.clear()
            if line and _PROCESS.match(line):
                self.close()
            return
        if ", Context " in line and (title := _TITLE.fullmatch(line)) is not None:
            self._begin(_launch(title["launch"], self._above))
        elif self.busy and line[-1] in _LAST:
            self._measured(self._name, line)
        self._above.append(line)

    def close(self) -> None:
        """End the process; it has no table if no launch was measured."""
        if (table := self._launches.table()) is not None:
            self._add(table)
        self._count(self._counters)
        self._launches, self._counters = Launches(), CounterSums()
        self._name, self._others = None, _MOST_OTHERS

    def _begin(self, launch: str) -> None:
        """Begin the launch of a title."""
        launch = _STARTED.sub("", launch)
        shape = _SHAPE.search(launch)
        self._name = launch[: shape.start() if shape else None].strip()
        grid, block = map(size, shape.group("grid", "block")) if shape else (None, None)
        self._counters.begin(self._name, grid, block)
        self._others = 0

    def _measured(self, name: str | None, line: str) -> None:
        match = _METRIC.fullmatch(line)
        if match is None or match["name"] not in DURATIONS:
            if self._counters.add(*_columns(line)):
                self._others = 0
            return
        took_s = seconds(match["number"], match["unit"])
        if name is not None and took_s is not None:
            self._launches.add(name, took_s)
            self._counters.took(took_s)
        self._name = None


def _columns(line: str) -> tuple[str, str, str]:
    """Return a metric's name, unit and value; the unit may be absent."""
    name, *rest = line.rsplit(None, 2)
    unit, value = rest if len(rest) == 2 else ("", rest[0] if rest else "")
    return name, unit, value


def _launch(launch: str, above: deque[str]) -> str:
    """Return the title of a launch, whose first lines may be above it."""
    while above and _closes(launch) and len(launch) < LONGEST_NAME:
        launch = joined(above.pop(), launch)
    return launch


def _closes(text: str) -> bool:
    """Whether a text closes brackets that an earlier line opened."""
    return any(text.count(b) > text.count(a) for a, b in ("()", "<>", "[]"))
