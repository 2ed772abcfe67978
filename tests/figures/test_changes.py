"""Verdicts on two sides of samples, measured in pairs or apart."""

from __future__ import annotations

import math
from random import Random

import pytest

from runner.figures.comparison import Change, compare, sentence, stands
from runner.figures.statistics import Samples, looks

TIME = "op_time[1]"


def noisy(
    factor: float, n: int, *, seed: int, spread: float = 0.003
) -> tuple[float, ...]:
    random = Random(seed)
    return tuple(factor * math.exp(random.gauss(0, spread)) for _ in range(n))


def sides(factor: float, n: int = 30) -> tuple[Samples, Samples]:
    return {TIME: noisy(1, n, seed=1)}, {TIME: noisy(factor, n, seed=2)}


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(
    ("factor", "change"),
    [(1.02, Change.SLOWER), (0.98, Change.FASTER), (1, Change.NO_DIFFERENCE)],
)
def test_a_change_of_two_percent_is_found_in_the_noise_of_a_gpu(factor, change, paired):
    (one,) = compare(*sides(factor), paired=paired)
    assert one.verdict is change
    assert one.span
    low, ratio, high = one.span
    assert low < ratio < high


@pytest.mark.parametrize("paired", [True, False])
def test_under_ten_samples_there_is_no_verdict_whatever_they_are(paired):
    (one,) = compare(*sides(2.0, n=9), paired=paired)
    assert (one.verdict, one.span) == (Change.NOT_ENOUGH, None)
    assert one.ratio == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize("n", [10, 11])
def test_a_bench_that_ends_before_its_first_look_can_find_a_large_change(n):
    (one,) = compare(*sides(1.2, n=n), paired=True)
    assert one.verdict is Change.SLOWER


def test_noise_that_hides_a_change_is_not_called_no_difference():
    before = {TIME: noisy(1, 30, seed=1, spread=0.1)}
    after = {TIME: noisy(1, 30, seed=2, spread=0.1)}
    (one,) = compare(before, after, paired=True)
    assert one.verdict is Change.INCONCLUSIVE


def test_few_pairs_whose_neighbours_are_alike_have_no_verdict():
    climbs = {TIME: tuple(1.1 + 0.01 * at for at in range(12))}
    (one,) = compare({TIME: (1.0,) * 12}, climbs, paired=True)
    assert one.verdict is Change.INCONCLUSIVE
    assert "neighbours are alike" in sentence(one, paired=True)


def test_what_is_no_time_is_higher_or_lower_and_not_slower():
    before = {"correctness[1]": (0.85,) * 30}
    after = {"correctness[1]": (0.84,) * 30}
    (one,) = compare(before, after, paired=True)
    assert one.verdict is Change.LOWER


def test_a_round_without_a_value_is_left_out_on_both_sides():
    before, after = sides(1.02)
    gap = (math.nan, *after[TIME][1:])
    (one,) = compare(before, {TIME: gap}, paired=True)
    assert (one.n_before, one.n_after) == (29, 29)


def test_times_of_nought_have_a_ratio_that_is_finite():
    (one,) = compare({TIME: (0.0,) * 12}, {TIME: (1.0,) * 12}, paired=True)
    assert one.verdict is Change.SLOWER
    assert math.isfinite(one.ratio)


def test_a_bench_may_stop_once_its_main_metric_has_a_verdict():
    assert looks(30) == (12, 18, 24, 30)
    assert stands(compare(*sides(1.02, n=24), paired=True))
    before, after = {TIME: (1.0, 2.0) * 12}, {TIME: (2.0, 1.0) * 12}
    assert not stands(compare(before, after, paired=True))


def test_a_look_risks_no_more_where_a_round_has_no_value():
    """Eleven signs alike have 1 chance in 1024, over the share of the look after 12."""
    before = {TIME: (*(1.0,) * 11, math.nan)}
    (one,) = compare(before, {TIME: (1.05,) * 12}, paired=True)
    assert one.n_after == 11
    assert one.verdict is Change.INCONCLUSIVE


def test_runs_apart_that_wander_as_far_as_they_differ_have_no_verdict():
    climb = [1 + 0.002 * at for at in range(60)]
    before, after = {TIME: tuple(climb[:30])}, {TIME: tuple(climb[30:])}
    (one,) = compare(before, after, paired=False)
    assert one.verdict is Change.INCONCLUSIVE


def test_a_burst_in_some_of_the_pairs_hides_no_change():
    before, after = sides(1.02)
    burst = [at in (3, 11, 12) for at in range(30)]
    hit = tuple(2 * x if on else x for x, on in zip(before[TIME], burst, strict=True))
    (one,) = compare({TIME: hit}, after, paired=True)
    assert one.verdict is Change.SLOWER
