"""The tables of figures of two runs side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from runner.comparison import PEAK_MEMORY, FigureChange, amount, percent
from runner.report.blocks import Table
from runner.report.diff.nouns import (
    InferenceChange,
    ProfileChange,
    ProfileRowChange,
)
from runner.report.words import brief

KERNEL = "kernel["
MOST_PROFILE_ROWS = 12
MOST_OPS = 12
LONGEST = 32
"""So much of a command's line is in a title."""

MOST_OF_THE_CHANGE = 0.95
"""The share of the sum of all rows' changes that the shown rows of a profile have."""

Names = tuple[str, str]


def plain(found: Iterable[FigureChange]) -> Iterator[FigureChange]:
    """Yield the metrics but those of kernels, which stand in the profiles."""
    return (one for one in found if not one.metric.startswith(KERNEL))


def sampled(found: Sequence[FigureChange]) -> list[FigureChange]:
    """Return the metrics that were measured again and again, if any was.

    The most memory of a run stays: it is of all rounds.
    """
    again = [
        one
        for one in found
        if max(one.n_before, one.n_after) > 1 or one.metric == PEAK_MEMORY
    ]
    return again if any(one.metric != PEAK_MEMORY for one in again) else list(found)


def figures(found: Sequence[FigureChange], names: Names, *, paired: bool) -> Table:
    """Return a row for each metric; intervals and verdicts where there are samples."""
    several = any(max(one.n_before, one.n_after) > 1 for one in found)
    heads = ("metric", *names, "change")
    rows = [_figure(one) for one in found]
    if not several:
        return Table("Figures", heads, tuple(rows), frozenset({1, 2, 3}))
    typical = "a typical pair" if paired else "typical rounds"
    return Table(
        f"Figures: medians, and the change of {typical}",
        ("metric", *names, "change, 99.5 % interval", "verdict"),
        tuple((*row, one.verdict) for row, one in zip(rows, found, strict=True)),
        frozenset({1, 2, 3}),
    )


def inferences(
    found: Sequence[InferenceChange], names: Names, *, first: bool, everything: bool
) -> Table:
    """Return a row for each Op Time, for their sum, and for the result.

    ``first`` is whether they are of the first of several rounds.

    Without ``everything`` only the first MOST_OPS of an inference are there.
    """
    rows: list[tuple[str, ...]] = []
    last, several = 0, {one.command_number for one in found if one.number > 1}
    for one in found:
        batch = "" if one.batch_size is None else str(one.batch_size)
        number, command = str(one.command_number), one.command
        if one.command_number == last:
            number = command = ""
        last = one.command_number
        head = (number, command, one.variant, batch)
        which = f"{one.number}: " if one.command_number in several else ""
        for what, before, after, change in _lines(one, everything=everything):
            rows.append((*head, which + what, before, after, change))
            which = "   " if which else ""
            head = ("", "", "", "")
    heads = ("#", "command", "variant", "batch", "what", *names, "change")
    filled = [i for i, _ in enumerate(heads) if i > 3 or any(row[i] for row in rows)]
    return Table(
        f"Op Times and results{' of the first round' if first else ''}",
        tuple(heads[i] for i in filled),
        tuple(tuple(row[i] for i in filled) for row in rows),
        frozenset(n for n, i in enumerate(filled) if i in (0, 3, 5, 6, 7)),
    )


def profile(
    found: ProfileChange,
    names: Names,
    known: Mapping[str, FigureChange],
    *,
    everything: bool,
) -> tuple[Table, int]:
    """Return the rows with most of the change, and how many equal ones are left out."""
    odd = found.rows if everything else [row for row in found.rows if not row.same]
    shown = odd if everything else odd[: _until(odd)]
    rest = odd[len(shown) :]
    metrics = [_kernel(found, row, known) for row in shown]
    several = any(metrics)
    rows = [_row(row, metric) for row, metric in zip(shown, metrics, strict=True)]
    if rest:
        name = f"and {len(rest)} more"
        rows.append(_row(_summed(name, rest), None))
    verdict = ("verdict",) if several else ()
    heads = (*names, "change", "by", "calls", *verdict, "name")
    kept = [i for i, head in enumerate(_COLUMNS) if head in ("", *verdict, "name")]
    table = Table(
        f"{found.tool}: {found.section} of command {found.command_number},"
        f" {_brief(found.command)}",
        heads,
        tuple(tuple(row[i] for i in kept) for row in rows),
        frozenset(range(5)),
        names=frozenset({len(heads) - 1}),
    )
    return table, len(found.rows) - len(odd)


_COLUMNS = ("", "", "", "", "", "verdict", "name")


def _figure(one: FigureChange) -> tuple[str, ...]:
    values = [
        "" if v is None else amount(one.metric, v) for v in (one.before, one.after)
    ]
    change = _change(one.before, one.after, one.ratio)
    if one.low is not None and one.high is not None:
        low, high = (percent(x).removesuffix(" %") for x in (one.low, one.high))
        change = f"{change} ({low} to {high})"
    return (one.metric, *values, change)


def _change(
    before: float | None, after: float | None, ratio: float | None = None
) -> str:
    if before is None or after is None:
        return "" if before is after else "new" if before is None else "gone"
    if ratio is None and before:
        ratio = after / before
    return "" if ratio is None else percent(ratio)


def _lines(
    one: InferenceChange, *, everything: bool
) -> Iterator[tuple[str, str, str, str]]:
    old, new = one.op_times_before_s, one.op_times_after_s
    count = max(len(old), len(new))
    shown = count if everything or count <= MOST_OPS + 1 else MOST_OPS
    for number in range(shown):
        before = old[number] if number < len(old) else None
        after = new[number] if number < len(new) else None
        yield f"op {number + 1}", _op(before), _op(after), _change(before, after)
    if count > shown:
        yield f"and {count - shown} more", "", "", ""
    if count > 1:
        sums = (sum(old) if old else None, sum(new) if new else None)
        yield "sum", _op(sums[0]), _op(sums[1]), _change(*sums)
    if everything or one.result_before != one.result_after:
        yield "result", one.result_before, one.result_after, ""


def _op(time_s: float | None) -> str:
    return "" if time_s is None else f"{time_s:.6f} s"


def _until(rows: Sequence[ProfileRowChange]) -> int:
    whole, reached = sum(abs(row.change_s) for row in rows), 0.0
    for count, row in enumerate(rows[:MOST_PROFILE_ROWS], 1):
        reached += abs(row.change_s)
        if reached >= MOST_OF_THE_CHANGE * whole:
            # One row more takes no more space than a line that counts it.
            return count + 1 if len(rows) == count + 1 else count
    return MOST_PROFILE_ROWS


def _kernel(
    of: ProfileChange, row: ProfileRowChange, known: Mapping[str, FigureChange]
) -> FigureChange | None:
    """Return the metric of a kernel, if it was sampled more than once."""
    for key in (of.command, str(of.command_number)):
        one = known.get(f"{KERNEL}{key}].{row.name}")
        if one is not None and max(one.n_before, one.n_after) > 1:
            return one
    return None


def _row(row: ProfileRowChange, metric: FigureChange | None) -> tuple[str, ...]:
    before, after = row.before_s, row.after_s
    if metric is not None:
        before, after = metric.before, metric.after
    by = (after or 0.0) - (before or 0.0)
    calls = str(row.calls_after)
    if row.calls_before != row.calls_after:
        calls = f"{row.calls_before} -> {row.calls_after}"
    sign = "+" if by > 0 else "-" if by < 0 else ""
    ratio = metric.ratio if metric else None
    return (
        brief(before),
        brief(after),
        _change(before, after, ratio),
        f"{sign}{brief(abs(by))}",
        calls,
        metric.verdict if metric else "",
        row.name,
    )


def _summed(name: str, rest: Sequence[ProfileRowChange]) -> ProfileRowChange:
    return ProfileRowChange(
        name,
        _total([row.before_s for row in rest]),
        _total([row.after_s for row in rest]),
        sum(row.calls_before for row in rest),
        sum(row.calls_after for row in rest),
    )


def _total(times_s: Sequence[float | None]) -> float | None:
    known = [time_s for time_s in times_s if time_s is not None]
    return sum(known) if known else None


def _brief(command: str) -> str:
    return f"`{command if len(command) <= LONGEST else command[: LONGEST - 3] + '...'}`"
