"""What a gate makes of a comparison."""

from __future__ import annotations

import math

from runner.comparison import ComparedMetric, Samples, compare
from runner.comparison.gate import GateOutcome, judge, parse
from tests.runner.comparison.test_changes import noisy

TIME = "op_time[final]"


def compared(
    factor: float, n: int = 30, *, spread: float = 0.003, metric: str = TIME
) -> tuple[ComparedMetric, ...]:
    before = {metric: noisy(1, n, seed=1, spread=spread)}
    after = {metric: noisy(factor, n, seed=2, spread=spread)}
    return compare(before, after, paired=True)


def gate(
    text: str,
    found: tuple[ComparedMetric, ...] | None = None,
    *,
    values: Samples | None = None,
) -> GateOutcome:
    return judge(parse([text]), found, values or {}, paired=True)


def test_a_slower_time_fails_with_the_sentence_why():
    (said,) = gate("op_time>3%", compared(1.05)).failed
    assert said.startswith('"op_time>3%": op_time[final] is slower: +4.9 %')
    assert "30 pairs" in said


def test_a_slower_time_within_the_limit_passes():
    outcome = gate("op_time>3%", compared(1.02))
    assert (outcome.failed, len(outcome.passed)) == ((), 1)


def test_a_condition_for_falls_fails_where_the_figure_falls_and_not_where_it_rises():
    below, above = (compared(factor, metric="correctness[1]") for factor in (0.9, 1.1))
    assert gate("correctness<-5%", below).failed
    assert gate("correctness<-5%", above).passed


def test_a_change_that_may_be_noise_does_not_fail_and_is_said():
    found = compared(1.0, spread=0.4)
    (one,) = found
    text = "op_time>1%" if one.ratio > 1 else "op_time<-1%"
    outcome = gate(text, found)
    assert not outcome.failed
    assert "inconclusive" in outcome.unsure[0]


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


def test_the_peak_memory_of_a_run_is_one_value_which_the_refusal_says():
    found = compared(1.5, n=1, metric="peak_memory")
    (problem,) = gate("peak_memory>10%", found).refused
    assert "a run has one value of it" in problem.message


def test_a_figure_that_a_run_lacks_cannot_be_judged_and_those_there_are_named():
    (problem,) = gate("correctness<-1%", compared(1)).refused
    assert problem.hint == f"there is {TIME}"
    (problem,) = gate("correctness<0.8", values={TIME: (1.0,)}).refused
    assert problem.hint == f"there is {TIME}"


def test_without_a_run_to_compare_with_a_relative_condition_cannot_be_judged():
    (problem,) = gate("op_time>3%").refused
    assert "--baseline" in problem.hint


def test_a_value_fails_by_its_worst_sample():
    values = {"correctness[1]": (0.9, 0.84, math.nan, 0.9)}
    (said,) = gate("correctness<0.85", values=values).failed
    assert said == (
        '"correctness<0.85": correctness[1] is 0.84, the worst of 3 samples'
    )
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
