"""The figures that a program printed, and the GPU faults that it reported."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate

from msgspec import Struct, json
from msgspec.structs import replace

from runner.core.gpu import GpuFault, GpuFaultKind


class Source(Struct, frozen=True):
    """What a figure is of; "", None and () where that is not known.

    ``number`` and ``command`` are the command's: its place in the build file or the
    log, from 1, and its name or line. ``variant`` is the kernel's name, ``batch_size``
    the number of images; neither is there if a whole command's figure is of several.
    ``under`` are the profilers and memory checkers that ran along and took time.
    """

    number: int | None = None
    command: str = ""
    variant: str = ""
    batch_size: int | None = None
    under: tuple[str, ...] = ()


class Inference(Struct, frozen=True):
    """The figures that one run of a network printed; None and () where it printed none.

    ``agreement`` belongs to synthetic images and is never an accuracy.
    ``accuracy_class`` is that of the convolutions, if it is not the usual one.
    """

    op_times_s: tuple[float, ...] = ()
    correctness: float | None = None
    model: str | None = None
    accuracy: float | None = None
    agreement: float | None = None
    made_up: bool = False
    layer_times_s: tuple[float, ...] = ()
    accuracy_class: str = ""
    source: Source = Source()

    @property
    def synthetic(self) -> bool:
        """Whether the images were synthetic, as the program or its result says."""
        return self.made_up or self.agreement is not None


class TimeUsage(Struct, frozen=True):
    """The figures that GNU time, or a shell's ``time``, printed."""

    user_s: float
    system_s: float
    elapsed_s: float
    cpu_percent: int | None = None
    max_rss_kb: int | None = None
    source: Source = Source()


class ProfileRow(Struct, frozen=True):
    """One line of a profiler's table."""

    name: str
    percent: float
    total_s: float
    calls: int
    avg_s: float | None = None
    min_s: float | None = None
    max_s: float | None = None


class ProfileTable(Struct, frozen=True):
    """One table of a profiler: ``section`` is e.g. "GPU activities" or "API calls"."""

    tool: str
    section: str
    rows: tuple[ProfileRow, ...]
    source: Source = Source()


class KernelCounters(Struct, frozen=True):
    """What Nsight Compute counted in the launches of one kernel, on average.

    ``grid`` and ``block`` are theirs, if it said so. Percentages are of the GPU's peak,
    of all accesses to a cache, or of the warps that a multiprocessor holds; None for
    what was not counted.
    """

    kernel: str
    launches: int
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    average_s: float | None = None
    sm_percent: float | None = None
    memory_percent: float | None = None
    dram_percent: float | None = None
    l1_hit_percent: float | None = None
    l2_hit_percent: float | None = None
    occupancy_percent: float | None = None
    theoretical_occupancy_percent: float | None = None
    registers: int | None = None
    dram_read_bytes: float | None = None
    dram_written_bytes: float | None = None
    dram_bytes_per_s: float | None = None
    source: Source = Source()


class ProfileFile(Struct, frozen=True):
    """A file that a profiler wrote; ``path`` is within the build folder."""

    tool: str
    path: str
    size_bytes: int


class Findings(Struct, frozen=True):
    """All figures in a piece of output, in order.

    ``gpu_faults`` holds the first fault of each kind, ``memory_errors`` the number of
    errors that each run of a memory checker counted, ``under`` the profilers and memory
    checkers that the output names, or the command's line. ``unsearched`` bytes of the
    output were not searched, as there was too much of it; ``left_out`` figures
    were found and are not here, as there were too many. ``mistake`` is the first of the
    source that a compiler reports, with its file and line, or the first wrong output
    that a course's image reports.
    """

    inferences: tuple[Inference, ...] = ()
    time_usage: tuple[TimeUsage, ...] = ()
    profiles: tuple[ProfileTable, ...] = ()
    gpu_faults: tuple[GpuFault, ...] = ()
    memory_errors: tuple[int, ...] = ()
    under: tuple[str, ...] = ()
    unsearched: int = 0
    left_out: int = 0
    counters: tuple[KernelCounters, ...] = ()
    mistake: str = ""

    @property
    def gpu_fault(self) -> GpuFault | None:
        """The decisive fault: a lost GPU, otherwise the first, as it causes the rest.

        The order of the two streams is not known; stdout's faults come first.
        """
        lost = (f for f in self.gpu_faults if f.kind is GpuFaultKind.DEVICE_LOST)
        return next(lost, next(iter(self.gpu_faults), None))


MOST_BYTES = 4 << 20
"""The most that the figures of one command may take in the record."""


def size_bytes(found: Findings) -> int:
    """Return about what findings take in the record."""
    return len(json.encode(found))


def fitting(found: Findings, most_bytes: int) -> Findings:
    """Return the first findings that fit into so many bytes, and count the others.

    Faults and memory errors are few and stay.
    """
    left, lost = most_bytes, 0
    kept: dict[str, tuple[Struct, ...]] = {}
    for name in ("inferences", "time_usage", "profiles", "counters"):
        items: tuple[Struct, ...] = getattr(found, name)
        sizes = [len(json.encode(one)) for one in items]
        count = bisect_right([*accumulate(sizes)], left)
        left -= sum(sizes[:count])
        lost += len(items) - count
        kept[name] = items[:count]
    return replace(found, **kept, left_out=found.left_out + lost) if lost else found


def combined(parts: Iterable[Findings]) -> Findings:
    """Return the findings of several streams or commands as one, in their order."""
    every = tuple(parts)
    return Findings(
        tuple(one for part in every for one in part.inferences),
        tuple(one for part in every for one in part.time_usage),
        tuple(one for part in every for one in part.profiles),
        tuple(one for part in every for one in part.gpu_faults),
        tuple(one for part in every for one in part.memory_errors),
        tuple(dict.fromkeys(one for part in every for one in part.under)),
        sum(part.unsearched for part in every),
        sum(part.left_out for part in every),
        tuple(one for part in every for one in part.counters),
        next((part.mistake for part in every if part.mistake), ""),
    )
