"""What a bench measured, in words: each pair in a line, each verdict in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from runner.comparison import (
    Comparison,
    amount,
    keys,
    parsed,
    percent,
    samples,
    sentence,
)
from runner.core import RunRecord
from runner.report.diff import NOT_COMPARABLE, RunDiff

MOST_SENTENCES = 20
MAIN = ("op_time", "command.wall")
"""The metrics of which the first that is there stands for a pair."""


def verdicts(found: RunDiff, compared: Comparison) -> list[str]:
    """Return a sentence for each main metric, and for what else changed."""
    because = {
        one.metric: one.because
        for one in found.figures
        if one.verdict == NOT_COMPARABLE
    }
    told = [one for one in compared.metrics if one.primary or one.change.found]
    # Commands that ran once were not measured, unless nothing was.
    told = [one for one in told if one.n_after > 1] or told
    return [
        f"{one.metric}: {NOT_COMPARABLE} ({because[one.metric]} differs)"
        if one.metric in because
        else sentence(one, paired=compared.paired)
        for one in told[:MOST_SENTENCES]
    ]


def pair(before: RunRecord, after: RunRecord, named: Sequence[str] = ()) -> str:
    """Return the latest values of one metric in a line; "" if both have none.

    It is one that is ``named``, else an op time, else a command's time. Commands that
    ran once have nothing to do with a pair.
    """
    one, other = samples(before, first=False), samples(after, first=False)
    wanted = [parsed(name) for name in (*named, *MAIN)]
    repeated = _repeated(after)
    shared = [m for m in one if m in other and parsed(m).key in repeated]
    for metric in (m for name in wanted for m in shared if name.covers(parsed(m))):
        old, new = one[metric][-1], other[metric][-1]
        if old > 0 and new >= 0:  # a round that has no value has nan
            values = f"A {amount(metric, old)}, B {amount(metric, new)}"
            return f"{metric} {values} ({percent(new / old)})"
    return ""


def _repeated(run: RunRecord) -> set[str]:
    named = keys(run.commands)
    again = (one for one in run.commands if one.round > 0)
    return {named[one.number - 1] for one in again if one.number - 1 in named}
