"""Why a measurement is not accepted: each reason alone, and honest ones never."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from runner.judge.acceptance import Conditions, SiteReference, why
from runner.judge.figures import Rules, Sample
from runner.judge.wrong import Wrong
from tests.kit import judge_cases as made

RULES = Rules()
SITE = SiteReference("NVIDIA H200", made.SITE_MS, RULES.band)


def conditions(random: Random, **changed) -> Conditions:
    known = Conditions(
        floors={"conv1": 0.53, "conv2": 0.31},
        site=SITE,
        alone_ms=[made.SITE_MS * random.gauss(1, 0.005) for _ in range(5)],
        celsius=41.0,
    )
    return replace(known, **changed)


def reasons(change: Callable[[Sample], Sample] = lambda s: s, **changed) -> list[str]:
    random = Random(1)
    found = [change(sample) for sample in made.samples(random, noise=0.0)]
    return list(why(RULES, found, conditions(random, **changed)))


def test_an_honest_measurement_is_accepted():
    assert reasons() == []


def test_what_is_unknown_is_not_judged():
    assert why(RULES, made.samples(Random(1)), Conditions()) == ()


WRONG = Wrong(3, "conv1", 17, 2, 4, 5, float("nan"), 0.3125, inputs="denormals")


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"wrong": WRONG},
            "wrong result in call 3 of conv1 (denormals): image 17, map 2, row 4, "
            "column 5 is nan; expected 0.3125",
        ),
        (
            {"wrong": replace(WRONG, what="x")},
            "call 3 of conv1 (denormals) changed x, which it may only read",
        ),
        (
            {"wrong": replace(WRONG, what="outside")},
            "call 3 of conv1 (denormals) wrote outside its buffers",
        ),
        ({"fault": "an illegal address"}, "the kernels failed: an illegal address"),
        ({"others": 1}, "1 other program used the GPU"),
        ({"others": 2}, "2 other programs used the GPU"),
        (
            {"celsius": 78.0},
            "the GPU was at 78 °C after a wait of 60 s; at most 65 °C is accepted",
        ),
        (
            {"floors": {"conv1": 0.9}},
            "conv1 took 0.62 ms, but this GPU needs at least 0.9 ms to move its bytes "
            "and compute its products",
        ),
        (
            {"site": replace(SITE, ms=5.0)},
            "the reference took 5.4 ms; this site expects 5 ms on NVIDIA H200, "
            "within 5%",
        ),
        (
            {"alone_ms": [5.0, 5.0, 9.0]},
            "the reference took 5.4 ms between the samples and 5 ms alone",
        ),
        (
            {"reference_throttled": 0.9, "throttled": 0.1},
            "the GPU was throttled during 90% of the references and 10% of the samples",
        ),
    ],
)
def test_each_condition_has_its_sentence(changed, sentence):
    assert reasons(**changed) == [sentence]


def test_too_few_rounds_are_counted():
    found = why(RULES, made.samples(Random(1), rounds=12), Conditions())
    assert found == ("there are only 12 rounds of samples; 40 are needed",)


def test_no_samples_are_too_few():
    assert why(RULES, [], Conditions()) == (
        "there are only 0 rounds of samples; 40 are needed",
    )


def test_a_spread_is_told_with_what_is_accepted():
    found = reasons(
        lambda s: replace(s, reference_ms=s.reference_ms * (1 + 0.2 * (s.round % 2))),
        site=None,
        alone_ms=(),
    )
    assert found == [
        "the ratios of the rounds spread by 18.2% of their median; "
        "at most 5.0% is accepted"
    ]


def test_all_reasons_come_at_once():
    assert len(reasons(others=1, celsius=90.0, floors={"conv2": 5.0})) == 3


def test_a_time_that_is_no_number_is_not_accepted():
    assert reasons(lambda s: replace(s, ms=float("nan")))


def test_the_first_wrong_number_is_written_as_json_can_have_it():
    found = json.loads(json.dumps(WRONG.to_json(), allow_nan=False))
    assert (found["found"], found["expected"]) == ("nan", 0.3125)


def test_a_site_may_have_no_reference():
    assert SiteReference.from_json(None, RULES) is None
    given = {"gpu": "NVIDIA H200", "ms": 5}
    assert SiteReference.from_json(given, RULES) == replace(SITE, ms=5.0)
    assert SiteReference.from_json({**given, "band": 0.1}, RULES) == SiteReference(
        "NVIDIA H200", 5.0, 0.1
    )
