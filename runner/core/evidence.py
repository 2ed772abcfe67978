"""All that a run left behind, for a report, and what profilers recorded."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct, field

from runner.core.kernel_shapes import KernelShapes
from runner.core.measurement import Measurement
from runner.core.run import RunRecord


class LaneKind(StrEnum):
    """What the spans of a lane are."""

    GPU = "gpu"
    API = "api"
    RANGE = "range"


class Lane(Struct, frozen=True):
    """One row of a timeline: a stream of a GPU, or the calls of a thread.

    ``process`` names the process, such as "m1.2.py (14)"; ``title`` the row within it,
    such as "GPU 0, stream 7" or "thread 14".
    """

    process: str
    title: str
    kind: LaneKind


class Timeline(Struct):
    """The spans of a trace, as columns of one length.

    They are sorted by lane, then by start, the longest of those that start together
    first.
    Times are in nanoseconds; ``start`` counts from the beginning of the trace.
    ``lane``, ``name`` and ``facts`` are places in ``lanes``, ``names`` and ``notes``;
    the first of ``notes`` is empty. A note is what is shown of a selected span besides
    its times: pairs of a name and a value, such as ("grid", "834 x 1 x 1").
    ``link`` joins the call and what it launched: the same number above 0, or 0.
    ``merged`` counts the spans that one stands for where there were too many: 1 for a
    span that is as it was recorded. ``left_out`` is how many were merged away.
    """

    names: list[str]
    lanes: list[Lane]
    notes: list[tuple[tuple[str, str], ...]]
    lane: array[int] = field(default_factory=lambda: array("I"))
    start: array[int] = field(default_factory=lambda: array("q"))
    length: array[int] = field(default_factory=lambda: array("q"))
    name: array[int] = field(default_factory=lambda: array("I"))
    facts: array[int] = field(default_factory=lambda: array("I"))
    link: array[int] = field(default_factory=lambda: array("q"))
    merged: array[int] = field(default_factory=lambda: array("I"))
    left_out: int = 0


class TracedGpu(Struct, frozen=True):
    """A GPU as a trace names it; ``capability`` is such as "9.0", "" if not known."""

    number: int
    name: str = ""
    capability: str = ""
    multiprocessors: int | None = None


class KernelLaunches(Struct, frozen=True):
    """The launches of one kernel in one configuration, in one process.

    ``first`` is the start of the first of them, in seconds since the beginning of the
    trace; ``gpu`` the number of the GPU. Shared memory is in bytes.
    """

    kernel: str
    gpu: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int | None
    static_shared: int | None
    dynamic_shared: int | None
    count: int
    total_s: float
    min_s: float
    max_s: float
    first_s: float = 0.0


class Totals(Struct, frozen=True):
    """All spans of one name: ``section`` is "GPU activities" or "API calls"."""

    section: str
    name: str
    count: int
    total_s: float
    min_s: float
    max_s: float


class Trace(Struct, frozen=True):
    """What is known of one file of a profiler without its spans.

    ``path`` is within the build folder, ``command`` the command line that was profiled,
    as the file names it; ``spans`` is how many the file has. ``problems`` says what of
    the file could not be read, and why.
    """

    path: str
    tool: str
    command: str = ""
    gpus: tuple[TracedGpu, ...] = ()
    launches: tuple[KernelLaunches, ...] = ()
    totals: tuple[Totals, ...] = ()
    spans: int = 0
    problems: tuple[str, ...] = ()


NO_OUTPUTS: Mapping[int, OutputEnds] = MappingProxyType({})


class OutputEnds(Struct, frozen=True):
    """The beginning and the end of what a command printed, as plain text.

    Between them ``left_out_bytes`` are left out; if these are 0, ``head`` is all of it.
    """

    head: str
    tail: str = ""
    left_out_bytes: int = 0


class RunEvidence(Struct, frozen=True):
    """A run's record, and what was found in its folder.

    ``outputs`` are of the commands of the first round, by index. ``away`` is the
    machine that runs it, if that cannot be seen from this one. ``problems``
    says what could not be read, and why.
    """

    record: RunRecord
    tag: str = ""
    note: str = ""
    away: str = ""
    outputs: Mapping[int, OutputEnds] = NO_OUTPUTS
    shapes: KernelShapes | None = None
    traces: tuple[Trace, ...] = ()
    measurement: Measurement | None = None
    problems: tuple[str, ...] = ()
