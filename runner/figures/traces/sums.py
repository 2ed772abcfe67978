"""Values of a file that is not trusted, bounded, and their sums by name."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

from runner.core.evidence import KernelLaunches, LaneKind, Totals, Trace, TracedGpu

LONGEST_TEXT = 4096
"""Characters of a name or a command line."""

LONGEST_TITLE = 200
"""Characters of what names a lane."""

Facts = tuple[tuple[str, str], ...]
"""What is shown of a span: labels, and the words beside them."""

_GREATEST = 1 << 53
_MEMORY = {
    1: "pageable",
    2: "pinned",
    3: "device",
    4: "array",
    5: "managed",
    6: "static of the device",
    7: "static, managed",
}
"""CUPTI's kinds of memory."""


class LaunchShape(NamedTuple):
    """The configuration of a launch, with any values that a file may have."""

    gpu: object
    grid: Sequence[object]
    block: Sequence[object]
    registers: object
    static_shared: object
    dynamic_shared: object

    def facts(self) -> Facts:
        """Return what is shown of it."""
        of_dynamic = "shared memory"
        if self.static_shared is not None:
            of_dynamic = "dynamic shared memory"
        found = (
            ("grid", " x ".join(map(str, triple(self.grid)))),
            ("block", " x ".join(map(str, triple(self.block)))),
            ("registers", spelled(self.registers, "number")),
            ("static shared memory", spelled(self.static_shared, "bytes")),
            (of_dynamic, spelled(self.dynamic_shared, "bytes")),
        )
        return tuple((label, words) for label, words in found if words)


def bounded(value: object, most: int = LONGEST_TEXT) -> str:
    """Return a text of at most ``most`` characters, "" for anything else."""
    if not isinstance(value, str):
        return ""
    return value if len(value) <= most else value[: most - 1] + "…"


def whole(value: object) -> int | None:
    """Return a whole number that is not absurd; None for anything else."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and abs(value) <= _GREATEST:
        return int(value)
    return None


def gpu(
    number: object, name: object, processors: object, major: object, minor: object
) -> TracedGpu:
    """Return a GPU; ``major`` and ``minor`` are its compute capability."""
    first, second = whole(major) or 0, whole(minor) or 0
    made = f"{first}.{second}" if 0 < first < 100 and 0 <= second < 10 else ""
    known = bounded(name, LONGEST_TITLE)
    return TracedGpu(whole(number) or 0, known, made, whole(processors))


def triple(values: Sequence[object]) -> tuple[int, int, int]:
    """Return three whole numbers, 0 for one that is none."""
    x, y, z = (whole(value) or 0 for value in values)
    return x, y, z


def spelled(value: object, how: str) -> str:
    """Write a fact of a span: a "number", "bytes", or a kind of "memory"."""
    number = whole(value)
    if number is None:
        return ""
    if how == "bytes":
        return f"{number:,} bytes"
    if how == "memory":
        return _MEMORY.get(number, "")
    return str(number)


MOST_LAUNCHES = 5_000
"""Configurations of launches that are listed."""

MOST_NAMES = 10_000
"""Names that are summed up by themselves; the others share one sum."""

MOST_TEXT = 4 << 20
"""Characters of the names of a file; names beyond them share one sum too."""

OTHERS = "(all other names)"

FEWEST = 100
"""Names and configurations that each of many files has at least."""

_SECTIONS = {LaneKind.GPU: "GPU activities", LaneKind.API: "API calls"}

Figures = Sequence[float]
"""The number of some spans, their sum, least, most and first start in nanoseconds."""


class Sums:
    """The number and the time of spans by name, and of launches by configuration."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], list[float]] = {}
        self._launches: list[tuple[float, int, str, LaunchShape, Figures]] = []
        self._configurations = 0
        self._begin: float | None = None
        self._others = False
        self.spans = 0

    def add(
        self,
        kind: LaneKind,
        name: str,
        figures: Figures,
        shape: LaunchShape | None = None,
    ) -> None:
        """Add spans of one name, and of one shape if they are launches."""
        count, total, least, most, first = figures
        self._begin = first if self._begin is None else min(first, self._begin)
        self.spans += int(count)
        if shape is not None:
            self._configurations += 1
            entry = (total, -self._configurations, name, shape, figures)
            full = len(self._launches) >= MOST_LAUNCHES
            (heapq.heappushpop if full else heapq.heappush)(self._launches, entry)
        if kind not in _SECTIONS:
            return
        key = (_SECTIONS[kind], name)
        if len(self._found) >= MOST_NAMES and key not in self._found:
            key = (key[0], OTHERS)
        self._others = self._others or key[1] == OTHERS
        have = self._found.setdefault(key, [0, 0, least, most])
        have[0] += count
        have[1] += total
        have[2] = min(have[2], least)
        have[3] = max(have[3], most)

    def trace(
        self,
        path: str,
        tool: str,
        command: str,
        gpus: tuple[TracedGpu, ...],
        problems: Sequence[str],
        files: int,
    ) -> Trace:
        """Return the sums, the longest of each section first.

        Of several ``files`` each has its part of the configurations and names. Those
        that took longest stay; the other names of their section are one.
        """
        most = max(MOST_LAUNCHES // files, FEWEST)
        launches = heapq.nlargest(most, self._launches)
        problems = [*problems]
        if self._configurations > len(launches):
            problems.append(
                f"of {self._configurations:,} configurations of launches"
                f" the {len(launches):,} that took longest are listed"
            )
        if self._others:
            text = f"it has over {MOST_NAMES:,} names, or very long ones"
            problems.append(f"{text}; the others are summed up as one")
        most = len(self._found) if files == 1 else most
        totals: list[Totals] = []
        for section in _SECTIONS.values():
            of_section = [each for each in self._found.items() if each[0][0] == section]
            of_section.sort(key=lambda each: (-each[1][1], each[0][1]))
            every = [_totals(section, key[1], [sums]) for key, sums in of_section]
            totals += every[:most]
            if others := [sums for _, sums in of_section[most:]]:
                totals.append(_totals(section, OTHERS, others))
                problems.append(f"{len(others):,} names are summed up as one")
        return Trace(
            path,
            tool,
            command,
            gpus,
            tuple(map(self._launched, launches)),
            tuple(totals),
            self.spans,
            tuple(problems),
        )

    def _launched(
        self, entry: tuple[float, int, str, LaunchShape, Figures]
    ) -> KernelLaunches:
        *_, name, shape, (count, total, least, most, first) = entry
        return KernelLaunches(
            name,
            whole(shape.gpu) or 0,
            triple(shape.grid),
            triple(shape.block),
            whole(shape.registers),
            whole(shape.static_shared),
            whole(shape.dynamic_shared),
            int(count),
            total / 1e9,
            least / 1e9,
            most / 1e9,
            (first - (self._begin or 0)) / 1e9,
        )


def _totals(section: str, name: str, every: Sequence[Sequence[float]]) -> Totals:
    counts, sums, least, most = zip(*every, strict=True)
    times = (sum(sums) / 1e9, min(least) / 1e9, max(most) / 1e9)
    return Totals(section, name, int(sum(counts)), *times)
