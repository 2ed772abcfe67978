"""Samples to a ratio with an interval, and when there are enough of them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from random import Random

import pytest

from runner.judge import figures
from runner.judge.figures import Rates, Rules, Sample
from tests.runner.judge import made

RULES = Rules()


def sample(layer="conv1", number=0, ms=1.0, reference_ms=2.0) -> Sample:
    return Sample(layer, number, ms, ms + 0.3, ms, 1980.0, reference_ms, 1980.0)


def test_a_ratio_is_of_the_sums_of_all_layers_in_each_round():
    found = [
        *(sample("conv1", 0, 1, 4), sample("conv2", 0, 2, 6)),
        *(sample("conv1", 1, 1, 2), sample("conv2", 1, 1, 2)),
        *(sample("conv1", 2, 3, 4), sample("conv2", 2, 1, 4)),
    ]
    assert figures.ratios(found) == [0.3, 0.5, 0.5]
    result = figures.score(found, 1, site_ms=10.0)
    assert result
    assert (result.ms, result.ratio, result.score_ms) == (3, 0.5, 5.0)


def test_a_round_that_was_cut_short_does_not_count():
    found = [sample("conv1", 0), sample("conv2", 0), sample("conv1", 1, 0.001)]
    assert figures.ratios(found) == [0.5]


def test_without_a_whole_round_there_is_no_score():
    assert figures.score([], 1) is None
    assert figures.layers([], {}, {}) == ()


def test_without_a_time_of_the_site_there_is_a_ratio_only():
    result = figures.score([sample()], 1)
    assert result
    assert result.score_ms is None
    assert result.interval == (0.5, 0.5)


def test_an_interval_holds_the_median_of_what_the_samples_were_drawn_from():
    held = 0
    for seed in range(100):
        random = Random(seed)
        low, high = figures.interval([random.gauss(1, 0.01) for _ in range(40)], 1, 200)
        held += low <= 1 <= high
    assert held >= 88


def test_the_same_samples_and_seed_have_the_same_interval():
    found = made.samples(Random(1))
    assert figures.score(found, 7) == figures.score(found, 7)


def test_a_layer_shows_medians_and_the_range_of_clocks():
    found = [sample(number=n, ms=float(n)) for n in (1, 2, 9)]
    found[0] = replace(found[0], sm_mhz=1500.0)
    (layer,) = figures.layers(found, {"conv1": 0.5}, {})
    assert (layer.ms, layer.floor_ms, layer.error) == (2.0, 0.5, 0.0)
    assert layer.sm_mhz == (1500.0, 1980.0, 1980.0)


@pytest.mark.parametrize(
    ("rounds", "spent_s", "noise", "ends"),
    [
        (0, 0.0, 0.0, False),
        (19, 5.0, 0.0, False),  # too few, although the time is over
        (19, 8.0, 0.0, True),  # the GPU is not held for longer
        (20, 1.0, 0.001, True),
        (20, 1.0, 0.02, False),
        (21, 1.0, 0.001, False),  # the interval is looked at now and then
        (24, 1.0, 0.001, True),
        (40, 1.0, 0.02, True),
    ],
)
def test_it_ends_when_the_interval_is_narrow_or_the_time_is_over(
    rounds, spent_s, noise, ends
):
    found = made.samples(Random(1), rounds=rounds, noise=noise)
    assert figures.enough(RULES, found, spent_s) is ends


def test_a_floor_counts_no_byte_that_may_still_be_in_the_cache():
    rates = Rates(copied_bytes_per_s=4e12, products_per_s=1e15, l2_bytes=50_000_000)
    assert figures.floor_ms(rates, 4_000_000_000, 0, 0) == pytest.approx(1.0)
    assert figures.floor_ms(rates, 0, 40_000_000, 0) == 0
    assert figures.floor_ms(rates, 0, 4_050_000_000, 0) == pytest.approx(1.0)
    assert figures.floor_ms(rates, 0, 0, 2 * 10**12) == pytest.approx(2.0)


def test_rules_are_read_as_they_are_written():
    rules = Rules(rounds=30, most_s=2.5)
    assert Rules.from_json(json.loads(json.dumps(rules.to_json()))) == rules
    assert Rules.from_json({"cool_c": 70}) == Rules(cool_c=70.0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"round": 3}, "unknown rule 'round'"),
        ({"rounds": 2.5}, "expected a whole number"),
        ({"spread": "wide"}, "expected a number"),
        ({"spread": -1}, "expected 0 or more"),
        ({"spread": math.nan}, "expected 0 or more"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(values, message):
    with pytest.raises(ValueError, match=message):
        Rules.from_json(values)


def test_what_json_has_not_becomes_null():
    found = figures.plain({"error": math.nan, "pair": (math.inf, 1.5), "n": 3})
    assert found == {"error": None, "pair": [None, 1.5], "n": 3}
    json.dumps(figures.plain(sample()), allow_nan=False)


def test_a_round_with_a_late_call_does_not_count():
    random = Random(3)
    found = made.samples(random, noise=0.0)
    late = {0, 4, 5}
    found = [
        replace(one, wall_ms=one.wall_ms + 0.3)
        if one.round in late and one.layer == "conv2"
        else one
        for one in found
    ]

    kept = figures.timely(RULES, found, made.empty_ms(random))

    assert {one.round for one in found} - {one.round for one in kept} == late


def test_slow_moments_of_empty_calls_hide_no_late_call():
    random = Random(4)
    slow = [ms + 0.4 for ms in made.empty_ms(random)[::2]]
    found = [
        replace(one, wall_ms=one.wall_ms + 0.3)
        for one in made.samples(random, noise=0.0)
    ]

    assert figures.timely(RULES, found, [*made.empty_ms(random), *slow]) == []
