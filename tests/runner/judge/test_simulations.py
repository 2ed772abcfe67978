"""Simulated measurements: honest ones are told apart, what would fool them is not.

All random numbers are seeded. A single sample has a noise of 0.5 to 1 %.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from statistics import median

import pytest

from runner.judge import figures
from runner.judge.acceptance import Conditions, SiteReference, why
from runner.judge.figures import Rules, Sample
from tests.runner.judge import made

RULES = Rules()
SITE = SiteReference("NVIDIA H200", made.SITE_MS, RULES.band)
TRUE = sum(ms for ms, _ in made.LAYERS.values()) / made.SITE_MS


def judged(
    change: Callable[[Random, Sample], Sample], seed: int = 1, **known: object
) -> tuple[float, tuple[str, ...]]:
    """Return the ratio of changed samples, and why they are refused."""
    random = Random(seed)
    found = [change(random, sample) for sample in made.samples(random)]
    conditions = Conditions(
        empty_ms=made.empty_ms(random),
        empty_read_ms=made.empty_read_ms(random),
        floors={"conv1": 0.53, "conv2": 0.31},
        alone_ms=[made.SITE_MS * random.gauss(1, 0.005) for _ in range(5)],
    )
    refused = why(RULES, found, replace(conditions, **known))  # type: ignore[arg-type]
    return median(figures.ratios(found)), refused


def harmless(ratio: float, within: float) -> bool:
    return ratio >= TRUE * (1 - within)


@pytest.mark.parametrize("noise", [0.005, 0.01])
def test_variants_one_percent_apart_are_in_the_right_order(noise):
    right = 0
    for seed in range(100):
        random = Random(seed)
        slow = figures.ratios(made.samples(random, noise=noise))
        fast = figures.ratios(made.samples(random, noise=noise, faster=0.99))
        right += median(fast) < median(slow)
    assert right >= 95


def test_the_order_holds_when_the_samples_of_one_measurement_are_resampled():
    random = Random(5)
    slow = figures.ratios(made.samples(random))
    fast = figures.ratios(made.samples(random, faster=0.99))
    right = sum(
        median(random.choices(fast, k=len(fast)))
        < median(random.choices(slow, k=len(slow)))
        for _ in range(100)
    )
    assert right >= 95


def test_ten_rehearsals_have_about_the_same_ratio():
    wide = []
    for ten in range(10):
        found = [
            median(figures.ratios(made.samples(Random(100 * ten + n))))
            for n in range(10)
        ]
        wide.append(figures.spread(found))
    assert median(wide) <= 0.005


def test_no_honest_short_measurement_is_refused():
    def bumpy(random: Random, sample: Sample) -> Sample:
        """A host that wakes up late, and a GPU that once in a while is interrupted."""
        late = random.expovariate(1 / 0.01) + 2.0 * (random.random() < 0.02)
        slow = 1 + 0.3 * (random.random() < 0.02)
        return replace(
            sample,
            ms=sample.ms * slow,
            stamp_ms=sample.stamp_ms * slow,
            wall_ms=sample.wall_ms + sample.ms * (slow - 1) + late,
            read_ms=sample.read_ms + sample.ms * (slow - 1) + late,
            reference_ms=sample.reference_ms * (1 + 0.3 * (random.random() < 0.02)),
        )

    refused = [judged(bumpy, seed, site=SITE)[1] for seed in range(200)]
    assert [found for found in refused if found] == []


@pytest.mark.parametrize("share", [0.01, 0.02, 0.04, 0.08, 0.15, 0.3])
def test_a_power_virus_before_the_reference_gains_less_than_three_percent(share):
    def virus(_: Random, sample: Sample) -> Sample:
        return replace(
            sample,
            reference_ms=sample.reference_ms * (1 + share),
            reference_mhz=sample.reference_mhz / (1 + share),
        )

    def unseen(random: Random, sample: Sample) -> Sample:
        return replace(virus(random, sample), reference_mhz=0.0)

    for attack in (virus, unseen):
        ratio, refused = judged(attack)
        assert refused or harmless(ratio, 0.03)
    assert bool(refused) is (share > 0.03)


@pytest.mark.parametrize("share", [0.02, 0.04, 0.06, 0.2, 0.5, 0.99])
def test_a_start_that_is_shifted_gains_no_more_than_the_slack(share):
    def shifted(_: Random, sample: Sample) -> Sample:
        ms = sample.ms * (1 - share)
        return replace(sample, ms=ms, stamp_ms=ms)

    ratio, refused = judged(shifted, floors={})
    assert refused or harmless(ratio, 0.05)
    assert bool(refused) is (share > 0.05)


@pytest.mark.parametrize("share", [0.05, 0.15, 0.25, 0.3, 0.4, 0.45, 0.5, 0.6, 0.9])
@pytest.mark.parametrize("seed", range(5))
def test_a_cheat_in_some_calls_only_is_refused_or_gains_nothing(share, seed):
    def cheating(random: Random, sample: Sample) -> Sample:
        ms = sample.ms * (0.5 if random.random() < share else 1)
        return replace(sample, ms=ms, stamp_ms=ms)

    ratio, refused = judged(cheating, seed, floors={})
    assert refused or harmless(ratio, 0.01)


@pytest.mark.parametrize("by_round", [False, True])
def test_a_clock_of_two_speeds_is_refused_or_harmless(by_round):
    slow = Random(9).sample(range(40), 20)

    def bimodal(random: Random, sample: Sample) -> Sample:
        both = sample.round in slow
        one, other = (both, both) if by_round else (random.random() < 0.5 for _ in "ab")
        return replace(
            sample,
            ms=sample.ms * (1.15 if one else 1),
            wall_ms=sample.wall_ms + sample.ms * (0.15 if one else 0),
            read_ms=sample.read_ms + sample.ms * (0.15 if one else 0),
            stamp_ms=sample.stamp_ms * (1.15 if one else 1),
            sm_mhz=sample.sm_mhz / (1.15 if one else 1),
            reference_ms=sample.reference_ms * (1.15 if other else 1),
            reference_mhz=sample.reference_mhz / (1.15 if other else 1),
        )

    ratio, refused = judged(bimodal, alone_ms=())
    assert bool(refused) is not by_round
    assert refused or harmless(ratio, 0.01)


@pytest.mark.parametrize("factor", [0.001, 100.0])
def test_one_sample_of_another_size_changes_nothing(factor):
    def odd(_: Random, sample: Sample) -> Sample:
        times = factor if sample.round == 7 else 1.0
        return replace(
            sample,
            ms=sample.ms * times,
            stamp_ms=sample.stamp_ms * times,
            wall_ms=sample.wall_ms * times,
            read_ms=sample.read_ms * times,
        )

    ratio, refused = judged(odd)
    assert refused == ()
    assert ratio == pytest.approx(TRUE, rel=0.01)
