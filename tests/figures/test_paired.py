"""The test of pairs and the interval of their ratio, against what they claim."""

from __future__ import annotations

import math
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.figures import statistics
from runner.figures.comparison import Change, FigureChange, compare
from runner.figures.statistics import looks
from tools.benchmarks import coverage

TIMES = st.floats(1e-6, 1e6)
PAIRS = st.lists(st.tuples(TIMES, TIMES), min_size=10, max_size=32)
OPPOSITE = {Change.SLOWER: Change.FASTER, Change.FASTER: Change.SLOWER}


@given(st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=8))
def test_signs_have_the_probability_that_counting_all_flips_gives(values):
    told = [value for value in values if value]
    weights = statistics.doubled_ranks([abs(value) for value in told])
    up = sum(w for w, value in zip(weights, told, strict=True) if value > 0)
    least = min(up, sum(weights) - up)
    flips = [
        sum(w for w, on in zip(weights, signs, strict=True) if on)
        for signs in product((False, True), repeat=len(told))
    ]
    expected = 2 * sum(flip <= least for flip in flips) / len(flips)
    assert statistics.signed_rank(values) == pytest.approx(min(1, expected))


def test_equal_values_share_their_rank():
    assert statistics.doubled_ranks([5.0, 1.0, 5.0, 9.0]) == [5, 2, 5, 8]


@pytest.mark.parametrize("shift", [0.0, 0.2, 0.4])
def test_the_approximation_for_many_pairs_is_near_and_errs_towards_chance(
    shift, monkeypatch
):
    random = Random(5)
    differences = [random.gauss(shift, 1) for _ in range(statistics.MOST_EXACT)]
    exact = statistics.signed_rank(differences)
    monkeypatch.setattr(statistics, "MOST_EXACT", 1)
    near = statistics.signed_rank(differences)
    assert near > 0.97 * exact
    assert math.log(near) == pytest.approx(math.log(exact), rel=0.05, abs=0.03)


@pytest.mark.parametrize("n", [10, 17, 30])
def test_the_interval_has_the_changes_that_the_test_does_not_reject(n):
    random = Random(n)
    logs = [1.0, 2.0] * n
    while statistics.correlation(logs) > 0 or len(logs) > n:
        logs = [random.gauss(0, 1) for _ in range(n)]
    low, middle, high = statistics.interval(logs)
    assert low < middle < high
    for end, out in ((low, -1e-9), (high, 1e-9)):
        assert statistics.signed_rank([value - end - out for value in logs]) <= 0.005
        assert statistics.signed_rank([value - end + out for value in logs]) > 0.005


def judged(pairs: list[tuple[float, float]], *, paired: bool) -> FigureChange:
    before, after = (tuple(side) for side in zip(*pairs, strict=True))
    (one,) = compare({"op_time[1]": before}, {"op_time[1]": after}, paired=paired)
    return one


@given(PAIRS, st.integers(-20, 20), st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_unit_that_is_larger_or_smaller_changes_no_ratio(pairs, power, paired):
    scaled = [(a * 2.0**power, b * 2.0**power) for a, b in pairs]
    one, other = judged(scaled, paired=paired), judged(pairs, paired=paired)
    assert one.verdict is other.verdict
    assert one.span == pytest.approx(other.span, rel=1e-9)


@given(PAIRS, st.booleans())
@settings(max_examples=40, deadline=None)
def test_sides_that_swap_have_the_inverse_ratio_and_the_opposite_verdict(pairs, paired):
    there = judged(pairs, paired=paired)
    back = judged([(after, before) for before, after in pairs], paired=paired)
    assert back.verdict is OPPOSITE.get(there.verdict, there.verdict)
    assert there.span
    ends = tuple(1 / end for end in reversed(there.span))
    assert back.span == pytest.approx(ends, rel=1e-9)


def test_all_looks_of_a_bench_together_spend_no_more_than_the_level():
    """One that its budget ends has had the looks before, and has one there."""
    for end in range(1, 1000):
        looked = [at for at in looks(1000) if at < end]
        assert sum(map(statistics.level, (*looked, end))) <= statistics.LEVEL + 1e-12


def test_all_metrics_together_find_a_change_in_identical_code_as_seldom_as_one():
    random = Random(11)
    wrong = 0
    for _ in range(2000):
        chances = {str(at): random.random() for at in range(40)}
        wrong += bool(statistics.found(chances, ["0", "1"], 0.05))
    assert 0.03 < wrong / 2000 < 0.06


def test_neighbours_that_are_alike_are_found_and_bursts_are_not():
    random = Random(2)
    rising = [0.01 * at + random.gauss(0, 0.01) for at in range(12)]
    burst = [random.gauss(0, 1) + 50 * (at in (4, 5)) for at in range(12)]
    for logs, alike in ((rising, True), (burst, False), ([0.2] * 12, False)):
        assert statistics.too_alike(logs) == alike


@pytest.mark.parametrize("noise", ["normal", "student", "heaps", "two", "correlated"])
def test_the_interval_holds_the_true_ratio(noise):
    """Of 200 series a share of 0.97 leaves 0.93, but for 1 in 1,000."""
    assert coverage.share_held(noise, 20, 200) >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["normal", "student", "heaps", "two", "correlated"])
def test_the_interval_holds_the_true_ratio_as_often_as_it_says(noise):
    for pairs in coverage.PAIRS:
        least = 0.99
        if noise == "correlated":
            least = 0.97 if pairs >= statistics.SERIES else 0.94
        assert coverage.share_held(noise, pairs, 10_000) >= least, pairs


@pytest.mark.slow
def test_a_slowdown_of_two_percent_is_found_in_nine_of_ten_and_none_where_none_is():
    assert coverage.benches(coverage.NOISE, 1.02, 1000)["slower"] >= 0.88
    ratios = coverage.NOISE / math.sqrt(2)
    assert coverage.benches(ratios, 1.02, 1000)["slower"] >= 0.97
    same = coverage.benches(ratios, 1.0, 1000)
    assert same["slower"] + same["faster"] <= 0.01
