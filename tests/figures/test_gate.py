"""The conditions of a gate as users write them, and what it makes of a comparison."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.errors import UsageError
from runner.figures.comparison import FigureChange, compare
from runner.figures.gate import Condition, GateOutcome, judge, parse
from runner.figures.statistics import Samples
from tests.figures.test_changes import noisy

TIME = "op_time[final]"


@pytest.mark.parametrize(
    ("text", "metric", "above", "limit", "relative"),
    [
        ("op_time>3%", "op_time", True, 1.03, True),
        ("correctness<0.85", "correctness", False, 0.85, False),
        ("correctness<-1%", "correctness", False, 0.99, True),
        ("peak_memory>10%", "peak_memory", True, 1.1, True),
        ("peak_memory[2]>2GiB", "peak_memory[2]", True, 2 << 30, False),
        ("command[final].wall>5%", "command[final].wall", True, 1.05, True),
        (" op_time > +3 % ", "op_time", True, 1.03, True),
        ("kernel[1].f<float, 3>(int)>5%", "kernel[1].f<float, 3>(int)", True, 1.05, 1),
    ],
)
def test_a_condition_is_a_metric_and_a_limit(text, metric, above, limit, relative):
    (found,) = parse([text, text])
    assert (found.text, found.metric, found.above) == (text, metric, above)
    assert found.limit == pytest.approx(limit)
    assert found.relative == bool(relative)


TIMES = "is no limit here; write op_time>3% or op_time>20ms"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("op_tme>3%", "'op_tme' is no metric; did you mean op_time?"),
        (">3%", "'' is no metric; known are op_time, correctness, command"),
        ("op_time", "expected > or < and a limit; quote the whole of it: --fail-if"),
        *(
            (f"op_time>{limit}", f"{limit!r} {TIMES}")
            for limit in ("", "=3%", "3", "nan", "inf%", "1e9%", "٣%", "-3%")
        ),
        ("peak_memory>5", "'5' is no limit here; write peak_memory>10% or peak_memory"),
        ("correctness<85%", "'85%' is no limit here; write correctness<-1% or correct"),
        ("correctness<1.5", "'1.5' is no limit here; write correctness<-1% or correct"),
        ("op_time<-100%", "'-100%' is no limit here; write op_time<-3% or op_time<20"),
        ("command[a>3%", "'[a' is no part of command; write command[KEY].wall, where"),
        ("command[a].io>3%", "'[a].io' is no part of command; write command[KEY].wall"),
    ],
)
def test_a_wrong_condition_is_refused_with_what_to_write(text, said):
    with pytest.raises(UsageError) as error:
        parse([text])
    (problem,) = error.value.problems
    assert str(problem).startswith(f'--fail-if "{text}": {said}')


def test_all_problems_of_all_conditions_come_at_once():
    with pytest.raises(UsageError) as error:
        parse(["op_tme>x%", "op_time>3%", "correctness<2"])
    told = [problem.message.partition(": ")[2] for problem in error.value.problems]
    assert told == [
        "'op_tme' is no metric",
        "'x%' is no limit here",
        "'2' is no limit here",
    ]


@given(st.one_of(st.text(), st.text("op_time[]<>-+.=%0123456789 ")))
def test_any_text_is_a_condition_or_a_problem(text):
    try:
        (found,) = parse([text])
    except UsageError as error:
        assert error.problems
    else:
        assert isinstance(found, Condition)


def compared(
    factor: float, n: int = 30, *, spread: float = 0.003, metric: str = TIME
) -> tuple[FigureChange, ...]:
    before = {metric: noisy(1, n, seed=1, spread=spread)}
    after = {metric: noisy(factor, n, seed=2, spread=spread)}
    return compare(before, after, paired=True)


def gate(
    text: str,
    found: tuple[FigureChange, ...] | None = None,
    *,
    values: Samples | None = None,
) -> GateOutcome:
    return judge(parse([text]), found, values or {}, paired=True)


def test_a_slower_time_fails_with_the_sentence_why():
    outcome = gate("op_time>3%", compared(1.05))
    (said,) = outcome.failed
    assert said.startswith('"op_time>3%": op_time[final] is slower: +4.9 %')
    assert "30 pairs" in said
    assert outcome.headline("rai bench") == "❌ rai bench: op_time +4.9 % (limit 3 %)"


def test_a_slower_time_within_the_limit_passes():
    outcome = gate("op_time>3%", compared(1.02))
    assert (outcome.failed, len(outcome.passed)) == ((), 1)
    assert outcome.headline("rai bench") == "✅ rai bench: op_time +1.9 % (limit 3 %)"


def test_a_condition_for_falls_fails_where_the_figure_falls_and_not_where_it_rises():
    below, above = (compared(factor, metric="correctness[1]") for factor in (0.9, 1.1))
    assert gate("correctness<-5%", below).failed
    assert gate("correctness<-5%", above).passed


@pytest.mark.parametrize("factor", [0.98, 1.02])
def test_what_noise_leaves_open_on_either_side_of_the_limit_is_inconclusive(factor):
    outcome = gate("op_time>1%", compared(factor, spread=0.1))
    assert not outcome.failed and not outcome.passed
    assert "inconclusive" in outcome.unsure[0]
    assert "inconclusive (limit 1 %)" in outcome.headline("rai bench")
    assert outcome.headline("rai bench").startswith("✅")


def test_noise_that_does_not_reach_the_limit_passes():
    assert gate("op_time>50%", compared(1, spread=0.1)).passed


def test_a_single_sample_is_refused_with_what_to_do():
    (problem,) = gate("op_time>3%", compared(1.5, n=1)).refused
    assert problem.message == (
        '"op_time>3%" cannot be judged: a verdict needs 10 samples a side, and'
        " op_time[final] has 1"
    )
    assert "--repeat 10" in problem.hint


def test_of_several_commands_those_with_samples_are_judged():
    found = (*compared(1.5, n=1, metric="op_time[make]"), *compared(1.05))
    outcome = gate("op_time>3%", found)
    assert [text.split(": ")[1] for text in outcome.failed] == [f"{TIME} is slower"]
    assert not outcome.refused


@pytest.mark.parametrize(
    ("text", "found", "values", "said"),
    [
        ("peak_memory>10%", "peak_memory", {}, "a run has one value of it; put /usr"),
        ("correctness<-1%", TIME, {}, f"there is no such figure; there is {TIME}"),
        ("correctness<0.8", None, {TIME: (1.0,)}, f"such figure; there is {TIME}"),
        ("op_time>3%", None, {}, "no run to compare with; name one by --baseline"),
    ],
)
def test_what_cannot_be_judged_says_why(text, found, values, said):
    metrics = compared(1.5, n=1, metric=found) if found else None
    (problem,) = gate(text, metrics, values=values).refused
    assert said in str(problem)


def test_a_value_fails_by_its_worst_sample():
    values = {"correctness[1]": (0.9, 0.84, math.nan, 0.9)}
    outcome = gate("correctness<0.85", values=values)
    assert outcome.failed == (
        '"correctness<0.85": correctness[1] is 0.84, the worst of 3 samples',
    )
    assert outcome.brief == "correctness[1] 0.84 (limit 0.85)"
    assert gate("correctness<0.84", values=values).passed


def test_a_value_that_rounds_lack_is_judged_and_they_are_counted():
    values = {"correctness[final]": (0.9,), "command[final].wall": (1.0,) * 12}
    assert gate("correctness<0.85", values=values).passed == (
        '"correctness<0.85": correctness[final] is 0.9; 11 of 12 rounds have none',
    )


def test_a_gates_metric_is_judged_with_the_primary_ones():
    sides = {TIME: (1.0,) * 12, "peak_memory[1]": (1.0,) * 12}
    found = compare(sides, sides, paired=True, named=["peak_memory"])
    assert [one.primary for one in found] == [True, True]
