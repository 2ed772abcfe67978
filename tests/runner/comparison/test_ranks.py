"""The rank tests, against every flip and every grouping counted one by one."""

from __future__ import annotations

import math
from itertools import combinations, product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.comparison import ranks

SMALL = st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=8)


@given(SMALL)
def test_signs_have_the_probability_that_counting_all_flips_gives(values):
    told = [value for value in values if value]
    weights = ranks.scores([abs(value) for value in told])
    up = sum(w for w, value in zip(weights, told, strict=True) if value > 0)
    least = min(up, sum(weights) - up)
    flips = [
        sum(w for w, on in zip(weights, signs, strict=True) if on)
        for signs in product((False, True), repeat=len(told))
    ]
    expected = 2 * sum(flip <= least for flip in flips) / len(flips)
    assert ranks.signed_rank(values) == pytest.approx(min(1, expected))


@given(SMALL, SMALL)
@settings(max_examples=60)
def test_groups_have_the_probability_that_counting_all_groupings_gives(one, other):
    both = ranks.doubled_ranks([*one, *other])
    seen = sum(both[: len(one)])
    sums = [sum(group) for group in combinations(both, len(one))]
    tails = sum(s <= seen for s in sums), sum(s >= seen for s in sums)
    expected = min(1, 2 * min(tails) / len(sums))
    assert ranks.rank_sum(one, other) == pytest.approx(expected)


def test_equal_values_share_their_rank():
    assert ranks.doubled_ranks([5.0, 1.0, 5.0, 9.0]) == [5, 2, 5, 8]


def test_the_greater_half_of_the_differences_counts_alike():
    assert ranks.scores([1.0, 2.0, 3.0, 4.0, 5.0, 600.0]) == [2, 4, 6, 6, 6, 6]


def test_twelve_signs_alike_are_one_chance_in_2048():
    assert ranks.signed_rank([float(n) for n in range(1, 13)]) == 2 / 2**12


def test_nothing_that_differs_is_certain_to_be_chance():
    assert ranks.signed_rank([0.0] * 20) == 1
    assert ranks.rank_sum([1.0] * 20, [1.0] * 20) == 1
    assert ranks.rank_sum([], [1.0]) == 1


@pytest.mark.parametrize("shift", [0.0, 0.2, 0.4])
def test_the_approximation_for_many_samples_is_near_and_errs_towards_chance(
    shift, monkeypatch
):
    random = Random(5)
    n = ranks.MOST_EXACT
    differences = [random.gauss(shift, 1) for _ in range(n)]
    halves = differences[: n // 2], [value + 0.3 for value in differences[n // 2 :]]
    exact = ranks.signed_rank(differences), ranks.rank_sum(*halves)
    monkeypatch.setattr(ranks, "MOST_EXACT", 1)
    near = ranks.signed_rank(differences), ranks.rank_sum(*halves)
    for one, other in zip(exact, near, strict=True):
        assert other > 0.97 * one
        assert math.log(other) == pytest.approx(math.log(one), rel=0.05, abs=0.03)


@pytest.mark.parametrize("down", [27, 30, 33])
def test_the_approximation_is_near_where_all_differences_are_as_large(
    down, monkeypatch
):
    differences = [-1.0] * down + [1.0] * (90 - down)
    near = ranks.signed_rank(differences)
    monkeypatch.setattr(ranks, "MOST_EXACT", 90)
    exact = ranks.signed_rank(differences)
    assert exact < near < 1.3 * exact
