"""What each kernel of a profile reaches and what bounds it, as tables and a picture."""

from __future__ import annotations

from collections.abc import Iterator

from runner.analysis import GpuBounds, KernelAnalysis, Occupancy, OccupancyStep
from runner.core.figures import KernelCounters
from runner.report.blocks import Paragraph, Part, Table
from runner.report.charts import Picture, Roof, Roofline, RoofPoint
from runner.report.document.nouns import Report, RunCounters, RunKernels
from runner.report.document.tables import giga, of_run
from runner.report.names import shortened
from runner.report.words import brief, size

MOST_ROWS = 60
_SAME = 0.01
LONGEST_LABEL = 48
_UNITS = (("fp64", "fp64"), ("fp32", "fp32"), ("tf32", "tf32"), ("fp16", "fp16"))


def parts(report: Report) -> Iterator[Part]:
    """Yield the analysis of each profile of each run, or why there is none."""
    if not report.analysis and not report.counters:
        yield Paragraph(
            "Not known: no profile was kept that has the launches of kernels, as a file"
            " of nvprof has."
        )
    for run in report.analysis:
        traces = dict.fromkeys(kernel.trace for kernel in run.kernels)
        for number, trace in enumerate(traces):
            kernels = [one for one in run.kernels if one.trace == trace]
            yield from _trace(report, run, trace, kernels, number)
    yield from _bounds(report)
    for counted in report.counters:
        yield _counters(report, counted)


def _counters(report: Report, run: RunCounters) -> Table:
    heads = (
        *("launches", "average", "SM", "memory", "DRAM", "L1 hits", "L2 hits"),
        *("achieved occupancy", "theoretical", "registers", "read", "written", "GB/s"),
        *("grid", "block", "kernel"),
    )
    rows = tuple(_counted(one) for one in run.counters[:MOST_ROWS])
    title = of_run(report, run.run, "Counters of Nsight Compute, averages of a launch")
    return Table(title, heads, rows, frozenset(range(15)), frozenset({15}))


def _counted(one: KernelCounters) -> tuple[str, ...]:
    shares = (
        *(one.sm_percent, one.memory_percent, one.dram_percent, one.l1_hit_percent),
        *(one.l2_hit_percent, one.occupancy_percent),
        one.theoretical_occupancy_percent,
    )
    return (
        str(one.launches),
        brief(one.average_s),
        *("" if share is None else f"{share:.1f} %" for share in shares),
        "" if one.registers is None else str(one.registers),
        size(one.dram_read_bytes),
        size(one.dram_written_bytes),
        giga(one.dram_bytes_per_s),
        _sizes(one.grid) if one.grid else "",
        _sizes(one.block) if one.block else "",
        one.kernel,
    )


def _trace(
    report: Report,
    run: RunKernels,
    trace: str,
    kernels: list[KernelAnalysis],
    number: int,
) -> Iterator[Part]:
    shown = kernels[:MOST_ROWS]
    if len(kernels) > len(shown):
        yield Paragraph(
            f"{len(kernels) - len(shown)} more kernels of {trace} took less time."
        )
    rated = [one for one in shown if one.flops_per_s or one.bytes_per_s]
    if rated:
        yield _rates(of_run(report, run.run, f"Rates in {trace}"), rated)
        yield from _notes(kernels, rated)
    else:
        yield Paragraph(
            f"Rates in {trace} are not known: no rai-kernels.json says what its"
            " kernels do."
        )
    name = f"roofline-{run.run}-{number + 1}"
    plotted = list(filter(_plotted, rated))
    yield from _rooflines(report, run, trace, plotted, name)
    yield _occupancies(
        of_run(report, run.run, f"Launches and theoretical occupancy in {trace}"), shown
    )


def _notes(
    kernels: list[KernelAnalysis], rated: list[KernelAnalysis]
) -> Iterator[Paragraph]:
    """Yield what the table of rates lacks, and which operations it counts where."""
    bare = [one for one in kernels if not (one.flops_per_s or one.bytes_per_s)]
    if bare:
        share = sum(one.percent for one in bare)
        yield Paragraph(
            f"Without rates: {len(bare)} of {len(kernels)} kernels, {share:.2f} % of"
            " the time, as rai-kernels.json does not say what they do."
        )
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
            "GFLOP/s count the operations of the result. FLOP per byte, the bound and"
            f" the roofline count those that the GPU does for it: {times}."
        )


def _rooflines(
    report: Report,
    run: RunKernels,
    trace: str,
    kernels: list[KernelAnalysis],
    name: str,
) -> Iterator[Picture]:
    """Yield a picture for each GPU, of the kernels that ran on it."""
    text = (
        "Operations a second of each kernel over its operations per byte,"
        " below the bounds of the GPU."
    )
    count = 0
    for bounds in run.bounds:
        ran = [one for one in kernels if one.gpu == bounds.gpu]
        roofs = _roofs(bounds, {one.unit for one in ran})
        if ran and roofs:
            title = of_run(report, run.run, f"Roofline of {bounds.gpu}: {trace}")
            chart = Roofline(title, roofs, tuple(map(_point, ran)))
            count += 1
            yield Picture(f"{name}-{count}" if count > 1 else name, text, chart)


def _rates(title: str, kernels: list[KernelAnalysis]) -> Table:
    heads = (
        *("variant", "layer", "of kernels", "average", "GFLOP/s", "GB/s"),
        *("FLOP per byte", "bound by", "of the bound", "kernel"),
    )
    rows = tuple(
        (
            one.variant,
            one.layer,
            f"{one.percent:.2f} %",
            brief(one.average_s),
            giga(one.flops_per_s),
            giga(one.bytes_per_s),
            "" if one.flops_per_byte is None else f"{one.flops_per_byte:.3g}",
            one.bound.by if one.bound else "not known",
            f"{one.bound.percent:.1f} %" if one.bound else "",
            one.kernel,
        )
        for one in kernels
    )
    return Table(title, heads, rows, frozenset({2, 3, 4, 5, 6, 8}), frozenset({9}))


def _occupancies(title: str, kernels: list[KernelAnalysis]) -> Table:
    heads = (
        *("of kernels", "launches", "average", "grid", "block", "registers", "shared"),
        *("occupancy", "warps", "limited by", "next step", "kernel"),
    )
    rows = tuple(
        (
            f"{one.percent:.2f} %",
            str(one.launches),
            brief(one.average_s),
            _sizes(one.grid),
            _sizes(one.block),
            "" if one.registers is None else str(one.registers),
            size(one.shared_bytes),
            *_occupancy(one.occupancy),
            one.kernel,
        )
        for one in kernels
    )
    return Table(title, heads, rows, frozenset(range(8)), frozenset({11}))


def _occupancy(found: Occupancy | None) -> tuple[str, str, str, str]:
    if found is None:
        return "not known", "", "", ""
    warps = f"{found.warps}/{found.most_warps}"
    steps = ", ".join(map(_step, found.steps))
    return f"{found.percent:.1f} %", warps, ", ".join(found.limits), steps


def _step(step: OccupancyStep) -> str:
    """Describe the nearest change that helps: 25.0 % with 128 registers."""
    if step.registers is not None:
        changed = f"{step.registers} registers"
    elif step.shared_bytes is not None:
        changed = f"{size(step.shared_bytes)} shared"
    else:
        changed = f"{step.threads} threads"
    return f"{step.percent:.1f} % with {changed}"


def _bounds(report: Report) -> Iterator[Part]:
    every = dict.fromkeys(one for run in report.analysis for one in run.bounds)
    if not every:
        return
    heads = ("GPU", "memory", *(f"{name} peak" for name, _ in _UNITS), "from")
    rows = tuple(
        (
            one.gpu,
            f"{giga(one.bytes_per_s)} GB/s" if one.bytes_per_s else "not known",
            *(_peak(one.flops_per_s(unit)) for _, unit in _UNITS),
            "; ".join(one.sources),
        )
        for one in every
    )
    yield Table("What the GPU does at most", heads, rows, frozenset(range(1, 6)))


def _peak(rate: float | None) -> str:
    return "not known" if rate is None else f"{rate / 1e12:,.1f} TFLOP/s"


def _sizes(grid: tuple[int, int, int]) -> str:
    return "x".join(map(str, grid))


def _plotted(one: KernelAnalysis) -> bool:
    return bool(one.flops_per_byte and one.unit_flops_per_s)


def _point(one: KernelAnalysis) -> RoofPoint:
    label = " ".join(filter(None, (one.variant, one.layer))) or shortened(
        one.kernel, LONGEST_LABEL
    )
    return RoofPoint(
        label, one.flops_per_byte or 0.0, one.unit_flops_per_s or 0.0, one.unit
    )


def _roofs(bounds: GpuBounds, units: set[str]) -> tuple[Roof, ...]:
    """Return the memory's bound and those of the units that are used."""
    found = [
        Roof(name, flops=rate)
        for name, unit in _UNITS
        if unit in units and (rate := bounds.flops_per_s(unit))
    ]
    if bounds.bytes_per_s:
        found.append(Roof("memory", bandwidth=bounds.bytes_per_s))
    return tuple(found)
