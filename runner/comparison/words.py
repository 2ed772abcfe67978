"""A comparison in words: amounts, percentages, and each verdict as a sentence."""

from __future__ import annotations

from runner.comparison.changes import LEAST, MARGIN, Change, ComparedMetric
from runner.comparison.metrics import Unit, parsed

_TIMES = (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0))
_SIZES = (("B", 1.0), ("KiB", 2.0**10), ("MiB", 2.0**20), ("GiB", 2.0**30))


def amount(metric: str, value: float) -> str:
    """Format a value of a metric with four digits: 16.60 ms, 1.250 GiB, 0.8451."""
    unit = parsed(metric).unit
    if unit is Unit.SHARE:
        return f"{value:.4g}"
    units = _TIMES if unit is Unit.SECONDS else _SIZES
    word, scale = next((each for each in units if value / each[1] < 999.95), units[-1])
    if word == "B" or value / scale >= 999.95:
        return f"{value / scale:.0f} {word}"
    return f"{value / scale:#.4g} {word}"


def percent(ratio: float) -> str:
    """Format a ratio as the change that it is: +2.1 %, -0.3 %, 0.0 %, x12.5."""
    if ratio >= 10:
        return f"x{ratio:.3g}"
    change = 100 * (ratio - 1)
    text = f"{change:+.1f}" if abs(change) >= 0.1 else f"{change:+.2f}"
    return f"{text} %" if float(text) else "0.0 %"


def sentence(one: ComparedMetric, *, paired: bool) -> str:
    """Return a metric's verdict, what it rests on, and how it was measured."""
    old, new = (amount(one.metric, each) for each in (one.before, one.after))
    values = f"medians {old} before, {new} after"
    counts = _counts(one, paired=paired)
    if one.interval is None:
        many = f"{counts}; a verdict needs {LEAST} of each"
        return f"{one.metric}: not enough samples ({many}); {values}"
    within = " to ".join(map(percent, one.interval))
    apart = "" if paired else "; measured apart, so the machine may have changed too"
    basis = f"99.5 % interval {within}, {counts}{apart}"
    change = f"{percent(one.ratio)} {'in a typical pair' if paired else 'typically'}"
    if one.change is Change.NO_DIFFERENCE:
        return (
            f"{one.metric}: no difference over {100 * MARGIN:g} %: {change} ({basis})"
        )
    if one.change is Change.INCONCLUSIVE:
        more = f"more {'pairs' if paired else 'rounds'} narrow it"
        return f"{one.metric}: inconclusive: {change} ({basis}; {more})"
    return f"{one.metric} is {one.change}: {change} ({basis}); {values}"


def _counts(one: ComparedMetric, *, paired: bool) -> str:
    if paired and one.n_before == one.n_after:
        return f"{one.n_after} pair{'s' if one.n_after != 1 else ''}"
    return f"{one.n_before} and {one.n_after} samples"
