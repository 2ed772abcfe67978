"""What a bench measured: a headline, sentences, a line a pair, how samples spread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runner.core import RunRecord
from runner.figures.comparison import FigureChange, counted, sentence
from runner.figures.gate import GateOutcome
from runner.figures.statistics import amount, keys, parsed, percent, samples
from runner.report.blocks import Table
from runner.report.diff_nouns import RunDiff
from runner.report.pairs import aligned

MOST_SENTENCES = 20
MOST_SPREADS = 5
MAIN = ("op_time", "command.wall")
"""The metrics of which the first that is there stands for a pair."""

BARS = "▁▂▃▄▅▆▇█"
BINS, MOST_STRIP = 20, 60


def headline(
    found: RunDiff, gate: GateOutcome | None, sides: tuple[str, str], failed: str = ""
) -> str:
    """Return the outcome in a line: ❌ and ✅ are for a gate that failed or passed.

    ``sides`` are the names of what is compared with and what is judged, ``failed`` is
    the label of a side that ended the bench.
    """
    first = next((one for one in _notable(found) if one.ratio is not None), None)
    what = "rai bench: nothing was measured"
    if failed:
        what = f"❌ rai bench: {failed} failed"
    elif gate:
        what = gate.headline("rai bench")
    elif first:
        what = f"rai bench: {first.metric} {percent(first.ratio or 1)}, {first.verdict}"
    return f"{what}, {sides[1]} against {sides[0]}"


def verdicts(found: RunDiff) -> list[str]:
    """Return a sentence for each main metric, and for what else changed."""
    return [
        sentence(one, paired=found.paired) for one in _notable(found)[:MOST_SENTENCES]
    ]


def _notable(found: RunDiff) -> list[FigureChange]:
    notable = [one for one in found.figures if one.primary or one.verdict.found]
    # Commands that ran once were not measured, unless nothing was.
    return [one for one in notable if one.n_after > 1] or notable


def pair(
    runs: Sequence[RunRecord], labels: Sequence[str], named: Sequence[str] = ()
) -> str:
    """Return the latest values of one metric in a line; "" if the runs share none.

    It is one that is ``named``, else an op time, else a command's time. Commands that
    ran once have nothing to do with a pair.
    """
    sides = [samples(run, first=False) for run in runs]
    key = keys(runs[-1].commands)
    repeated = {key.get(one.number - 1) for one in runs[-1].commands if one.round > 0}
    shared = [m for m in sides[0] if all(m in side for side in sides)]
    wanted = [parsed(name) for name in (*named, *MAIN)]
    for metric in (m for name in wanted for m in shared if name.covers(parsed(m))):
        base, *others = (side[metric][-1] for side in sides)
        # A round that has no value has nan.
        if parsed(metric).key in repeated and base > 0 and all(v >= 0 for v in others):
            values = [f"{labels[0]} {amount(metric, base)}"]
            for label, value in zip(labels[1:], others, strict=False):
                values.append(
                    f"{label} {amount(metric, value)} ({percent(value / base)})"
                )
            return f"{metric} {', '.join(values)}"
    return ""


def spreads(
    before: RunRecord, after: RunRecord, found: RunDiff, names: tuple[str, str]
) -> list[Table]:
    """Return how the samples of each main metric spread, and every pair's ratio."""
    one = samples(aligned(before, after), first=not found.paired)
    other = samples(after, first=not found.paired)
    rows = list[tuple[str, ...]]()
    for figure in _notable(found)[:MOST_SPREADS]:
        name = figure.metric
        if figure.n_after > 1 and name in one and name in other:
            sides = counted(one[name], other[name], found.paired)
            rows += _spread(figure, *sides, names)
    heads = ("metric", "side", "smallest", "median", "largest", "spread; pairs in turn")
    return [Table("Samples", heads, tuple(rows), frozenset({2, 3, 4}))] if rows else []


def _spread(
    figure: FigureChange,
    old: Sequence[float],
    new: Sequence[float],
    names: tuple[str, str],
) -> Iterator[tuple[str, ...]]:
    medians = (figure.before or 0.0, figure.after or 0.0)
    ends = _inner((*old, *new))
    for side, values, median in zip(names, (old, new), medians, strict=True):
        places = _places(values, ends, BINS)
        counts = [places.count(at) for at in range(BINS)]
        shown = "".join(BARS[7 * n // max(counts)] if n else "·" for n in counts)
        three = (min(values), median, max(values))
        shown_values = (amount(figure.metric, value) for value in three)
        yield (figure.metric if side == names[0] else "", side, *shown_values, shown)
    if len(old) == len(new) and min(old) > 0 and figure.ratio is not None:
        ratios = [b / a for a, b in zip(old, new, strict=True)]
        places = _places(ratios[-MOST_STRIP:], _inner(ratios), len(BARS))
        three = (min(ratios), figure.ratio, max(ratios))
        shown = "".join(BARS[at] for at in places)
        yield ("", f"{names[1]} / {names[0]}", *map(percent, three), shown)


def _inner(values: Sequence[float]) -> tuple[float, float]:
    """Return an axis that leaves out bursts, which count in its first and last step."""
    ordered, edge = sorted(values), len(values) // 20
    return ordered[edge], ordered[~edge]


def _places(values: Sequence[float], ends: tuple[float, float], many: int) -> list[int]:
    """Return in which of so many equal steps between the ends each value lies."""
    low, high = ends
    width = (high - low) / many or 1.0
    return [min(max(int((value - low) / width), 0), many - 1) for value in values]
