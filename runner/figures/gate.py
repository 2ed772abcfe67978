"""The conditions of a gate, such as ``op_time>3%``, and what they come to.

    METRIC>N%    the metric rises by more than N percent
    METRIC<-N%   it falls by more than N percent
    METRIC>N     a sample lies above N: a time (5ms), a size (2GiB), or a share (0.85)
    METRIC<N     a sample lies below N

METRIC is a name of ``metrics``, such as command[final].wall. Without its key it stands
for every command that has the metric.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from runner.core import Problem, quantities
from runner.core.errors import UsageError
from runner.figures.comparison import LEAST, Change, FigureChange, sentence
from runner.figures.statistics import (
    PEAK_MEMORY,
    Samples,
    Unit,
    amount,
    known,
    parsed,
    percent,
)

OPTION = "--fail-if"
KINDS = (
    "op_time",
    "correctness",
    "command",
    "command.wall",
    "command.cpu",
    "kernel",
    "peak_memory",
)
"""The metrics that a condition may name, without key."""

MOST_NAMED = 10
"""The most metrics that a message lists."""

_FORM = re.compile(r"(?P<metric>.*)(?P<sign>[<>])(?P<limit>[^<>]*)", re.DOTALL)
_NUMBER = r"(?:[0-9]{1,15}(?:\.[0-9]{1,15})?|\.[0-9]{1,15})"
_PERCENT = {
    ">": re.compile(rf"\+?({_NUMBER}) *%"),
    "<": re.compile(r"(-0*[0-9]{1,2}(?:\.[0-9]{1,15})?|-\.[0-9]{1,15}) *%"),
}
"""A rise has no minus sign, and a fall has one and is of less than 100 %."""

_EXAMPLES = {
    Unit.SECONDS: {">": "X>3% or X>20ms", "<": "X<-3% or X<20ms"},
    Unit.BYTES: {">": "X>10% or X>2GiB", "<": "X<-10% or X<2GiB"},
    Unit.SHARE: {">": "X>1% or X>0.85", "<": "X<-1% or X<0.85"},
}


class Condition(Struct, frozen=True):
    """One condition that fails a run.

    ``text`` is as it was written, ``metric`` names one or several metrics. It fails
    ``above`` the limit, else below it. A ``relative`` limit is a ratio of after by
    before, 1.03 for 3 %; another is in the metric's unit.
    """

    text: str
    metric: str
    above: bool
    limit: float
    relative: bool

    def covers(self, metric: str) -> bool:
        """Whether it is about a metric."""
        return parsed(self.metric).covers(parsed(metric))

    def beyond(self, value: float) -> bool:
        """Whether a value, or a ratio, is on the side of the limit that fails."""
        return value > self.limit if self.above else value < self.limit

    @property
    def limit_shown(self) -> str:
        """The limit in words: 3 %, 20.00 ms."""
        if self.relative:
            return f"{100 * (self.limit - 1):.4g} %"
        return amount(self.metric, self.limit)


class GateOutcome(Struct, frozen=True):
    """What a gate says, in sentences.

    ``unsure`` are changes that no verdict confirms and that may lie beyond a limit:
    they do not fail. ``refused`` are conditions that cannot be judged, with what to do.
    ``brief`` is what decides it, without its reasons: op_time +5.1 % (limit 3 %).
    """

    failed: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()
    refused: tuple[Problem, ...] = ()
    brief: str = ""

    def headline(self, command: str) -> str:
        """Return the outcome in a line that begins with ✅ or ❌."""
        sign = "❌" if self.failed or self.refused else "✅"
        judged = self.failed or not self.refused
        brief = self.brief if judged and self.brief else "the gate cannot be judged"
        return f"{sign} {command}: {brief}"


def parse(texts: Iterable[str]) -> tuple[Condition, ...]:
    """Return the conditions that are written so, each once.

    Raises:
        UsageError: some are wrong; carries every problem.
    """
    found, problems = list[Condition](), list[Problem]()
    for text in dict.fromkeys(texts):
        read = _condition(text)
        if isinstance(read, Condition):
            found.append(read)
        else:
            begin = f'{OPTION} "{text}": '
            problems += [Problem(begin + what, hint=hint) for what, hint in read]
    if problems:
        raise UsageError(*problems)
    return tuple(found)


def _condition(text: str) -> Condition | list[tuple[str, str]]:
    """Return a condition, or what is wrong with it and what to do."""
    form = _FORM.fullmatch(text)
    if form is None:
        hint = f'quote the whole of it: {OPTION} "op_time>3%"'
        return [("expected > or < and a limit", hint)]
    metric, sign, limit = (part.strip() for part in form.groups())
    wrong, unit = list[tuple[str, str]](), Unit.SECONDS
    plain = re.fullmatch(_NUMBER, limit)
    try:
        unit = parsed(metric).unit
    except ValueError:
        wrong.append(_no_metric(metric))
    percentage = _PERCENT[sign].fullmatch(limit)
    value = 1 + float(percentage[1]) / 100 if percentage else _absolute(limit, unit)
    if value is None and not (wrong and plain):
        hint = f"write {_EXAMPLES[unit][sign].replace('X', metric)}"
        wrong.append((f"{limit!r} is no limit here", hint))
    elif value is not None and not wrong:
        return Condition(text, metric, sign == ">", value, percentage is not None)
    return wrong


def _no_metric(name: str) -> tuple[str, str]:
    kind = re.split(r"[\[.]", name, maxsplit=1)[0]
    if kind in KINDS:
        where = f"{kind}[KEY]" + {"command": ".wall", "kernel": ".NAME"}.get(kind, "")
        hint = f"write {where}, where KEY is a command's name or number"
        return f"{name[len(kind) :]!r} is no part of {kind}", hint
    close = difflib.get_close_matches(kind, KINDS, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(KINDS)}"
    return f"{kind!r} is no metric", hint


def _absolute(text: str, unit: Unit) -> float | None:
    """Return a limit in the metric's unit, None if it is none."""
    if unit is Unit.SHARE:
        value = float(text) if re.fullmatch(_NUMBER, text) else math.inf
        return value if value <= 1 else None
    if re.fullmatch(_NUMBER, text):
        return None  # of what?
    seconds = unit is Unit.SECONDS
    return quantities.duration_s(text) if seconds else quantities.size_bytes(text)


def judge(
    conditions: Iterable[Condition],
    compared: Sequence[FigureChange] | None,
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
    judged, refused = list[_Judged](), list[Problem]()
    for one in conditions:
        if problem := _refusal(one, compared, values):
            refused.append(problem)
        elif one.relative:
            judged += _of_changes(one, compared or (), paired)
        else:
            judged += _of_values(one, values)
    kinds = ("failed", "unsure", "passed")
    by_kind = {kind: [each[1:] for each in judged if each[0] == kind] for kind in kinds}
    texts = {kind: tuple(text for text, _ in each) for kind, each in by_kind.items()}
    kind = next(filter(by_kind.get, kinds), "passed")
    brief = by_kind[kind][0][1] if by_kind[kind] else ""
    if len(by_kind[kind]) > 1 and kind != "passed":
        brief += f" and {len(by_kind[kind]) - 1} more"
    return GateOutcome(**texts, refused=tuple(refused), brief=brief)


_Judged = tuple[str, str, str]
"""failed, unsure or passed; the sentence; and in brief."""


def _of_changes(
    one: Condition, compared: Sequence[FigureChange], paired: bool
) -> Iterator[_Judged]:
    """Yield what a relative condition says of each metric with enough samples."""
    covered = [c for c in compared if one.covers(c.metric) and c.span]
    for each in covered:
        low, ratio, high = each.span or (1.0, 1.0, 1.0)
        kind = "passed"
        if one.beyond(ratio):
            kind = "failed" if each.verdict.found else "unsure"
        elif each.verdict is Change.INCONCLUSIVE and any(map(one.beyond, (low, high))):
            kind = "unsure"
        name = one.metric if len(covered) == 1 else each.metric
        unsure = ", inconclusive" if kind == "unsure" else ""
        brief = f"{name} {percent(ratio)}{unsure} (limit {one.limit_shown})"
        yield kind, f'"{one.text}": {sentence(each, paired=paired)}', brief


def _of_values(one: Condition, values: Samples) -> Iterator[_Judged]:
    """Yield what an absolute condition says of each metric by its worst sample."""
    for metric, each in values.items():
        kept = known(each)
        if not kept or not one.covers(metric):
            continue
        worst = max(kept) if one.above else min(kept)
        many = f", the worst of {len(kept)} samples" if len(kept) > 1 else ""
        rounds = len(values.get(f"command[{parsed(metric).key}].wall", ()))
        if parsed(metric).kind != PEAK_MEMORY and len(kept) < rounds:
            many += f"; {rounds - len(kept)} of {rounds} rounds have none"
        value = amount(metric, worst)
        kind = "failed" if one.beyond(worst) else "passed"
        brief = f"{metric} {value} (limit {one.limit_shown})"
        yield kind, f'"{one.text}": {metric} is {value}{many}', brief


def impossible(
    conditions: Iterable[Condition],
    compared: Sequence[FigureChange],
    values: Samples,
) -> Iterator[Problem]:
    """Return what more samples do not help: figures that are not there, or come once.

    ``compared`` and ``values`` are those of runs that go on.
    """
    found = (_refusal(one, compared, values, ended=False) for one in conditions)
    return filter(None, found)


def _refusal(
    one: Condition,
    compared: Sequence[FigureChange] | None,
    values: Samples,
    *,
    ended: bool = True,
) -> Problem | None:
    """Return why a condition cannot be judged on these figures, or None.

    Runs that have not ``ended`` may get more samples, and the most memory of a run.
    """
    whole = parsed(one.metric) == parsed(PEAK_MEMORY)
    if not one.relative:
        there = any(one.covers(name) and known(each) for name, each in values.items())
        return None if there or (whole and not ended) else _absent(one, list(values))
    if compared is None:
        hint = "name one by --baseline RUN, or compare with `rai bench` or `rai diff`"
        return _refused(one, "there is no run to compare with", hint)
    metrics = (each for each in compared if each.metric != PEAK_MEMORY)
    covered = [each for each in metrics if one.covers(each.metric)]
    once = any(each.metric == PEAK_MEMORY for each in compared)
    if not covered and whole and (once or not ended):
        hint = "put /usr/bin/time -v before the command, which gives each round one"
        return _refused(one, "a run has one value of it", hint)
    if not covered:
        return _absent(one, [each.metric for each in compared])
    if not ended or any(each.span for each in covered):
        return None
    most = max(min(each.n_before, each.n_after) for each in covered)
    return too_few(one, f"{covered[0].metric} has {most}")


def _absent(one: Condition, there: Sequence[str]) -> Problem:
    more = len(there) - MOST_NAMED
    names = ", ".join(there[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    hint = f"there is {names}" if names else "there is none"
    return _refused(one, "there is no such figure", hint)


def too_few(one: Condition, what: str) -> Problem:
    """Return the refusal of a relative condition where there are few samples."""
    hint = f"measure more rounds: rai bench, or --repeat {LEAST}"
    return _refused(one, f"a verdict needs {LEAST} samples a side, and {what}", hint)


def _refused(one: Condition, why: str, hint: str) -> Problem:
    return Problem(f'"{one.text}" cannot be judged: {why}', hint=hint)
