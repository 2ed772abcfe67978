"""The gate that `rai run`, `rai diff` and `rai bench` share: --fail-if."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Annotated

import typer
from msgspec.structs import replace

from runner.cli import common, suggestions
from runner.core import Problem, Reason, RunRecord
from runner.core.errors import UsageError
from runner.figures import gate
from runner.figures.comparison import LEAST, Comparison, compare_runs
from runner.figures.gate import Condition, GateOutcome, judge, too_few
from runner.figures.statistics import parsed, samples
from runner.report.diff_nouns import NOT_COMPARABLE, RunDiff
from runner.store.home import record_of
from runner.terminal.streams import say

FailIf = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITION",
        help='Exit with 7 if it holds: "op_time>3%" (slower by 3 %). Repeatable.',
    ),
]
Baseline = Annotated[
    str | None,
    typer.Option(
        metavar="RUN",
        autocompletion=suggestions.runs,
        help="The run that --fail-if compares with.",
    ),
]


class Unsure(StrEnum):
    """What a gate does that the noise leaves undecided."""

    WARN = "warn"
    FAIL = "fail"


UnsureOption = Annotated[
    Unsure,
    typer.Option(
        "--unsure",
        help="Whether an inconclusive --fail-if only warns, or fails.",
    ),
]
Line = Callable[[str, str], None]
"""What prints a line of rai's own, in a colour."""


def named(given: Sequence[Condition]) -> tuple[str, ...]:
    """Return the metrics that conditions name, for ``compare_runs``."""
    return tuple(dict.fromkeys(one.metric for one in given))


def print_outcome(outcome: GateOutcome, line: Line | None = None) -> int:
    """Print a gate's outcome by ``line`` or on stderr; return the exit code, 0 or 7.

    Raises:
        UsageError: conditions cannot be judged, and none of the others failed.
    """
    shown = line or _plain
    undecided = outcome.failed or outcome.unsure or outcome.refused
    for text in outcome.passed:
        shown(f"{'Within its limit' if undecided else 'Gate passed'}: {text}", "green")
    for text in outcome.unsure:
        shown(f"Gate inconclusive: {text}", "yellow")
    for text in outcome.failed:
        shown(f"Gate failed: {text}", "red")
    if outcome.refused and not outcome.failed:
        raise UsageError(*outcome.refused)
    for problem in outcome.refused:
        shown(f"Warning: {problem}", "yellow")
    return Reason.REGRESSION.exit_code if outcome.failed else 0


def baseline(
    given: Sequence[Condition], run: str | None, *, rounds: int
) -> RunRecord | None:
    """Return the record of --baseline, for a run of so many rounds that begins.

    Raises:
        UsageError: percentages have no run to be compared with, or one that has too few
            samples; or there are no conditions for it.
    """
    relative = [one for one in given if one.relative]
    if run is not None and not relative:
        text = "--baseline is for the percentages of --fail-if; give one, such as"
        raise UsageError(f'{text} --fail-if "op_time>3%", or leave out --baseline')
    record = None if run is None else record_of(common.find_run(run))
    # Compared with itself it has the samples that the new run can be compared with.
    metrics = None if record is None else compare_runs(record, record).metrics
    problems = judge(relative, metrics, {}).refused
    if rounds < LEAST and not problems:
        this = f"this run will have {rounds}"
        problems = tuple(too_few(one, this) for one in relative)
    if problems:
        raise UsageError(*problems)
    return record


def of_run(
    given: Sequence[Condition],
    before: RunRecord | None,
    run: RunRecord,
) -> GateOutcome:
    """Return what the conditions come to for a run that ended, beside its baseline."""
    from runner.report import diff, diff_nouns

    if before is None:
        return judge(given, None, samples(run))
    compared = diff.compared(before, run, named=named(given))
    found = diff.between(
        diff_nouns.DiffSide(before), diff_nouns.DiffSide(run), compared
    )
    return of_diff(given, found, compared, run)


def of_diff(
    given: Sequence[Condition],
    found: RunDiff,
    comparison: Comparison,
    after: RunRecord,
    unsure: Unsure = Unsure.WARN,
) -> GateOutcome:
    """Return what the conditions come to for two runs, ``after`` being the newer one.

    A percentage of figures that cannot be compared is refused.
    """
    refused = {one: why for one in given if (why := _incomparable(one, found))}
    rest = [one for one in given if one not in refused]
    paired = comparison.paired
    outcome = judge(rest, comparison.metrics, samples(after), paired=paired)
    if unsure is Unsure.FAIL:
        failed = (*outcome.failed, *outcome.unsure)
        outcome = replace(outcome, failed=failed, unsure=())
    return replace(outcome, refused=(*refused.values(), *outcome.refused))


def impossible(
    given: Sequence[Condition],
    before: RunRecord,
    after: RunRecord,
) -> tuple[Problem, ...]:
    """Return why conditions cannot be judged, however many pairs a bench goes on for.

    A figure is not there, or a run has one value of it.
    """
    compared = compare_runs(before, after).metrics
    return tuple(gate.impossible(given, compared, samples(after)))


def _incomparable(condition: Condition, found: RunDiff) -> Problem | None:
    """Return why a percentage says nothing about the code, None if it does."""
    name = parsed(condition.metric)
    spoiled = [
        one
        for one in found.figures
        if one.verdict == NOT_COMPARABLE and name.covers(parsed(one.metric))
    ]
    if not condition.relative or not spoiled:
        return None
    first = spoiled[0]
    odd = next(one for one in found.mismatches if one.what == first.because)
    text = f'"{condition.text}" cannot be judged: {first.metric} is not comparable'
    why = f"{odd.what}: {odd.before or 'none'} before, {odd.after or 'none'} after"
    hint = "measure both alike: `rai bench` does; `rai diff` shows all that differs"
    return Problem(f"{text} ({why})", hint=hint)


def _plain(text: str, colour: str) -> None:
    say(text, to_stderr=True)
