"""Simulated measurements: honest ones are told apart, what would fool them is not.

All random numbers are seeded. A single sample has a noise of 0.5 to 1 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from random import Random
from statistics import median

import pytest

from runner.judge import figures
from runner.judge.acceptance import Conditions, SiteReference, why
from runner.judge.figures import Rules, Sample
from tests.kit import judge_cases as made

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
        floors={"conv1": 0.53, "conv2": 0.31},
        alone_ms=[made.SITE_MS * random.gauss(1, 0.005) for _ in range(5)],
    )
    refused = why(RULES, found, replace(conditions, **known))  # type: ignore[arg-type]
    return figures.centre(figures.ratios(found))[0], refused


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


def test_no_honest_measurement_is_refused():
    def bumpy(random: Random, sample: Sample) -> Sample:
        """A host that wakes up late, and a GPU that once in a while is interrupted."""
        late = random.expovariate(1 / 0.01) + 2.0 * (random.random() < 0.02)
        slow = 1 + 0.3 * (random.random() < 0.02)
        return replace(
            sample,
            ms=sample.ms * slow + late,
            reference_ms=sample.reference_ms * (1 + 0.3 * (random.random() < 0.02)),
        )

    refused = [judged(bumpy, seed, site=SITE)[1] for seed in range(200)]
    assert [found for found in refused if found] == []


@pytest.mark.parametrize("share", [0.01, 0.02, 0.04, 0.08, 0.15, 0.3])
def test_a_power_virus_before_the_reference_gains_less_than_three_percent(share):
    def virus(_: Random, sample: Sample) -> Sample:
        return replace(sample, reference_ms=sample.reference_ms * (1 + share))

    ratio, refused = judged(virus)
    assert refused or harmless(ratio, 0.03)
    assert bool(refused) is (share > 0.03)


@pytest.mark.parametrize(("alike", "least", "most"), [(0.0, 0.94, 0.96), (0.7, 0.9, 1)])
def test_an_interval_holds_the_middle_as_often_as_it_says(alike, least, most):
    """Also where the noise of a round is like that of the last: by ``alike``."""
    held, rest = 0, math.sqrt(1 - alike**2)
    for seed in range(4000):
        random, noise, found = Random(seed), 0.0, []
        for number in range(RULES.rounds):
            drawn = random.gauss(0, 1)
            noise = alike * noise + rest * drawn if number else drawn
            found.append(1 + 0.01 * noise)
        low, high = figures.centre(found)[1]
        held += low <= 1 <= high
    assert least <= held / 4000 <= most


@pytest.mark.parametrize("by_round", [False, True])
def test_a_clock_of_two_speeds_is_refused_or_harmless(by_round):
    slow = Random(9).sample(range(40), 20)

    def bimodal(random: Random, sample: Sample) -> Sample:
        both = sample.round in slow
        one, other = (both, both) if by_round else (random.random() < 0.5 for _ in "ab")
        return replace(
            sample,
            ms=sample.ms * (1.15 if one else 1),
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
        return replace(sample, ms=sample.ms * times)

    ratio, refused = judged(odd)
    assert refused == ()
    assert ratio == pytest.approx(TRUE, rel=0.01)
