"""Judge the conditions of a gate on what was compared and measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from runner.comparison.changes import LEAST, Change, ComparedMetric
from runner.comparison.conditions import Condition, parse
from runner.comparison.metrics import PEAK_MEMORY, Samples, known, parsed
from runner.comparison.words import amount, sentence
from runner.core import Problem

__all__ = ["Condition", "GateOutcome", "impossible", "judge", "parse", "refusals"]

MOST_NAMED = 10
"""The most metrics that a message lists."""


class GateOutcome(Struct, frozen=True):
    """What a gate says, in sentences.

    ``unsure`` are changes beyond a limit that no verdict confirms: they do not fail.
    ``refused`` are conditions that cannot be judged, with what to do.
    """

    failed: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()
    refused: tuple[Problem, ...] = ()


def judge(
    conditions: Iterable[Condition],
    compared: Sequence[ComparedMetric] | None,
    values: Samples,
    *,
    paired: bool = False,
) -> GateOutcome:
    """Return what each condition comes to.

    A relative condition fails where the ratio is beyond its limit and the verdict says
    that it changed that way. Those verdicts share one risk, so that however many
    conditions there are, identical code fails in 1 of 200 comparisons at most. Under
    LEAST samples a side there is no verdict, and it is refused. An absolute condition
    fails where any sample of ``values`` is beyond it.
    ``compared`` is None where there is nothing to compare with.
    """
    failed, passed, unsure = list[str](), list[str](), list[str]()
    refused = list[Problem]()
    for one in conditions:
        if not one.relative:
            problem = _absolute(one, values, failed, passed)
        else:
            covered = _covered(one, compared or ())
            problem = _refusal(one, covered, compared)
            enough = [c for c in covered if c.interval is not None]
            for each in () if problem else enough:
                said = f'"{one.text}": {sentence(each, paired=paired)}'
                if not _beyond(one, each):
                    passed.append(said)
                elif _confirmed(one, each):
                    failed.append(said)
                else:
                    unsure.append(said)
        refused += [problem] if problem else []
    return GateOutcome(tuple(failed), tuple(passed), tuple(unsure), tuple(refused))


def refusals(
    conditions: Iterable[Condition],
    before: Sequence[ComparedMetric] | None,
    *,
    rounds: int,
) -> tuple[Problem, ...]:
    """Return why relative conditions cannot be judged, before the run that is judged.

    ``before`` are the metrics of the run that it will be compared with, ``rounds`` are
    those that it will have.
    """
    found = [
        _refusal(one, _covered(one, before or ()), before) or _too_few(one, rounds)
        for one in conditions
    ]
    return tuple(problem for problem in found if problem)


def impossible(
    conditions: Iterable[Condition],
    compared: Sequence[ComparedMetric],
    values: Samples,
) -> tuple[Problem, ...]:
    """Return what more samples do not help: figures that are not there, or come once.

    ``compared`` and ``values`` are those of runs that go on. The most memory of a run
    is known at its end only, so that is taken to come.
    """
    found = []
    for one in conditions:
        name = parsed(one.metric)
        there = [c.metric for c in compared] if one.relative else list(values)
        covered = [metric for metric in there if name.covers(parsed(metric))]
        again = [metric for metric in covered if metric != PEAK_MEMORY]
        whole = name == parsed(PEAK_MEMORY)
        if again or (whole and not one.relative):
            continue
        found.append(_once(one) if whole else _absent(one, there))
    return tuple(found)


def _refusal(
    condition: Condition,
    covered: Sequence[ComparedMetric],
    compared: Sequence[ComparedMetric] | None,
) -> Problem | None:
    """Return why a relative condition cannot be judged on these metrics, or None."""
    if compared is None:
        text = f'"{condition.text}" cannot be judged: there is no run to compare with'
        hint = "name one by --baseline RUN, or compare with `rai bench` or `rai diff`"
        return Problem(text, hint=hint)
    if not covered:
        return _absent(condition, [one.metric for one in compared])
    if any(one.interval is not None for one in covered):
        return None
    most = max(min(one.n_before, one.n_after) for one in covered)
    if all(one.metric == PEAK_MEMORY for one in covered):
        return _once(condition)
    return _few(condition, f"{covered[0].metric} has {most}")


def _absent(condition: Condition, there: Sequence[str]) -> Problem:
    text = f'"{condition.text}" cannot be judged: there is no such figure'
    names = _listed(there)
    return Problem(text, hint=f"there is {names}" if names else "there is none")


def _once(condition: Condition) -> Problem:
    text = f'"{condition.text}" cannot be judged: a run has one value of it'
    hint = "put /usr/bin/time -v before the command, which gives each round one"
    return Problem(text, hint=hint)


def _too_few(condition: Condition, rounds: int) -> Problem | None:
    if rounds >= LEAST:
        return None
    return _few(condition, f"this run will have {rounds}")


def _few(condition: Condition, what: str) -> Problem:
    text = (
        f'"{condition.text}" cannot be judged: a verdict needs {LEAST} samples a side,'
        f" and {what}"
    )
    hint = f"measure more rounds: rai bench, or --repeat {LEAST}"
    return Problem(text, hint=hint)


def _covered(
    condition: Condition, compared: Sequence[ComparedMetric]
) -> list[ComparedMetric]:
    name = parsed(condition.metric)
    return [one for one in compared if name.covers(parsed(one.metric))]


def _beyond(condition: Condition, one: ComparedMetric) -> bool:
    if condition.above:
        return one.ratio > condition.limit
    return one.ratio < condition.limit


def _confirmed(condition: Condition, one: ComparedMetric) -> bool:
    up = one.change in (Change.SLOWER, Change.HIGHER)
    return one.change.found and up == condition.above


def _absolute(
    condition: Condition, values: Samples, failed: list[str], passed: list[str]
) -> Problem | None:
    name = parsed(condition.metric)
    found = {
        metric: kept
        for metric, each in values.items()
        if name.covers(parsed(metric)) and (kept := known(each))
    }
    for metric, kept in found.items():
        worst = max(kept) if condition.above else min(kept)
        beyond = worst > condition.limit if condition.above else worst < condition.limit
        many = f", the worst of {len(kept)} samples" if len(kept) > 1 else ""
        rounds = len(values.get(f"command[{parsed(metric).key}].wall", ()))
        if name.kind != PEAK_MEMORY and len(kept) < rounds:
            many += f"; {rounds - len(kept)} of {rounds} rounds have none"
        said = f'"{condition.text}": {metric} is {amount(metric, worst)}{many}'
        (failed if beyond else passed).append(said)
    if found:
        return None
    return _absent(condition, list(values))


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
