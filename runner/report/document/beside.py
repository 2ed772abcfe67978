"""Figures of several runs side by side: a column for each run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from runner.report.blocks import Block, Table
from runner.report.document.nouns import NetworkFigures, Report, RunTime
from runner.report.document.tables import op_time, result, run_name
from runner.report.words import seconds, size

Cells = dict[tuple[str, ...], dict[str, str]]


def parts(report: Report) -> Iterator[Block]:
    """Yield tables with a column for each run; none if there is one run."""
    if len(report.runs) < 2:
        return
    heads = ("script", "variant", "images", "under")
    yield from _table(
        report, "Sum of Op Times, medians", heads, _networks(report, op_time)
    )
    yield from _table(report, "Results", heads, _networks(report, result), text=True)
    yield from _table(
        report, "Wall time, medians", ("#", "command"), _times(report, _wall)
    )
    whole = (
        (("", "the whole run"), r.run, size(r.peak_memory_bytes)) for r in report.runs
    )
    memory = _by_run(whole) | _times(report, lambda one: size(one.max_rss_bytes))
    yield from _table(report, "Peak memory", ("#", "command"), memory)


def _networks(report: Report, cell: Callable[[NetworkFigures], str]) -> Cells:
    def row(one: NetworkFigures) -> tuple[str, ...]:
        images = "" if one.images is None else str(one.images)
        return one.script, one.variant, images, ", ".join(one.under)

    return _by_run((row(one), one.run, cell(one)) for one in report.networks)


def _times(report: Report, cell: Callable[[RunTime], str]) -> Cells:
    return _by_run(
        ((str(one.number), one.name), one.run, cell(one)) for one in report.times
    )


def _by_run(found: Iterable[tuple[tuple[str, ...], str, str]]) -> Cells:
    """Return the cells of each row by run; of several the first."""
    cells: Cells = {}
    for row, run, value in found:
        if value:
            cells.setdefault(row, {}).setdefault(run, value)
    return cells


def _wall(one: RunTime) -> str:
    return seconds(one.wall_s.median) if one.wall_s else ""


def _table(
    report: Report,
    title: str,
    heads: tuple[str, ...],
    cells: Cells,
    *,
    text: bool = False,
) -> Iterator[Table]:
    if not cells:
        return
    runs = [run.run for run in report.runs]
    every = (*heads, *(run_name(report, run) for run in runs))
    rows = tuple(
        (*row, *(values.get(run, "") for run in runs)) for row, values in cells.items()
    )
    numbers = () if text else range(len(heads), len(every))
    right = {*numbers, *(i for i, head in enumerate(heads) if head in ("#", "images"))}
    yield Table(title, every, rows, frozenset(right))
