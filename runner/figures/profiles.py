"""Read the tables of every profiler, and sum up Nsight Compute's."""

from __future__ import annotations

import csv
import heapq
import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from runner.core import KernelCounters, ProfileRow, ProfileTable
from runner.figures.profile_tables import (
    KERNELS,
    LONGEST_NAME,
    MOST_ROWS,
    NVPROF,
    SUMMARY,
    TableReader,
)
from runner.figures.sources import EXPONENTS, SourceReader, keep, scaled

MOST_KERNELS = 100
"""The most kernels, each with its grid and block, of one process."""

MOST_TABLES = 100
MOST_SIZE = 2 << 20
"""The most that are kept, and about their size as text.

After that the newest replaces the last.
"""

MOST_COUNTERS = 200
"""The most kernels with counters of one output; after that no more are kept."""

_ROW_SIZE = 160
"""A row's numbers."""

_DURATIONS = ("Duration", *(f"gpu__time_duration.{n}" for n in ("sum", "avg", "max")))
"""The metrics of a launch's duration; for one launch they are all the same."""

_PEAK = "avg.pct_of_peak_sustained_elapsed"
_PERCENT, _COUNT, _BYTES, _RATE = "percent", "count", "bytes", "rate"
_METRICS = {
    "sm_percent": (
        *(_PERCENT, "Compute (SM) Throughput", "SM [%]", f"sm__throughput.{_PEAK}"),
    ),
    "memory_percent": (
        *(_PERCENT, "Memory Throughput", "Memory [%]"),
        f"gpu__compute_memory_throughput.{_PEAK}",
    ),
    "dram_percent": (
        *(_PERCENT, "DRAM Throughput", f"gpu__dram_throughput.{_PEAK}"),
        f"dram__throughput.{_PEAK}",
    ),
    "l2_hit_percent": (_PERCENT, "L2 Hit Rate", "lts__t_sector_hit_rate.pct"),
    "l1_hit_percent": (_PERCENT, "L1/TEX Hit Rate", "l1tex__t_sector_hit_rate.pct"),
    "occupancy_percent": (
        *(_PERCENT, "Achieved Occupancy"),
        "sm__warps_active.avg.pct_of_peak_sustained_active",
    ),
    "theoretical_occupancy_percent": (
        *(_PERCENT, "Theoretical Occupancy"),
        "sm__maximum_warps_per_active_cycle_pct",
    ),
    "registers": (_COUNT, "Registers Per Thread", "launch__registers_per_thread"),
    "dram_read_bytes": (_BYTES, "dram__bytes_read.sum"),
    "dram_written_bytes": (_BYTES, "dram__bytes_write.sum"),
    "dram_bytes_per_s": (_RATE, "Memory Throughput", "dram__bytes.sum.per_second"),
}
"""What each counter measures, and its names in all versions."""

_FIELDS = {
    (kind, name): field for field, (kind, *names) in _METRICS.items() for name in names
}
_NAMES = frozenset(name for _, name in _FIELDS).union(_DURATIONS)

_UNIT = re.compile(r"(?P<prefix>[KMGT]?)byte(?P<rate>/s(?:econd)?)?")
_PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_ENGLISH = re.compile(r"[0-9]{1,3}(?:,[0-9]{3}){0,5}(?:\.[0-9]{1,9})?")
_PLAIN = re.compile(r"[0-9]{1,18}(?:[.,][0-9]{1,9})?")
_POINTS = re.compile(r"[0-9]{1,3}(?:\.[0-9]{3}){1,5},[0-9]{1,9}")
_SIZE = re.compile(r"\(([0-9]{1,10}), ?([0-9]{1,10}), ?([0-9]{1,10})\)")

_Size = tuple[int, int, int] | None
_Launch = tuple[str, _Size, _Size]
_KERNEL = "Kernel Name"
_METRIC = ("Metric Name", "Metric Unit", "Metric Value")


class ProfileReader:
    """A reader that collects profilers' tables, line after line."""

    def __init__(self, sources: SourceReader) -> None:
        self.found: list[ProfileTable] = []
        self.counters: list[KernelCounters] = []
        self.left_out = 0
        self._size = 0
        self._sources = sources
        self._tables = TableReader(self._add)
        self._header: list[str] = []
        self._csv: _Summary | LaunchTable | None = None

    @property
    def busy(self) -> bool:
        """Whether a table is open."""
        return self._csv is not None or self._tables.busy

    def read(self, line: str) -> None:
        """Read one line, cleaned and stripped."""
        if self._separated(line):
            self._tables.close()
        else:
            self._tables.read(line)

    def _separated(self, line: str) -> bool:
        """Read a line of comma-separated values; return False if it is none."""
        if not line or (self._csv is None and line[0] != '"'):
            return False
        try:
            cells = next(csv.reader([line]), [])
        except csv.Error:
            cells = []
        opened: _Summary | LaunchTable | None = None
        if line[0] == '"' and tuple(cells[-len(SUMMARY.names) :]) == SUMMARY.names:
            opened = _Summary()
        elif line[0] == '"':
            opened = ncu_table(cells)
        if opened is not None:
            self._close_csv()
            self._header, self._csv = cells, opened
            return True
        if self._csv is None:
            return False
        if len(cells) == len(self._header) and self._csv.row(
            dict(zip(self._header, cells, strict=True))
        ):
            return True
        self._close_csv()
        return False

    def close(self) -> None:
        """End the open tables; drop those without a row."""
        self._close_csv()
        self._tables.close()

    def _close_csv(self) -> None:
        table, self._csv = self._csv, None
        if table is None:
            return
        if isinstance(table, LaunchTable):
            table.end()
            self.left_out += table.left_out
            source = self._sources.whole()
            for one in table.counters():
                if len(self.counters) < MOST_COUNTERS:
                    self.counters.append(replace(one, source=source))
                else:
                    self.left_out += 1
        for found in table.tables():
            self._add(found)

    def _add(self, table: ProfileTable) -> None:
        table = replace(table, source=self._sources.whole())
        size = sum(_ROW_SIZE + len(row.name) for row in table.rows)
        limit = MOST_TABLES if self._size + size <= MOST_SIZE else len(self.found)
        left_out = keep(self.found, table, max(limit, 1))
        self.left_out += left_out
        self._size += 0 if left_out else size


class _Summary:
    """nvprof's summary: a row of units, then rows, with or without a Type."""

    def __init__(self) -> None:
        self._columns = SUMMARY
        self._sections: dict[str, list[ProfileRow]] = {}

    def row(self, named: dict[str, str]) -> bool:
        """Read one row; return False if it is not one."""
        if not self._columns.units:
            units = {name: named[name] for name in ("Time", "Avg", "Min", "Max")}
            self._columns = replace(SUMMARY, units=units)
            return EXPONENTS.keys() >= set(units.values())
        row = self._columns.row([named[name] for name in SUMMARY.names])
        if row is None:
            return False
        section = named.get("Type") or self._columns.section([row.name])
        row = replace(row, name=row.name[:LONGEST_NAME])
        keep(self._sections.setdefault(section, []), row, MOST_ROWS)
        return True

    def tables(self) -> Iterator[ProfileTable]:
        """Yield the table of each section."""
        for section, rows in self._sections.items():
            yield ProfileTable(NVPROF, section, tuple(rows))


class LaunchTable:
    """The launches of one process, in bounded memory.

    A row is one metric of a launch, whose ID the rows of one launch share; or, with
    `--page raw`, one launch, after a row of units.
    """

    def __init__(self, header: Sequence[str]) -> None:
        self._raw = not set(_METRIC) <= set(header)
        self._units: dict[str, str] | None = None
        self._id = ""
        self._launch: _Launch | None = None
        self._values: dict[str, float] = {}
        self._total_s = 0.0
        self._times: dict[str, tuple[int, float, float, float]] = {}
        self._sums: dict[_Launch, dict[str, list[float]]] = {}
        self.left_out = 0

    def row(self, named: dict[str, str]) -> bool:
        """Read one row; return False if it is not one."""
        if self._raw and self._units is None:
            self._units = named
            return not named[_KERNEL]
        known = named.get("ID", "")
        if self._units or not known or known != self._id:
            self.end()
            self._id = known
            sizes = _size(named.get("Grid Size")), _size(named.get("Block Size"))
            self._launch = (named[_KERNEL][:LONGEST_NAME], *sizes)
        if self._units is None:
            self._metric(*(named[each] for each in _METRIC))
        else:
            for name in filter(_NAMES.__contains__, named):  # the first counts
                self._metric(name, self._units[name], named[name])
        return True

    def _metric(self, name: str, unit: str, value: str) -> None:
        """Note a metric of the launch, if it is one that is kept; the first counts."""
        if name not in _NAMES or (plain := _plain_number(value)) is None:
            return
        if name in _DURATIONS:
            if (unit := unit.removesuffix("econd")) in EXPONENTS:
                self._values.setdefault("average_s", scaled(plain, unit))
            return
        kind, scale = _kind(unit)
        if (field := _FIELDS.get((kind, name))) is not None:
            self._values.setdefault(field, float(plain) * scale)

    def end(self) -> None:
        """End the launch that is being read."""
        launch, values = self._launch, self._values
        self._launch, self._values = None, {}
        if launch is None:
            return
        if (took_s := values.get("average_s")) is not None:
            self._took(launch[0], took_s)
        if not values.keys() - {"average_s"}:
            return
        if launch not in self._sums and len(self._sums) >= MOST_KERNELS:
            self.left_out += 1
            return
        sums = self._sums.setdefault(launch, {})
        for name, value in {"launches": 1, **values}.items():
            have = sums.setdefault(name, [0, 0])
            have[0] += 1
            have[1] += value

    def _took(self, name: str, took_s: float) -> None:
        """Count one launch; of too many kernels drop those with the least time."""
        self._total_s += took_s
        if name not in self._times and len(self._times) >= 2 * MOST_ROWS:
            self._times = dict(self._longest())
        count, total, least, most = self._times.get(name, (0, 0.0, took_s, took_s))
        spread = min(least, took_s), max(most, took_s)
        self._times[name] = count + 1, total + took_s, *spread

    def _longest(self) -> list[tuple[str, tuple[int, float, float, float]]]:
        times = self._times.items()
        return heapq.nlargest(MOST_ROWS, times, key=lambda each: each[1][1])

    def tables(self) -> Iterator[ProfileTable]:
        """Yield a table with a row for each kernel, the longest first, if any took."""
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
        if rows:
            yield ProfileTable("ncu", KERNELS, tuple(rows))

    def counters(self) -> Iterator[KernelCounters]:
        """Yield the averages of each kernel that has counters.

        Each metric may lack in some of the launches.
        """
        for (kernel, grid, block), sums in self._sums.items():
            means = {name: total / count for name, (count, total) in sums.items()}
            means["launches"] = int(sums["launches"][0])
            if "registers" in means:
                means["registers"] = round(means["registers"])
            yield replace(KernelCounters(kernel, 0, grid, block), **means)


def ncu_table(header: Sequence[str]) -> LaunchTable | None:
    """Return the table that a header opens; None if it has no metric that is kept."""
    known = set(header)
    metrics = known >= set(_METRIC) or not known.isdisjoint(_NAMES)
    return LaunchTable(header) if _KERNEL in header and metrics else None


def _plain_number(text: str) -> str | None:
    """Return a number in any locale as plain decimals; None if it is none."""
    if _ENGLISH.fullmatch(text):
        return text.replace(",", "")
    if _PLAIN.fullmatch(text):
        return text.replace(",", ".")
    if _POINTS.fullmatch(text):
        return text.replace(".", "").replace(",", ".")
    return None


def _size(text: str | None) -> _Size:
    """Return a grid or block in brackets; None where a version does not print it."""
    match = _SIZE.fullmatch((text or "").strip())
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def _kind(unit: str) -> tuple[str, float]:
    """Return what a unit measures, and how many of the base unit it is."""
    if unit == "%":
        return _PERCENT, 1.0
    if (match := _UNIT.fullmatch(unit)) is not None:
        return _RATE if match["rate"] else _BYTES, _PREFIXES[match["prefix"]]
    return _COUNT, 1.0
