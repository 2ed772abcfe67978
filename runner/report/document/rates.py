"""What layers and kernels reach and what bounds them, as tables and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from runner.core.kernel_shapes import LayeredNetwork
from runner.core.quantities import brief, size
from runner.figures.analysis import KernelAnalysis
from runner.figures.peaks import GpuBounds, Occupancy
from runner.figures.table import script
from runner.report.blocks import (
    Paragraph,
    Part,
    Picture,
    Roof,
    Roofline,
    RoofPoint,
    Table,
    filled,
)
from runner.report.document.conclusions import by_trace, limit
from runner.report.document.nouns import Report, RunKernels
from runner.report.document.tables import of_run
from runner.report.findings import until
from runner.report.phrases import shortened

MOST_ROWS = 60
MOST_NETWORKS = 20
MOST_RATES = 500
FEWEST_POINTS = 3
"""Fewer kernels are no picture."""

LONGEST_LABEL = 48
_SAME = 0.01
_UNITS = ("fp64", "fp32", "tf32", "fp16")


def layers(report: Report) -> Iterator[Part]:
    """Yield the layers of each network, and what they reach by their Op Times."""
    if not report.shapes and not report.layers:
        yield Paragraph(
            "Not known: no run's build folder has a rai-kernels.json with layers, which"
            " the project writes (docs/results.md)."
        )
    alike: dict[object, list[LayeredNetwork]] = {}
    for run in report.shapes:
        for network in filter(lambda one: one.layers, run.networks):
            alike.setdefault(_without_batch(network), []).append(network)
    for every in list(alike.values())[:MOST_NETWORKS]:
        largest = max(every, key=lambda one: one.batch_size or 0)
        scripts = ", ".join(dict.fromkeys(n.script for n in every if n.script))
        title = f"{largest.name}: {scripts}" if scripts else largest.name
        heads = ("layer", "kind", "input", "output", "weights", "operations", "bytes")
        rows = [
            (
                one.name,
                one.kind,
                *map(_sizes, (one.input, one.output, one.weights)),
                *("" if n is None else f"{n:,.0f}" for n in (one.flops, one.bytes)),
            )
            for one in largest.layers
        ]
        yield filled(title, heads, rows, ("operations", "bytes"))
    for analysed in report.layers:
        most = max((one.batch_size or 0 for one in analysed.layers), default=0)
        shown = [one for one in analysed.layers if (one.batch_size or 0) == most]
        reached = [
            (
                " ".join(filter(None, (script(one.command), one.variant))),
                one.layer,
                brief(one.op_time_s),
                giga(one.flops_per_s),
                giga(one.bytes_per_s),
                limit(one.bound) if one.bound else "",
            )
            for one in shown[:MOST_RATES]
        ]
        size = f", {most} images" if most else ""
        again = (n.rounds > 1 for n in report.networks if n.run == analysed.run)
        first = ", of the first round" if any(again) else ""
        columns = ("program", "layer", "Op Time", "GFLOP/s", "GB/s", "bound by")
        title = of_run(report, analysed.run, f"Rates by Op Time{size}{first}")
        yield filled(title, columns, reached, columns[2:5])


def _without_batch(network: LayeredNetwork) -> object:
    layers = tuple(
        (one.name, one.kind, one.input[1:], one.output[1:], one.weights)
        for one in network.layers
    )
    return network.name, layers


def _sizes(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))


def giga(rate: float | None) -> str:
    """Return a rate in billions a second; "" if it is not known."""
    return "" if rate is None else f"{rate / 1e9:,.1f}"


def kernels(
    report: Report, drawn: Set[tuple[str, str]] = frozenset()
) -> Iterator[Part]:
    """Yield the analysis of each profile of each run, or why there is none.

    ``drawn`` are the profiles, by run and file, whose roofline stands elsewhere.
    """
    if not report.analysis and not report.counters:
        yield Paragraph(
            "Not known: no profile was kept that has the launches of kernels, as a file"
            " of nvprof has."
        )
    for run in report.analysis:
        for number, (trace, found) in enumerate(by_trace(run.kernels).items()):
            yield from _trace(report, run, found)
            if (run.run, trace) not in drawn:
                yield from _rooflines(report, run, found, number)
    for bounds in dict.fromkeys(one for run in report.analysis for one in run.bounds):
        peaks = [
            f"{rate / 1e12:,.1f} TFLOP/s in {unit}"
            for unit in _UNITS
            if (rate := bounds.flops_per_s(unit))
        ]
        moved = bounds.bytes_per_s
        peaks += [f"{giga(moved)} GB/s of its memory"] if moved else []
        sources = "; ".join(bounds.sources)
        yield Paragraph(f"{bounds.gpu} does at most {', '.join(peaks)} ({sources}).")
    yield from _counters(report)


def rooflines(report: Report, profile: tuple[str, str]) -> Iterator[Picture]:
    """Yield the rooflines of a profile, by its run and its file."""
    for run in report.analysis:
        for number, (trace, found) in enumerate(by_trace(run.kernels).items()):
            if (run.run, trace) == profile:
                yield from _rooflines(report, run, found, number)


def _most(found: list[KernelAnalysis]) -> list[KernelAnalysis]:
    """Return the kernels of a profile that together pass 90 % of the time."""
    return found[: min(until([one.percent for one in found]), MOST_ROWS)]


def _trace(
    report: Report, run: RunKernels, found: list[KernelAnalysis]
) -> Iterator[Part]:
    """Yield what the kernels of one profile reach."""
    trace, shown = found[0].trace, _most(found)
    rated = [one for one in shown if one.flops_per_s or one.bytes_per_s]
    if rated:
        rows = [
            (
                f"{one.percent:.2f} %",
                " ".join(filter(None, (one.variant, one.layer))),
                brief(one.average_s),
                giga(one.flops_per_s),
                giga(one.bytes_per_s),
                limit(one.bound) if one.bound else "not known",
                one.kernel,
            )
            for one in rated
        ]
        title = of_run(report, run.run, f"Rates in {trace}")
        columns = ("of kernels", "layer", "average", "GFLOP/s", "GB/s", "bound by")
        numbers = ("of kernels", *columns[2:5])
        yield filled(title, (*columns, "kernel"), rows, numbers, ("kernel",))
    if lacking := len(shown) - len(rated):
        yield Paragraph(
            f"{lacking} of {len(shown)} kernels of {trace} have no rates, as no"
            " rai-kernels.json says what they do."
        )
    yield from _more_operations(rated)
    heads = ("kernel", "grid", "block", "registers", "shared", "occupancy", "next step")
    launches = [
        (
            one.kernel,
            _grid(one.grid),
            _grid(one.block),
            "" if one.registers is None else str(one.registers),
            size(one.shared_bytes),
            *_occupancy(one.occupancy),
        )
        for one in shown
    ]
    title = of_run(report, run.run, f"Launches and theoretical occupancy in {trace}")
    yield filled(title, heads, launches, ("registers", "shared"), ("kernel",))


def _more_operations(rated: list[KernelAnalysis]) -> Iterator[Paragraph]:
    """Yield which kernels do more operations for a result than it is counted for."""
    differing = {
        shortened(one.kernel, LONGEST_LABEL): one.unit_flops_per_s / one.flops_per_s
        for one in rated
        if one.unit_flops_per_s
        and one.flops_per_s
        and abs(one.unit_flops_per_s / one.flops_per_s - 1) > _SAME
    }
    if differing:
        times = ", ".join(f"{name} ({n:.3g} times)" for name, n in differing.items())
        yield Paragraph(
            "GFLOP/s count the operations of the result. The bound and the roofline"
            f" count those that the GPU does for it: {times}."
        )


def _rooflines(
    report: Report, run: RunKernels, kernels: list[KernelAnalysis], number: int
) -> Iterator[Picture]:
    """Yield a picture for each GPU, of the kernels that ran on it."""
    text = (
        "Operations a second of each kernel over its operations per byte,"
        " below the bounds of the GPU."
    )
    shown = _most(kernels)
    plotted = [one for one in shown if one.flops_per_byte and one.unit_flops_per_s]
    for count, bounds in enumerate(run.bounds):
        ran = [one for one in plotted if one.gpu == bounds.gpu]
        roofs = _roofs(bounds, {one.unit for one in ran})
        if len(ran) >= FEWEST_POINTS and roofs:
            title = f"Roofline of {bounds.gpu}: {ran[0].trace}"
            title = of_run(report, run.run, title)
            name = f"roofline-{run.run}-{number + 1}{f'-{count + 1}' if count else ''}"
            yield Picture(name, text, Roofline(title, roofs, tuple(map(_point, ran))))


def _roofs(bounds: GpuBounds, units: set[str]) -> tuple[Roof, ...]:
    """Return the memory's bound and those of the units that are used."""
    found = [
        Roof(unit, flops=rate)
        for unit in _UNITS
        if unit in units and (rate := bounds.flops_per_s(unit))
    ]
    if bounds.bytes_per_s:
        found.append(Roof("memory", bandwidth=bounds.bytes_per_s))
    return tuple(found)


def _point(one: KernelAnalysis) -> RoofPoint:
    named = " ".join(filter(None, (one.variant, one.layer)))
    label = named or shortened(one.kernel, LONGEST_LABEL)
    rates = (one.flops_per_byte or 0.0, one.unit_flops_per_s or 0.0)
    return RoofPoint(label, *rates, one.unit)


def _grid(grid: tuple[int, int, int] | None) -> str:
    return "x".join(map(str, grid)) if grid else ""


def _occupancy(found: Occupancy | None) -> tuple[str, str]:
    """Return how many warps are held and what limits them, and what would help."""
    if found is None:
        return "not known", ""
    held = f"{found.percent:.1f} % ({', '.join(found.limits)})"
    steps = []
    for step in found.steps:
        changed = f"{step.threads} threads"
        if step.registers is not None:
            changed = f"{step.registers} registers"
        elif step.shared_bytes is not None:
            changed = f"{size(step.shared_bytes)} shared"
        steps.append(f"{step.percent:.1f} % with {changed}")
    return held, ", ".join(steps)


def _counters(report: Report) -> Iterator[Table]:
    heads = ("average", "SM", "memory", "DRAM", "L2 hits", "occupancy", "kernel")
    for run in report.counters:
        rows = [
            (
                brief(one.average_s),
                *(
                    "" if share is None else f"{share:.1f} %"
                    for share in (
                        one.sm_percent,
                        one.memory_percent,
                        one.dram_percent,
                        one.l2_hit_percent,
                        one.occupancy_percent,
                    )
                ),
                one.kernel,
            )
            for one in run.counters[:MOST_ROWS]
        ]
        title = "Counters of Nsight Compute, averages of a launch"
        title = of_run(report, run.run, title)
        yield filled(title, heads, rows, heads[:-1], ("kernel",))
