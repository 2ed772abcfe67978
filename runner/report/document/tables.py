"""The figures of a report as tables, which name the run where there are several."""

from __future__ import annotations

from collections.abc import Iterator

from runner.core import Outcome
from runner.core.samples import Spread
from runner.report.blocks import Paragraph, Part, Table
from runner.report.document.commands import numbered
from runner.report.document.nouns import (
    NetworkFigures,
    Report,
    RunTime,
    TimeShare,
    TimeShares,
)
from runner.report.words import brief, seconds, size

UNKNOWN = "not given"
GNU_TIME = ("elapsed", "user", "system", "peak memory")
MOST_SIZES = 12
"""So many numbers of images, the largest, have a column."""


def run_name(report: Report, run: str) -> str:
    """Return what a run is called: its tag, or its id."""
    return next((one.tag for one in report.runs if one.run == run and one.tag), run)


def of_run(report: Report, run: str, title: str) -> str:
    """Return a title, with the run's name before it if there are several runs."""
    several = len(report.runs) > 1
    return f"{run_name(report, run)}: {title}" if several else title


def with_runs(report: Report, table: Table, runs: list[str]) -> Table:
    """Return a table with the name of each row's run, if there are several runs."""
    if len(report.runs) < 2:
        return table
    rows = tuple(
        (run_name(report, run), *row) for run, row in zip(runs, table.rows, strict=True)
    )
    right = frozenset(i + 1 for i in table.right)
    names = frozenset(i + 1 for i in table.names)
    return Table(table.title, ("run", *table.heads), rows, right, names)


def run_times(report: Report) -> Iterator[Part]:
    """Yield how each command ended and what it took, and which were skipped."""
    ran = [one for one in report.times if one.outcome is not Outcome.SKIPPED]
    heads = (
        *("#", "command", "outcome", "wall", "elapsed", "user", "system"),
        *("CPU", "peak memory", "rounds", "wall from", "to"),
    )
    every = [_run_time(one) for one in ran]
    kept = [i for i in range(len(heads)) if any(row[i] for row in every)]
    table = Table(
        "wall and CPU as rai measured, the others as GNU time printed"
        if any(heads[i] in GNU_TIME for i in kept)
        else "as rai measured",
        tuple(heads[i] for i in kept),
        tuple(tuple(row[i] for i in kept) for row in every),
        frozenset(n for n, i in enumerate(kept) if i not in (1, 2)),
    )
    if every:
        yield with_runs(report, table, [one.run for one in ran])
    yield from _skipped(report)


def _skipped(report: Report) -> Iterator[Paragraph]:
    """Yield the commands that were skipped for the same reason in a sentence."""
    alike: dict[tuple[str, str], list[int]] = {}
    for one in report.times:
        if one.outcome is Outcome.SKIPPED:
            alike.setdefault((one.run, one.why), []).append(one.number)
    for (run, why), numbers in alike.items():
        were = "were" if len(numbers) > 1 else "was"
        text = f"{numbered(numbers).capitalize()} {were} skipped"
        yield Paragraph(of_run(report, run, f"{text}: {why}" if why else text))


def _run_time(one: RunTime) -> tuple[str, ...]:
    times = (one.elapsed_s, one.user_s, one.system_s)
    wall = one.wall_s
    several = wall is not None and wall.n > 1
    return (
        str(one.number),
        f"{one.name} (under {', '.join(one.under)})" if one.under else one.name,
        _outcome(one),
        seconds(wall.median if wall else None),
        *("" if value is None else f"{value:.2f} s" for value in times),
        seconds(one.cpu_s.median if one.cpu_s else None),
        size(one.max_rss_bytes),
        str(one.rounds) if one.rounds > 1 else "",
        seconds(wall.smallest) if wall and several else "",
        seconds(wall.largest) if wall and several else "",
    )


def _outcome(one: RunTime) -> str:
    how = one.reason.value if one.reason else one.outcome.value
    if one.outcome is Outcome.FAILED and one.exit_code and not one.reason:
        how = f"{how}, exit {one.exit_code}"
    return f"{how}: {one.why}" if one.why else how


def networks(report: Report) -> Table:
    """Return all that the networks printed, a row for each."""
    layers = max((len(n.op_times_s) for n in report.networks), default=0)
    several = any(n.rounds > 1 for n in report.networks)
    heads = (
        *("#", "script", "variant", "images", "model"),
        *(f"layer {i}" for i in range(1, layers + 1)),
        *("sum", "rounds", "sum from", "to"),
        *("correctness", "accuracy", "agreement (synthetic)", "class", "under"),
    )
    rows = [_network(n, layers) for n in report.networks]
    kept = [i for i in range(len(heads)) if i < 2 or any(row[i] for row in rows)]
    words = ("script", "variant", "model", "class", "under")
    table = Table(
        "Op Times, medians of the rounds" if several else "Op Times",
        tuple(heads[i] for i in kept),
        tuple(tuple(row[i] for i in kept) for row in rows),
        frozenset(at for at, i in enumerate(kept) if heads[i] not in words),
    )
    return with_runs(report, table, [one.run for one in report.networks])


def _network(one: NetworkFigures, layers: int) -> tuple[str, ...]:
    """Return a cell for each column; those that all rows leave empty are not shown."""
    times = [_time(spread) for spread in one.op_times_s]
    total = one.op_time_s
    repeated = total is not None and total.n > 1
    shares = (one.correctness, one.accuracy, one.agreement)
    return (
        str(one.number),
        one.script,
        one.variant,
        UNKNOWN if one.images is None else str(one.images),
        one.model,
        *times,
        *([""] * (layers - len(times))),
        _time(total) if total else "",
        str(one.rounds) if one.rounds > 1 else "",
        f"{total.smallest:.6f} s" if total and repeated else "",
        f"{total.largest:.6f} s" if total and repeated else "",
        *("" if share is None else f"{share:g}" for share in shares),
        one.accuracy_class,
        ", ".join(one.under),
    )


def result(one: NetworkFigures) -> str:
    """Return what a network got right; synthetic images have no accuracy."""
    of = f", {one.accuracy_class}" if one.accuracy_class else ""
    if one.agreement is not None:
        return f"agreement {one.agreement:g} (synthetic){of}"
    if one.correctness is not None:
        return f"correctness {one.correctness:g}{of}"
    return "" if one.accuracy is None else f"accuracy {one.accuracy:g}"


def _time(spread: Spread) -> str:
    return f"{spread.median:.6f} s"


def by_images(report: Report) -> Iterator[Table]:
    """Yield tables of Op Times, and of results, with a column for each batch size."""
    plain = [n for n in report.networks if not n.under and (n.op_time_s or result(n))]
    sizes = sorted({n.images for n in plain if n.images is not None})[-MOST_SIZES:]
    columns: list[int | None] = [*sizes]
    columns += [None] if any(n.images is None for n in plain) else []
    if len(columns) < 2:
        return
    heads = ("script", "variant", *(_images(one) for one in columns))
    for title, cell in (
        ("Sum of Op Times by number of images", op_time),
        ("Result by number of images", result),
    ):
        found: dict[tuple[str, str, str], dict[int | None, str]] = {}
        for one in plain:
            row = found.setdefault((one.run, one.script, one.variant), {})
            # Of several commands the first that printed it counts.
            row[one.images] = row.get(one.images) or cell(one)
        kept = {k: row for k, row in found.items() if any(row.values())}
        rows = tuple(
            (script, variant, *(row.get(column, "") for column in columns))
            for (_, script, variant), row in kept.items()
        )
        right = frozenset(range(2, len(heads))) if cell is op_time else frozenset[int]()
        table = Table(title, heads, rows, right)
        yield with_runs(report, table, [run for run, _, _ in kept])


def _images(count: int | None) -> str:
    return UNKNOWN if count is None else str(count)


def op_time(one: NetworkFigures) -> str:
    """Return the sum of a network's Op Times, the median of the rounds."""
    return _time(one.op_time_s) if one.op_time_s else ""


def shares(report: Report, one: TimeShares) -> Table:
    """Return the rows of a profile that pass 90 %, and what the others add up to."""
    heads = ("time", "sum", "total", "calls", "average", "min", "max", "name")
    rows = [_share(row, row.name) for row in one.rows]
    if one.rest:
        count = one.rest_rows
        rows.append(_share(one.rest, f"and {count} more"))
    return Table(
        of_run(report, one.run, shares_title(one)),
        heads,
        tuple(rows),
        frozenset(range(7)),
        names=frozenset({7}),
    )


def shares_title(one: TimeShares) -> str:
    """Return what a profile is of."""
    about = [f"command {one.number}"] if one.number else []
    about += [f"variant {one.variant}"] if one.variant else []
    about += [f"{one.images} images"] if one.images is not None else []
    about.append(f"from {one.file}" if one.file else f"as {one.tool} printed")
    of = f"{one.script}: " if one.script else ""
    return f"{of}{one.section} ({', '.join(about)})"


def giga(rate: float | None) -> str:
    """Return a rate in billions a second; "" if it is not known."""
    return "" if rate is None else f"{rate / 1e9:,.1f}"


def _share(row: TimeShare, name: str) -> tuple[str, ...]:
    return (
        f"{row.percent:.2f} %",
        f"{row.reached_percent:.2f} %",
        brief(row.total_s),
        str(row.calls),
        brief(row.avg_s),
        brief(row.min_s),
        brief(row.max_s),
        name,
    )
