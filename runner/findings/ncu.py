"""Sum up what Nsight Compute prints of kernels with `--csv`: durations and counters.

Launches are summed by kernel, counters averaged by kernel, grid and block. Of the
hundreds of its metrics those that say what bounds a kernel are kept.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from runner.core import ProfileRow, ProfileTable
from runner.core.figures import KernelCounters
from runner.findings.tables import LONGEST_NAME, MOST_ROWS
from runner.findings.units import EXPONENTS, scaled

TOOL = "ncu"
KERNELS = "GPU kernels"
DURATIONS = frozenset(
    {"Duration", *(f"gpu__time_duration.{part}" for part in ("sum", "avg", "max"))}
)
"""The metrics of a launch's duration; for one launch they are all the same."""

MOST_KERNELS = 100
"""The most kernels, each with its grid and block, of one process."""

PERCENT, COUNT, BYTES, RATE = "percent", "count", "bytes", "rate"

_PEAK = "avg.pct_of_peak_sustained_elapsed"
METRICS = {
    (PERCENT, "Compute (SM) Throughput"): "sm_percent",
    (PERCENT, "SM [%]"): "sm_percent",
    (PERCENT, f"sm__throughput.{_PEAK}"): "sm_percent",
    (PERCENT, "Memory Throughput"): "memory_percent",
    (PERCENT, "Memory [%]"): "memory_percent",
    (PERCENT, f"gpu__compute_memory_throughput.{_PEAK}"): "memory_percent",
    (PERCENT, "DRAM Throughput"): "dram_percent",
    (PERCENT, f"gpu__dram_throughput.{_PEAK}"): "dram_percent",
    (PERCENT, f"dram__throughput.{_PEAK}"): "dram_percent",
    (PERCENT, "L2 Hit Rate"): "l2_hit_percent",
    (PERCENT, "lts__t_sector_hit_rate.pct"): "l2_hit_percent",
    (PERCENT, "L1/TEX Hit Rate"): "l1_hit_percent",
    (PERCENT, "l1tex__t_sector_hit_rate.pct"): "l1_hit_percent",
    (PERCENT, "Achieved Occupancy"): "occupancy_percent",
    (PERCENT, "sm__warps_active.avg.pct_of_peak_sustained_active"): "occupancy_percent",
    (PERCENT, "Theoretical Occupancy"): "theoretical_occupancy_percent",
    (PERCENT, "sm__maximum_warps_per_active_cycle_pct"): (
        "theoretical_occupancy_percent"
    ),
    (COUNT, "Registers Per Thread"): "registers",
    (COUNT, "launch__registers_per_thread"): "registers",
    (BYTES, "dram__bytes_read.sum"): "dram_read_bytes",
    (BYTES, "dram__bytes_write.sum"): "dram_written_bytes",
    (RATE, "Memory Throughput"): "dram_bytes_per_s",
    (RATE, "dram__bytes.sum.per_second"): "dram_bytes_per_s",
}
"""The field of each metric, by its kind and by its name in any version."""

NAMES = frozenset(name for _, name in METRICS)

_UNIT = re.compile(r"(?P<prefix>[KMGT]?)byte(?P<rate>/s(?:econd)?)?")
_PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_ENGLISH = re.compile(r"[0-9]{1,3}(?:,[0-9]{3}){0,5}(?:\.[0-9]{1,9})?")
_PLAIN = re.compile(r"[0-9]{1,18}(?:[.,][0-9]{1,9})?")
_POINTS = re.compile(r"[0-9]{1,3}(?:\.[0-9]{3}){1,5},[0-9]{1,9}")
_SIZE = re.compile(r"\(([0-9]{1,10}), ?([0-9]{1,10}), ?([0-9]{1,10})\)")

Dim = tuple[int, int, int]


def seconds(number: str, unit: str) -> float | None:
    """Parse a duration in the unit of any version; None if it is not one."""
    unit = unit.removesuffix("econd")
    if unit not in EXPONENTS or (plain := _plain_number(number)) is None:
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


def _plain_number(text: str) -> str | None:
    """Return a number in any locale as plain decimals; None if it is none."""
    if _ENGLISH.fullmatch(text):
        return text.replace(",", "")
    if _PLAIN.fullmatch(text):
        return text.replace(",", ".")
    if _POINTS.fullmatch(text):
        return text.replace(".", "").replace(",", ".")
    return None


def metric(name: str, unit: str, value: str) -> tuple[str, float] | None:
    """Return the field of a metric, and its value; None for one that is not kept."""
    if name not in NAMES or (plain := _plain_number(value)) is None:
        return None
    kind, scale = _kind(unit)
    if (kept := METRICS.get((kind, name))) is None:
        return None
    return kept, float(plain) * scale


def size(text: str) -> Dim | None:
    """Return a grid or block in brackets; None if it is none."""
    match = _SIZE.fullmatch(text.strip())
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


class _Sums(Struct):
    """What launches of one kind have in sum; each metric may lack in some of them."""

    launches: int = 0
    totals: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


class CounterSums:
    """The counters of one process, in bounded memory.

    A launch begins with ``begin``; of each metric its first value counts.
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[str, Dim | None, Dim | None], _Sums] = {}
        self._launch: tuple[str, Dim | None, Dim | None] | None = None
        self._values: dict[str, float] = {}
        self.left_out = 0

    def begin(
        self, kernel: str, grid: Dim | None = None, block: Dim | None = None
    ) -> None:
        """Begin the next launch."""
        self._end()
        self._launch = kernel[:LONGEST_NAME], grid, block

    def add(self, name: str, unit: str, value: str) -> bool:
        """Read a metric of the launch; return whether it is one that is kept."""
        found = metric(name, unit, value)
        if found is not None and self._launch is not None:
            self._values.setdefault(*found)
        return found is not None

    def took(self, seconds: float) -> None:
        """Note the launch's duration."""
        self._values.setdefault("average_s", seconds)

    def found(self) -> Iterator[KernelCounters]:
        """End the launch; yield the averages of each kernel that has counters."""
        self._end()
        for (kernel, grid, block), sums in self._sums.items():
            means = {
                name: total / sums.counts[name] for name, total in sums.totals.items()
            }
            registers = means.pop("registers", None)
            whole = None if registers is None else round(registers)
            one = KernelCounters(kernel, sums.launches, grid, block, registers=whole)
            yield replace(one, **means)

    def _end(self) -> None:
        launch, values = self._launch, self._values
        self._launch, self._values = None, {}
        if launch is None or not values.keys() - {"average_s"}:
            return
        if launch not in self._sums and len(self._sums) >= MOST_KERNELS:
            self.left_out += 1
            return
        sums = self._sums.setdefault(launch, _Sums())
        sums.launches += 1
        for name, value in values.items():
            sums.totals[name] = sums.totals.get(name, 0.0) + value
            sums.counts[name] = sums.counts.get(name, 0) + 1


AddCounters = Callable[[CounterSums], None]


def _kind(unit: str) -> tuple[str, float]:
    """Return what a unit measures, and how many of the base unit it is."""
    if unit == "%":
        return PERCENT, 1.0
    if (match := _UNIT.fullmatch(unit)) is not None:
        return RATE if match["rate"] else BYTES, _PREFIXES[match["prefix"]]
    return COUNT, 1.0
