"""A report as data: what `rai report --format json` prints.

Every row names its run by ``run``, and its command by ``number``, its place in the
build file from 1. What a run does not have is None or empty.
"""

from __future__ import annotations

from msgspec import Struct

from runner.core import (
    EngineFacts,
    GitState,
    GpuUse,
    ImageUsed,
    KernelCounters,
    Limits,
    Machine,
    Outcome,
    Profile,
    Reason,
    State,
    Verdict,
)
from runner.core.evidence import OutputEnds, Trace
from runner.core.kernel_shapes import LayeredNetwork
from runner.core.measurement import Measurement
from runner.core.milestone import ReportedKind
from runner.core.quantities import Moment
from runner.figures.analysis import KernelAnalysis, LayerAnalysis
from runner.figures.peaks import GpuBounds
from runner.figures.table import CommandTimes, NetworkFigures
from runner.report.diff_nouns import RunDiff

FORMAT = 1


class RunSummary(Struct, frozen=True):
    """One run, without what its commands printed.

    ``problems`` says what of its folder could not be read. ``away`` is the machine that
    runs it, if it cannot be seen from this one.
    """

    run: str
    tag: str
    note: str
    project: str
    title: str
    created_at: Moment
    ended_at: Moment | None
    took_s: float | None
    state: State
    verdict: Verdict | None
    exit_code: int | None
    rounds: int
    rounds_wanted: int
    git: GitState | None
    machine: Machine | None
    engine: EngineFacts | None
    profile: Profile | None
    limits: Limits | None
    image: ImageUsed | None
    gpu: GpuUse | None
    peak_memory_bytes: int | None
    data: tuple[str, ...]
    missing_data: tuple[str, ...]
    only: tuple[str, ...]
    synthetic: bool
    warnings: tuple[str, ...]
    unfound: str
    away: str
    measurement: Measurement | None
    problems: tuple[str, ...]


class RunTime(CommandTimes, frozen=True, kw_only=True):
    """How a command ended, and what it took.

    ``wall_s`` and ``cpu_s`` are what rai measured; the others what GNU time or a shell
    printed, as medians over the rounds, and the most memory of any.
    """

    run: str
    number: int
    name: str
    command: str
    script: str
    outcome: Outcome
    exit_code: int | None
    reason: Reason | None
    why: str
    rounds: int
    under: tuple[str, ...] = ()


class TimeShare(Struct, frozen=True):
    """One kernel, copy or API call; ``reached_percent`` sums up to this row."""

    name: str
    percent: float
    reached_percent: float
    total_s: float
    calls: int
    avg_s: float | None = None
    min_s: float | None = None
    max_s: float | None = None


class TimeShares(Struct, frozen=True):
    """The rows that together take more than 90 % of a profile's time, and no more.

    ``kind`` is kernels or API calls. ``file`` is the profile's, "" if the figures are
    those that a profiler printed. ``rest`` sums up the ``rest_rows`` others.
    """

    run: str
    number: int | None
    name: str
    script: str
    kind: ReportedKind
    tool: str
    section: str
    variant: str
    images: int | None
    file: str
    rows: tuple[TimeShare, ...]
    rest: TimeShare | None
    rest_rows: int


class RunNetworks(Struct, frozen=True):
    """The networks and their layers that a project wrote to rai-kernels.json."""

    run: str
    networks: tuple[LayeredNetwork, ...]


class RunKernels(Struct, frozen=True):
    """What the kernels of a run's profiles reach, and the bounds of its GPUs."""

    run: str
    kernels: tuple[KernelAnalysis, ...]
    bounds: tuple[GpuBounds, ...]


class RunCounters(Struct, frozen=True):
    """What Nsight Compute counted in the kernels of a run's commands."""

    run: str
    counters: tuple[KernelCounters, ...]


class RunLayers(Struct, frozen=True):
    """What each layer reaches by the Op Times that a run's commands printed."""

    run: str
    layers: tuple[LayerAnalysis, ...]


class TracedFile(Struct, frozen=True):
    """A file of a profiler, and the command that wrote it, if that is known."""

    run: str
    number: int | None
    name: str
    script: str
    trace: Trace


class PrintedCommand(Struct, frozen=True):
    """What a command printed in the first round."""

    run: str
    number: int
    name: str
    command: str
    script: str
    outcome: Outcome
    output: OutputEnds | None


class CheckedItem(Struct, frozen=True):
    """Something that a milestone's report must show, and whether it is there.

    ``runs`` are the runs that have it, ``found`` says in a few words what is there,
    ``why`` why it is not, and ``how`` what would give it: a line for the build file, or
    what to do about the commands that the build file has for it, whose ``numbers`` are
    given then.
    """

    kind: ReportedKind
    script: str
    images: int | None
    variants: int
    there: bool
    runs: tuple[str, ...]
    found: str
    why: str
    how: str
    numbers: tuple[int, ...] = ()


class CheckedMilestone(Struct, frozen=True):
    """A milestone, and what its report must show."""

    name: str
    title: str
    items: tuple[CheckedItem, ...]


class Report(Struct, frozen=True):
    """A report of one or several runs; ``comparison`` is of exactly two."""

    rai_report: int
    runs: tuple[RunSummary, ...]
    milestones: tuple[CheckedMilestone, ...]
    times: tuple[RunTime, ...]
    networks: tuple[NetworkFigures, ...]
    shares: tuple[TimeShares, ...]
    shapes: tuple[RunNetworks, ...]
    layers: tuple[RunLayers, ...]
    analysis: tuple[RunKernels, ...]
    counters: tuple[RunCounters, ...]
    traces: tuple[TracedFile, ...]
    outputs: tuple[PrintedCommand, ...]
    comparison: RunDiff | None = None
