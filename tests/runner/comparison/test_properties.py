"""What holds for all samples: no order, scale or side is favoured."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.comparison import Change, ComparedMetric, compare, families, ranks

TIMES = st.floats(1e-6, 1e6)
PAIRS = st.lists(st.tuples(TIMES, TIMES), min_size=10, max_size=32)
OPPOSITE = {Change.SLOWER: Change.FASTER, Change.FASTER: Change.SLOWER}


def judged(pairs: list[tuple[float, float]], *, paired: bool) -> ComparedMetric:
    before, after = (tuple(side) for side in zip(*pairs, strict=True))
    (one,) = compare({"op_time[1]": before}, {"op_time[1]": after}, paired=paired)
    return one


@given(PAIRS, st.randoms())
@settings(max_examples=40, deadline=None)
def test_the_order_of_the_pairs_does_not_matter(pairs, random):
    shuffled = list(pairs)
    random.shuffle(shuffled)
    assert judged(shuffled, paired=True) == judged(pairs, paired=True)


@given(PAIRS, st.integers(-20, 20), st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_unit_that_is_larger_or_smaller_changes_no_ratio(pairs, power, paired):
    scaled = [(a * 2.0**power, b * 2.0**power) for a, b in pairs]
    one, other = judged(scaled, paired=paired), judged(pairs, paired=paired)
    assert one.change is other.change
    assert one.ratio == pytest.approx(other.ratio, rel=1e-9)
    assert one.interval == pytest.approx(other.interval, rel=1e-9)


@given(PAIRS, st.booleans())
@settings(max_examples=40, deadline=None)
def test_sides_that_swap_have_the_inverse_ratio_and_the_opposite_verdict(pairs, paired):
    there = judged(pairs, paired=paired)
    back = judged([(after, before) for before, after in pairs], paired=paired)
    assert back.change is OPPOSITE.get(there.change, there.change)
    assert back.ratio == pytest.approx(1 / there.ratio, rel=1e-9)
    assert back.interval
    assert there.interval
    ends = tuple(1 / end for end in reversed(there.interval))
    assert back.interval == pytest.approx(ends, rel=1e-9)


@given(PAIRS)
@settings(max_examples=20, deadline=None)
def test_identical_samples_never_differ(pairs):
    same = [(before, before) for before, _ in pairs]
    assert judged(same, paired=True).change is Change.NO_DIFFERENCE


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=30))
def test_with_fewer_metrics_or_more_risk_no_change_is_lost(tests):
    chances = [chance for chance, _ in tests]
    primary = [main for _, main in tests]
    found = families.found(chances, primary, 0.001)
    assert found <= families.found(chances, primary, 0.01)
    assert found <= {at for at, chance in enumerate(chances) if chance <= 0.001}


def test_all_looks_of_a_bench_together_spend_no_more_than_the_level():
    """One that its budget ends has had the looks before, and has one there."""
    for end in range(1, 1000):
        looked = [at for at in families.looks(1000) if at < end]
        spent = sum(map(families.level, (*looked, end)))
        assert spent <= families.LEVEL + 1e-12


def test_all_metrics_together_find_a_change_in_identical_code_as_seldom_as_one():
    random = Random(11)
    wrong = 0
    for _ in range(2000):
        chances = [random.random() for _ in range(40)]
        primary = [at < 2 for at in range(40)]
        wrong += bool(families.found(chances, primary, 0.05))
    assert 0.03 < wrong / 2000 < 0.06


def test_the_interval_has_the_value_that_it_estimates_as_often_as_it_says():
    random = Random(3)
    held = 0
    for _ in range(1000):
        low, high = ranks.interval([random.gauss(0, 1) for _ in range(30)])
        held += low <= 0 <= high
    assert held >= 985
    assert math.isclose(ranks.middle([1, 2, 3, 100]), 2.5)
