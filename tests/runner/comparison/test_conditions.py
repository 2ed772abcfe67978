"""The conditions of a gate, as users write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.comparison.conditions import LONGEST, MOST_CONDITIONS, Condition, parse
from runner.core.errors import UsageError


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
    (found,) = parse([text])
    assert (found.text, found.metric, found.above) == (text, metric, above)
    assert found.limit == pytest.approx(limit)
    assert found.relative == bool(relative)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("op_tme>3%", "column 1: 'op_tme' is no metric; did you mean op_time?"),
        (">3%", "column 1: expected the name of a metric; one of op_time, correct"),
        ("op_time", "column 8: expected > or < and a limit; write the whole of it in"),
        ("op_time>", "column 9: expected a limit; write a percentage such as 3%"),
        ("op_time>=3%", "column 9: '=' has no place here; a limit itself never fails"),
        ("op_time>3", "column 9: '3' is no limit; write 3% or 3s"),
        ("peak_memory>512", "column 13: '512' is no limit; write 512% or 512MiB"),
        ("op_time> nan", "column 10: 'nan' is no limit; write a percentage such as 3%"),
        ("op_time>inf%", "column 9: 'inf%' is no percentage; write a number before"),
        ("op_time>1e9%", "column 9: '1e9%' is no percentage"),
        ("op_time>٣%", "column 9: '٣%' is no percentage"),
        ("op_time>-3%", "column 9: a rise is never negative; a rise is written >3%, a"),
        ("correctness<85%", "column 13: a fall is always negative; a fall is written"),
        ("correctness<1.5", "column 13: 1.5 is no share; write one from 0 to 1"),
        ("op_time<-100%", "column 9: nothing falls by more than 100 %"),
        ("command[a>3%", "column 8: '[a' is no part; write command[KEY].wall, where"),
        ("command[a].io>3%", "column 8: '[a].io' is no part; write command[KEY].wall"),
    ],
)
def test_a_wrong_condition_is_refused_with_its_column(text, said):
    with pytest.raises(UsageError) as error:
        parse([text])
    (problem,) = error.value.problems
    assert str(problem).startswith(f'--fail-if "{text}", {said}')


def test_all_problems_of_all_conditions_come_at_once():
    with pytest.raises(UsageError) as error:
        parse(["op_tme>x%", "op_time>3%", "correctness<2"])
    columns = [str(p).split(", column ")[1].split(":")[0] for p in error.value.problems]
    assert columns == ["1", "8", "13"]


def test_a_condition_that_is_given_twice_counts_once():
    assert len(parse(["op_time>3%", "op_time>3%"])) == 1


def test_a_condition_of_any_length_has_a_short_answer():
    with pytest.raises(UsageError) as error:
        parse(["op_time>" + "9" * 1_000_000])
    assert f"at most {LONGEST}" in str(error.value)
    assert len(str(error.value)) < 300


def test_more_conditions_than_anyone_needs_are_refused():
    many = [f"op_time[{n}]>3%" for n in range(MOST_CONDITIONS + 1)]
    with pytest.raises(UsageError, match="at most 100"):
        parse(many)


@given(st.one_of(st.text(max_size=700), st.text("op_time[]<>-+.=%0123456789 ")))
def test_any_text_is_a_condition_or_a_problem_at_a_column_within_it(text):
    try:
        found = parse([text])
    except UsageError as error:
        for problem in error.problems:
            column = problem.message.rsplit('", column ', 1)[1].split(":")[0]
            assert 1 <= int(column) <= len(text) + 1
            assert len(str(problem)) < LONGEST + 300
    else:
        assert isinstance(found[0], Condition)
