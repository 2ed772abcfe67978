"""The figures of a report as tables of at most seven columns."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from runner.core import Outcome
from runner.core.milestone import ReportedKind
from runner.core.quantities import brief, size
from runner.figures.table import NetworkFigures, numbered
from runner.report.blocks import Block, Paragraph, Part, Table, filled
from runner.report.document.conclusions import first_on_gpu, largest, times
from runner.report.document.nouns import Report, RunTime, TimeShare, TimeShares
from runner.report.phrases import spread

DEFAULT = "default"
"""How many images a program takes if nobody says."""

MOST_COLUMNS = 4
"""So many numbers of images, the largest, or so many runs have a column."""

MOST_PROFILES = 100
"""So many tables of shares are shown."""

NVPROF = "such as nvprof -o FILE.nvprof"


def run_name(report: Report, run: str) -> str:
    """Return what a run is called: its tag, or its id."""
    return next((one.tag for one in report.runs if one.run == run and one.tag), run)


def of_run(report: Report, run: str, title: str) -> str:
    """Return a title, with the run's name before it if there are several runs."""
    return f"{run_name(report, run)}: {title}" if len(report.runs) > 1 else title


Cells = Iterable[tuple[tuple[str, ...], Hashable, str]]


def pivot(
    title: str, heads: tuple[str, ...], columns: dict[Hashable, str], cells: Cells
) -> Iterator[Table]:
    """Yield a table with a row for each key, and a column for what each cell is of.

    Of several cells of one place the first that says something counts.
    """
    found: dict[tuple[str, ...], dict[Hashable, str]] = {}
    for row, column, text in cells:
        if text and column in columns:
            found.setdefault(row, {}).setdefault(column, text)
    if found:
        rows = [(*row, *(at.get(c, "") for c in columns)) for row, at in found.items()]
        right = (*columns.values(), "#", "images")
        yield filled(title, (*heads, *columns.values()), rows, right)


def networks(report: Report) -> Iterator[Part]:
    """Yield the Op Times and the results of each run's networks."""
    if not report.networks:
        yield Paragraph("No command printed Op Times or a correctness.")
    for run in report.runs:
        plain = [n for n in report.networks if n.run == run.run and not n.under]
        for model in dict.fromkeys(one.model for one in plain):
            found = [one for one in plain if one.model == model]
            title = of_run(report, run.run, f"{model}: " if model else "")
            yield from _op_times(report, f"{title}Op Times by number of images", found)
            yield from _results(f"{title}Results", found)


def _op_times(
    report: Report, title: str, found: Sequence[NetworkFigures]
) -> Iterator[Table]:
    """Yield the Op Times with a column for each batch size, and how fast that is."""
    timed = [one for one in found if one.op_time_s]
    sizes = sorted({n.images for n in timed if n.images is not None})[-MOST_COLUMNS:]
    columns: dict[Hashable, str] = {one: str(one) for one in sizes}
    columns |= {None: DEFAULT} if any(one.images is None for one in timed) else {}
    most = largest(timed)
    size = most[0].images if most else None
    first = first_on_gpu(report, most)
    versus = {"versus": f"as fast as {first.script}"} if first else {}

    def cells() -> Cells:
        for one in timed:
            row = (one.title,)
            yield row, one.images, spread(one.op_time_s)
            if first and first is not one and one.images == size and one.op_time_s:
                assert first.op_time_s
                yield row, "versus", times(first.op_time_s.median, one.op_time_s.median)

    yield from pivot(title, ("program",), columns | versus, cells())


def _results(title: str, found: Sequence[NetworkFigures]) -> Iterator[Table]:
    """Yield the results, each with the programs that have it."""
    by: dict[tuple[int | None, str], dict[str, None]] = {}
    for one in sorted(found, key=lambda each: -(each.images or 0)):
        if one.result:
            by.setdefault((one.images, one.result), {})[one.title] = None
    if by:
        rows = [
            (DEFAULT if images is None else str(images), result, ", ".join(programs))
            for (images, result), programs in by.items()
        ]
        yield filled(title, ("images", "result", "programs"), rows, ("images",))


def beside(report: Report) -> Iterator[Block]:
    """Yield tables with a column for each of the last runs; none if there is one."""
    shown = [run.run for run in report.runs[-MOST_COLUMNS:]]
    if len(report.runs) < 2:
        return
    columns: dict[Hashable, str] = {run: run_name(report, run) for run in shown}
    plain = [one for one in report.networks if not one.under]

    def of_networks(text: Callable[[NetworkFigures], str]) -> Cells:
        for one in plain:
            images = "" if one.images is None else str(one.images)
            yield (one.title, one.model, images), one.run, text(one)

    heads = ("program", "model", "images")
    found = of_networks(lambda one: spread(one.op_time_s))
    yield from pivot("Op Times", heads, columns, found)
    yield from pivot("Results", heads, columns, of_networks(lambda one: one.result))
    walls = (((str(t.number), t.name), t.run, spread(t.wall_s)) for t in report.times)
    yield from pivot("Wall time", ("#", "command"), columns, walls)
    peaks = (
        (("the whole run",), run.run, size(run.peak_memory_bytes))
        for run in report.runs
    )
    yield from pivot("Peak memory", ("of",), columns, peaks)


def run_times(report: Report) -> Iterator[Part]:
    """Yield how each command ended and what it took, and which were skipped."""
    heads = ("#", "command", "outcome", "time", "user", "system", "memory")
    printed = any(one.elapsed_s is not None for one in report.times)
    for run in report.runs:
        ran = [
            one
            for one in report.times
            if one.run == run.run and one.outcome is not Outcome.SKIPPED
        ]
        by = "of GNU time where that ran, else of rai" if printed else "of rai"
        title = of_run(report, run.run, f"Times {by}")
        if ran:
            yield filled(title, heads, list(map(_run_time, ran)), ("#", *heads[3:]))
    alike: dict[tuple[str, str], list[int]] = {}
    for one in report.times:
        if one.outcome is Outcome.SKIPPED:
            alike.setdefault((one.run, one.why), []).append(one.number)
    for (name, why), every in alike.items():
        were = "were" if len(every) > 1 else "was"
        text = f"{numbered(every).capitalize()} {were} skipped"
        yield Paragraph(of_run(report, name, f"{text}: {why}" if why else text))


def _run_time(one: RunTime) -> tuple[str, ...]:
    how = one.reason.value if one.reason else one.outcome.value
    if one.outcome is Outcome.FAILED and one.exit_code and not one.reason:
        how = f"{how}, exit {one.exit_code}"
    measured = spread(one.wall_s)
    several = one.wall_s is not None and one.wall_s.n > 1
    elapsed = measured if several or one.elapsed_s is None else brief(one.elapsed_s)
    return (
        str(one.number),
        one.name,
        f"{how}: {one.why}" if one.why else how,
        elapsed,
        brief(one.user_s),
        brief(one.system_s),
        size(one.max_rss_bytes),
    )


def shares(report: Report, kind: ReportedKind) -> Iterator[Part]:
    """Yield the rows of each profile that pass 90 %, and what the others add up to."""
    shown = [one for one in report.shares if one.kind is kind]
    if not shown:
        kernels = kind is ReportedKind.KERNELS
        what = "the GPU's time" if kernels else "calls of CUDA's API"
        text = f"No profile of {what}: no command ran under a profiler, {NVPROF}."
        yield Paragraph(text)
    if len(shown) > MOST_PROFILES:
        more = len(shown) - MOST_PROFILES
        yield Paragraph(f"{more} more profiles are in the report as JSON.")
    heads = ("time", "total", "calls", "average", "min", "max", "name")
    for one in shown[:MOST_PROFILES]:
        rows = list(map(_share, one.rows))
        if one.rest:
            rows.append(_share(one.rest))
        title = of_run(report, one.run, _shares_title(one))
        numbers, names = frozenset(range(6)), frozenset({6})
        yield Table(title, heads, tuple(rows), numbers, names)


def _shares_title(one: TimeShares) -> str:
    about = [f"command {one.number}"] if one.number else []
    about += [f"variant {one.variant}"] if one.variant else []
    about += [f"{one.images} images"] if one.images is not None else []
    about.append(f"from {one.file}" if one.file else f"as {one.tool} printed")
    of = f"{one.script}: " if one.script else ""
    reached = one.rows[-1].reached_percent if one.rows else 0.0
    rows = f"{len(one.rows)} rows are {reached:.2f} %"
    return f"{of}{one.section} ({', '.join(about)}); {rows}"


def _share(row: TimeShare) -> tuple[str, ...]:
    return (
        f"{row.percent:.2f} %",
        brief(row.total_s),
        str(row.calls),
        brief(row.avg_s),
        brief(row.min_s),
        brief(row.max_s),
        row.name,
    )
