"""What each kernel of a trace and each layer of a network reaches, and its bound."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain
from math import prod
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from runner.core import Inference, KernelCounters
from runner.core.evidence import KernelLaunches, Trace, TracedGpu
from runner.core.kernel_shapes import (
    GridSize,
    KernelShapes,
    KernelWork,
    LayeredNetwork,
    NetworkLayer,
)
from runner.figures import peaks
from runner.figures.peaks import (
    MEMORY,
    UNITS,
    GpuBounds,
    KnownGpu,
    Occupancy,
    occupancy,
)

MOST_ALIKE = 200
"""The most entries of one name and grid that are told apart."""

LATENCY_BELOW = 60.0
"""Percent of the nearest roof; what reaches less is bound by neither of them."""

_OPERATOR = re.compile(r"[;|&()<>]")

_ANONYMOUS = re.compile(r"\(anonymous namespace\)|<unnamed>|\{anonymous\}")
_RETURNED = re.compile(r"^(?:static )?void ")

Entry = TypeVar("Entry", KernelWork, LayeredNetwork)
Value = TypeVar("Value")


class KernelBound(Struct, frozen=True):
    """The roof that a kernel cannot rise above.

    ``by`` is "memory", or the unit of arithmetic, such as "fp32"; ``least_s`` what one
    launch would take at that rate, ``percent`` how much that is of its average time.
    """

    by: str
    least_s: float
    percent: float

    @property
    def latency(self) -> bool:
        """Whether neither roof explains the time, so that waiting does."""
        return self.percent < LATENCY_BELOW


class KernelAnalysis(Struct, frozen=True):
    """The launches of one kernel in one configuration, and how fast they are.

    ``trace`` is the file that they are from, ``gpu`` the GPU's name. Times are of one
    launch, but ``total_s``; ``percent`` is the share of all kernels' time in the trace.
    ``flops``, ``bytes`` and ``unit_flops`` are of one launch, on average where launches
    of several sizes have one grid, and None if no project said; rates are of the
    average time, and those with ``best`` of the shortest, if all launches are alike.
    The ``unit`` is the arithmetic that ``unit_flops`` count; ``flops_per_byte`` are of
    these too. ``bound`` is None where the GPU's rates are not known. ``counters`` are
    those that Nsight Compute printed of such launches, in this run.
    """

    kernel: str
    trace: str
    command: str
    gpu: str
    grid: GridSize
    block: GridSize
    launches: int
    total_s: float
    average_s: float
    min_s: float
    max_s: float
    percent: float
    registers: int | None = None
    shared_bytes: int | None = None
    variant: str = ""
    layer: str = ""
    batch_size: int | None = None
    accuracy_class: str = ""
    unit: str = ""
    flops: float | None = None
    unit_flops: float | None = None
    bytes: float | None = None
    flops_per_byte: float | None = None
    flops_per_s: float | None = None
    best_flops_per_s: float | None = None
    unit_flops_per_s: float | None = None
    bytes_per_s: float | None = None
    best_bytes_per_s: float | None = None
    bound: KernelBound | None = None
    occupancy: Occupancy | None = None
    counters: KernelCounters | None = None


class LayerAnalysis(Struct, frozen=True):
    """One layer of one inference, by its Op Time.

    ``flops`` and ``bytes`` are of the whole batch by the layer's definition. The
    ``bound`` is of the kernels that the variant has for it: what they need of the unit
    that they use, and the layer's bytes, or the kernels' if these are fewer, as they
    are where arrays are stored in half precision. It is None on a CPU.
    """

    command: str
    layer: str
    op_time_s: float
    variant: str = ""
    batch_size: int | None = None
    flops: float | None = None
    bytes: float | None = None
    flops_per_s: float | None = None
    bytes_per_s: float | None = None
    bound: KernelBound | None = None


def kernels(
    shapes: KernelShapes | None,
    traces: Sequence[Trace],
    gpus: Sequence[KnownGpu] = (),
    counters: Sequence[KernelCounters] = (),
) -> tuple[KernelAnalysis, ...]:
    """Return what every kernel of every trace reaches, in each trace by its time.

    ``shapes`` is what the project says of its kernels, ``gpus`` what the run's record
    does of its GPUs; without either the times and the occupancy remain. ``counters``
    are those that the run's commands printed.
    """
    found: list[KernelAnalysis] = []
    for trace in traces:
        index = WorkIndex(of_command(shapes.kernels if shapes else (), trace.command))
        all_s = sum(launches.total_s for launches in trace.launches)
        traced = {gpu.number: _known(gpu, gpus) for gpu in trace.gpus}
        analyses = []
        for launches in trace.launches:
            gpu = traced.get(launches.gpu)
            share = round(100 * launches.total_s / all_s, 2) if all_s else 0.0
            one = _analysis(trace, launches, index.of(launches), gpu, share)
            analyses.append(replace(one, counters=_counted(one, counters)))
        found += sorted(analyses, key=lambda one: -one.total_s)
    return tuple(found)


def layers(
    shapes: KernelShapes | None,
    command: str,
    inference: Inference,
    gpu: GpuBounds | None = None,
    unit: str = "",
) -> tuple[LayerAnalysis, ...]:
    """Return what every layer with an Op Time reaches, in the order of the output.

    ``command`` is the line that printed the inference, ``gpu`` the bounds of the GPU
    that it ran on. Where no kernels are described, it uses the ``unit``; "" if that is
    not known.
    """
    if shapes is None:
        return ()
    network = network_of(shapes.networks, command, inference)
    timed = [layer for layer in network.layers if layer.timed] if network else []
    times = inference.op_times_s
    if network is None or len(timed) != len(times):
        return ()
    variant = inference.source.variant
    works = [
        work
        for work in of_command(shapes.kernels, command)
        if (not variant or work.variant in ("", variant))
        and work.batch_size in (None, network.batch_size)
    ]
    found = []
    for layer, seconds in zip(timed, times, strict=True):
        own = [work for work in works if work.layer == layer.name]
        roof = (
            _layer_bound(gpu, seconds, layer, own)
            if own or not unit
            else bound(gpu, seconds, unit, layer.flops, layer.bytes)
        )
        found.append(
            LayerAnalysis(
                command,
                layer.name,
                seconds,
                variant or agreed(own, lambda work: work.variant) or "",
                network.batch_size,
                layer.flops,
                layer.bytes,
                _ratio(layer.flops, seconds),
                _ratio(layer.bytes, seconds),
                roof,
            )
        )
    return tuple(found)


def bounds_of(
    traces: Sequence[Trace], gpus: Sequence[KnownGpu] = ()
) -> tuple[GpuBounds, ...]:
    """Return what is known of the rates of each GPU that the traces name, once."""
    known = (_known(gpu, gpus) for trace in traces for gpu in trace.gpus)
    found = {gpu.name: peaks.bounds(gpu) for gpu in known}
    return tuple(each for each in found.values() if each is not None)


def bound(
    bounds: GpuBounds | None,
    seconds: float,
    unit: str,
    unit_flops: float | None,
    moved_bytes: float | None,
) -> KernelBound | None:
    """Return which roof is the lower for what a launch does, and how near it is."""
    if bounds is None or seconds <= 0:
        return None
    roofs = []
    rate = bounds.flops_per_s(unit)
    if unit_flops and rate:
        roofs.append((unit_flops / rate, UNITS[unit]))
    if moved_bytes and bounds.bytes_per_s:
        roofs.append((moved_bytes / bounds.bytes_per_s, MEMORY))
    # With one roof alone it is not known which of the two bounds the kernel.
    if len(roofs) < (2 if unit_flops and moved_bytes else 1):
        return None
    least_s, by = max(roofs)
    return KernelBound(by, least_s, round(100 * least_s / seconds, 2))


def network_of(
    networks: Iterable[LayeredNetwork], command: str, inference: Inference
) -> LayeredNetwork | None:
    """Return the network that an inference computed; None unless it is certain."""
    size = inference.source.batch_size
    found = [
        network
        for network in of_command(networks, command)
        if size is None or network.batch_size in (None, size)
    ]
    return found[0] if len(found) == 1 else None


def _analysis(
    trace: Trace,
    launches: KernelLaunches,
    works: Sequence[KernelWork],
    gpu: KnownGpu | None,
    percent: float,
) -> KernelAnalysis:
    average_s = launches.total_s / launches.count if launches.count else 0.0
    count = launches.count
    flops = mean(works, count, lambda work: work.flops)
    moved = mean(works, count, lambda work: work.bytes)
    does = mean(works, count, lambda work: work.unit_flops or work.flops)
    # Of launches that differ, the shortest is not what the average is of.
    alike = len({(work.flops, work.bytes) for work in works}) <= 1
    shortest_s = launches.min_s if alike else 0.0
    unit = agreed(works, lambda work: work.unit or work.accuracy_class) or ""
    parts = (launches.static_shared, launches.dynamic_shared)
    shared = sum(part or 0 for part in parts) if parts != (None, None) else None
    limits = peaks.bounds(gpu) if gpu else None
    held = None
    if gpu is not None and launches.registers is not None and shared is not None:
        threads = prod(launches.block)
        held = occupancy(gpu.capability, threads, launches.registers, shared)
    return KernelAnalysis(
        launches.kernel,
        trace.path,
        trace.command,
        gpu.name if gpu else "",
        launches.grid,
        launches.block,
        launches.count,
        launches.total_s,
        average_s,
        launches.min_s,
        launches.max_s,
        percent,
        launches.registers,
        shared,
        agreed(works, lambda work: work.variant) or "",
        agreed(works, lambda work: work.layer) or "",
        agreed(works, lambda work: work.batch_size),
        agreed(works, lambda work: work.accuracy_class) or "",
        UNITS.get(unit, unit),
        flops,
        does,
        moved,
        _ratio(does, moved),
        _ratio(flops, average_s),
        _ratio(flops, shortest_s),
        _ratio(does, average_s),
        _ratio(moved, average_s),
        _ratio(moved, shortest_s),
        bound(limits, average_s, unit, does, moved),
        held,
    )


def _counted(
    one: KernelAnalysis, counters: Sequence[KernelCounters]
) -> KernelCounters | None:
    """Return the counters of a kernel's launches; None if none or several may be."""
    found = [
        each
        for each in counters
        if each.grid in (None, one.grid)
        and each.block in (None, one.block)
        and same(one.kernel, each.kernel)
    ]
    # A persistent kernel has one grid at every size.
    of_size = [each for each in found if each.source.batch_size == one.batch_size]
    for chosen in (found, of_size):
        if len(chosen) == 1:
            return chosen[0]
    return None


def _known(traced: TracedGpu, gpus: Sequence[KnownGpu]) -> KnownGpu:
    """Return what a trace and the record say of one GPU together."""
    plain = peaks.plain(traced.name)
    same = (gpu for gpu in gpus if peaks.plain(gpu.name) == plain)
    found = next(same, KnownGpu(traced.name))
    return replace(
        found,
        name=traced.name or found.name,
        capability=traced.capability or found.capability,
        multiprocessors=traced.multiprocessors or found.multiprocessors,
    )


def _layer_bound(
    gpu: GpuBounds | None,
    seconds: float,
    layer: NetworkLayer,
    works: Sequence[KernelWork],
) -> KernelBound | None:
    """Return the layer's bound; None unless its kernels are of one variant."""
    does = [work.launches * (work.unit_flops or work.flops or 0) for work in works]
    unit = agreed(
        [work for work in works if work.flops], lambda w: w.unit or w.accuracy_class
    )
    if agreed(works, lambda work: work.variant) is None or unit is None:
        return None
    moved = [work.launches * (work.bytes or 0) for work in works]
    fewest = [n for n in (layer.bytes, sum(moved)) if n]
    return bound(gpu, seconds, unit, sum(does), min(fewest, default=None))


def _ratio(value: float | None, by: float | None) -> float | None:
    return value / by if value and by and by > 0 else None


def _arguments(command: str, script: str) -> tuple[str, ...] | None:
    """Return what follows a program on a command line; None if it does not run it.

    The words end at an operator of the shell.
    """
    words = command.split()
    for at, word in enumerate(words):
        if _unquoted(word).rpartition("/")[2] == script:
            rest = words[at + 1 :]
            ends = (n for n, each in enumerate(rest) if _OPERATOR.search(each))
            return tuple(map(_unquoted, rest[: next(ends, len(rest))]))
    return None


def of_command(entries: Iterable[Entry], command: str) -> list[Entry]:
    """Return the entries of a command; of an unknown command all."""
    every = list(entries)
    called = {entry.script: _arguments(command, entry.script) for entry in every}
    found = [
        entry
        for entry in every
        if not entry.script or not command or called[entry.script] is not None
    ]
    exact = [
        entry
        for entry in found
        if not entry.script or entry.arguments in (None, called[entry.script])
    ]
    return exact or found


class WorkIndex:
    """Entries of one command, found by what a trace says of launches."""

    def __init__(self, works: Iterable[KernelWork]) -> None:
        self._found: dict[tuple[str, GridSize | None], list[KernelWork]] = {}
        for work in works:
            alike = self._found.setdefault((_key(work.kernel), work.grid), [])
            # Of more than these nothing would be known: see ``agreed``.
            if len(alike) <= MOST_ALIKE:
                alike.append(work)

    def of(self, launches: KernelLaunches) -> list[KernelWork]:
        """Return what the launches of one kernel in one configuration may be."""
        keys = ((_key(launches.kernel), grid) for grid in (launches.grid, None))
        alike = [self._found.get(key, []) for key in keys]
        return [
            work
            for work in chain(*alike)
            if max(map(len, alike)) <= MOST_ALIKE
            and work.block in (None, launches.block)
            and same(launches.kernel, work.kernel)
        ]


def agreed(
    works: Iterable[KernelWork], value: Callable[[KernelWork], Value]
) -> Value | None:
    """Return a value that all entries have; None if they differ, or there is none."""
    found = set(map(value, works))
    return found.pop() if len(found) == 1 else None


def mean(
    works: Sequence[KernelWork],
    count: int,
    value: Callable[[KernelWork], float | None],
) -> float | None:
    """Return what a launch does on average; None if that is not known.

    Entries that differ are taken together if they are of one command and variant, and
    the number of launches is that of whole inferences.
    """
    if (each := agreed(works, value)) is not None:
        return each
    launches = sum(work.launches for work in works)
    together = agreed(works, lambda w: (w.script, w.arguments, w.variant)) is not None
    known = [n for work in works if (n := value(work)) is not None]
    if not together or count % launches or len(known) < len(works):
        return None
    parts = (w.launches * each for w, each in zip(works, known, strict=True))
    return sum(parts) / launches


def _unquoted(word: str) -> str:
    return word.strip("\"'")


def same(profiled: str, written: str) -> bool:
    """Whether a name that a profiler printed is that of a kernel in the file."""
    (plain, whole), (wanted, wanted_whole) = _parts(profiled), _parts(written)
    if "<" in written and whole != wanted_whole:
        return False
    # One may lack the namespace.
    return (
        plain == wanted
        or plain.endswith(f"::{wanted}")
        or wanted.endswith(f"::{plain}")
    )


def _key(name: str) -> str:
    """Return what names of one kernel have in common: its name in its namespace."""
    return _parts(name)[0].rpartition("::")[2]


@lru_cache(maxsize=4096)
def _parts(name: str) -> tuple[str, str]:
    """Return a function's name without its type, parameters and template arguments.

    The second part has the template arguments, but no spaces.
    """
    plain, whole, depth = [], [], 0
    for letter in _RETURNED.sub("", _ANONYMOUS.sub("", name.strip())):
        if letter == "(" and depth == 0:
            break
        whole.append(letter)
        if letter in "<>":
            depth = max(depth + (1 if letter == "<" else -1), 0)
        elif depth == 0:
            plain.append(letter)
    bare = "".join(plain).strip().removeprefix("::")
    return bare, re.sub(r"\s", "", "".join(whole))
