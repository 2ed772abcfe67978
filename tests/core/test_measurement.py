"""measurement.json: what a container wrote is read within bounds."""

from __future__ import annotations

import json
from random import Random

import pytest

from runner.core.measurement import (
    Measurement,
    MeasurementError,
    from_json,
    read,
    to_json,
)
from tests.kit import judge_cases as made


def written(**changed):
    return json.dumps(made.measurement(made.ACCEPTED) | changed).encode()


def entry(**changed):
    return [made.entry(made.samples(Random(1), rounds=3)) | changed]


def test_what_the_judge_writes_is_read_and_kept_as_it_is():
    found = read(written())
    assert found.accuracy == "fp32"
    assert found.accepted
    assert len(found.entries[0].samples) == 80
    assert from_json(to_json(found)) == found


def test_a_measurement_without_entries_is_not_accepted():
    assert not read(written(entries=[])).accepted


def test_a_number_that_json_has_not_is_a_word():
    wrong = {
        "call": 3,
        "layer": "conv1",
        "image": 9,
        "map": 0,
        "row": 1,
        "column": 2,
        "found": "nan",
        "expected": 0.25,
        "what": "y",
        "inputs": "denormals",
    }
    why = ["wrong result"]
    data = written(entries=entry(accepted=False, correct=False, why=why, wrong=wrong))
    assert read(data).entries[0].wrong.found == "nan"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (written(version=2), "version"),
        (written(milestone="m3\n"), "milestone"),
        (written(seed=-1), "seed"),
        (written(throttled=["x"] * 100), "throttled"),
        (written(entries=entry() * 17), "entries"),
        (written(entries=entry() * 2), "two entries of one variant"),
        (written(entries=entry(variant="../best")), "variant"),
        (written(entries=entry(ms=-1.0)), "ms"),
        (written(entries=entry(ms=float("nan"))), "cannot be read"),
        (written(entries=entry(why=["x" * 5000])), "why"),
        (written(entries=entry(why=["slow"])), "says why it is not"),
        (written(entries=entry(accepted=False)), "does not say why"),
        (written(entries=entry(correct=False)), "not correct"),
        (written(entries=entry(ratio=None)), "no ratio"),
        (written(entries=entry(interval=[2, 1])), "ends before it begins"),
        (written(entries=entry(layers=[])), "a layer that it does not have"),
        (written(host={"title": "", "trust": "ranked", "ranked": True}), "`host`"),
    ],
)
def test_what_is_no_measurement_is_refused_in_a_sentence(data, message):
    with pytest.raises(MeasurementError, match=message) as caught:
        read(data)
    assert "measurement.json" in str(caught.value)


def test_a_measurement_is_not_looked_at_when_it_is_too_large():
    with pytest.raises(MeasurementError, match="has 12 bytes; at most 11 are read"):
        read(b" " * 12, 11)


def test_a_field_that_is_not_known_is_left_out():
    found = read(written(promotion="first place"))
    assert not hasattr(found, "promotion")
    assert b"first place" not in to_json(found)
    assert isinstance(found, Measurement)
