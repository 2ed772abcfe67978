"""Samples to a ratio with an interval."""

from __future__ import annotations

import json
import math

import pytest

from runner.judge import figures
from runner.judge.figures import Rates, Rules, Sample

RULES = Rules()


def sample(layer="conv1", number=0, ms=1.0, reference_ms=2.0) -> Sample:
    return Sample(layer, number, ms, reference_ms, 1980.0)


def test_a_ratio_is_of_the_sums_of_all_layers_in_each_round():
    found = [
        *(sample("conv1", 0, 1, 4), sample("conv2", 0, 2, 6)),
        *(sample("conv1", 1, 1, 2), sample("conv2", 1, 1, 2)),
        *(sample("conv1", 2, 3, 4), sample("conv2", 2, 1, 4)),
    ]
    assert figures.ratios(found) == [0.3, 0.5, 0.5]
    result = figures.score(found, site_ms=10.0)
    assert result
    assert (result.ms, result.ratio, result.score_ms) == (3, 0.5, 5.0)


def test_a_round_that_was_cut_short_does_not_count():
    found = [sample("conv1", 0), sample("conv2", 0), sample("conv1", 1, 0.001)]
    assert figures.ratios(found) == [0.5]


def test_without_a_whole_round_there_is_no_score():
    assert figures.score([]) is None
    assert figures.layers([], {}, {}, {}) == ()


def test_without_a_time_of_the_site_there_is_a_ratio_only():
    result = figures.score([sample()])
    assert result
    assert result.score_ms is None
    assert result.interval == (0.5, 0.5)


def test_the_middle_is_the_mean_of_the_medians_of_four_parts():
    middle, (low, high) = figures.centre([1, 1, 9, 2, 2, 2, 3, 3, 3, 4, 4, 0])
    assert middle == 2.5
    # Student's t with 3 degrees of freedom, as tables have it
    half = 3.182 * math.sqrt(5 / 3) / 2
    assert (low, high) == pytest.approx((2.5 - half, 2.5 + half), abs=1e-3)


def test_few_values_have_their_range_for_an_interval():
    assert figures.centre([3.0, 1.0, 2.0]) == (2.0, (1.0, 3.0))


def test_a_layer_shows_medians_and_the_range_of_clocks():
    found = [sample(number=n, ms=float(n)) for n in (1, 2, 9)]
    mhz = {"conv1": [1980.0, 1500.0, 1980.0]}
    (layer,) = figures.layers(found, mhz, {"conv1": 0.5}, {})
    assert (layer.ms, layer.floor_ms, layer.error) == (2.0, 0.5, 0.0)
    assert layer.sm_mhz == (1500.0, 1980.0, 1980.0)


def test_a_floor_counts_no_byte_that_may_still_be_in_the_cache():
    rates = Rates(copied_bytes_per_s=4e12, products_per_s=1e15, l2_bytes=50_000_000)
    assert figures.floor_ms(rates, 4_000_000_000, 0, 0) == pytest.approx(1.0)
    assert figures.floor_ms(rates, 0, 40_000_000, 0) == 0
    assert figures.floor_ms(rates, 0, 4_050_000_000, 0) == pytest.approx(1.0)
    assert figures.floor_ms(rates, 0, 0, 2 * 10**12) == pytest.approx(2.0)


def test_rules_are_read_as_they_are_written():
    rules = Rules(rounds=30, longest_s=2.5)
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
