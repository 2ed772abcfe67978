"""A measured submission, as it is shown."""

from __future__ import annotations

import json
from random import Random

from msgspec.structs import replace

from runner.core.measurement import Measurement, MeasurementHost, read
from runner.report import findings
from runner.terminal.layout import lines
from runner.terminal.streams import Look
from tests.kit import judge_cases as made

SPREAD = "the ratios of the rounds spread by 7.2% of their median"
WRONG = "wrong result in call 3 of conv1: image 9, map 0, row 1, column 2 is nan"


def entry(variant: str, *why: str, **changed) -> dict:
    found = made.entry(made.samples(Random(1), noise=0.0), why)
    return found | {"variant": variant, **changed}


def cheat() -> dict:
    place = {"call": 3, "layer": "conv1", "image": 9, "map": 0, "row": 1, "column": 2}
    wrong = place | {"found": "nan", "expected": 0.25}
    return entry("cheat", WRONG, correct=False, wrong=wrong)


def measured(*entries: dict) -> Measurement:
    return read(json.dumps(made.measurement(*entries)).encode())


def shown(found: Measurement, width: int | None = 80) -> str:
    blocks = [lines(block, Look(width=width)) for block in findings.measured(found)]
    return "\n".join(line for block in blocks for line in block)


def test_each_variant_has_its_result_and_those_that_are_wrong_have_no_time():
    text = shown(measured(entry("best"), entry("second", SPREAD), cheat()))
    (best, second, wrong) = text.partition("Variants\n")[2].splitlines()[1:4]
    assert best == (
        "best     correct         1.170 ms  0.2167  0.2167 to 0.2167  1.170 ms"
    )
    assert second.split()[1:3] == ["not", "accepted"]
    assert "1.170 ms" in second
    assert wrong == "cheat    wrong: image 9"


def test_every_reason_is_a_sentence_below_the_tables():
    text = shown(measured(entry("second", SPREAD), cheat()), None)
    assert text.splitlines()[-2:] == [
        f"not accepted  second: {SPREAD}",
        f"not accepted  cheat: {WRONG}",
    ]


def test_layers_show_clocks_of_samples_and_references():
    text = shown(measured(entry("best")))
    assert "best     conv1  620.0 µs   2.400 ms  530.0 µs  4.0e-07" in text
    heads, conv1, _ = text.partition("in MHz\n")[2].splitlines()
    assert heads.split()[2:] == ["samples", "median", "to", "reference", "median", "to"]
    assert conv1.split()[:2] == ["best", "conv1"]
    assert {"1950", "1980"} <= set(conv1.split())


def test_a_clock_that_is_unknown_is_not_shown():
    found = entry("best")
    for layer in found["layers"]:
        layer["sm_mhz"] = [0.0, 0.0, 0.0]
    text = shown(measured(found))
    assert " 0 " not in text.partition("in MHz\n")[2]


def test_what_does_not_count_says_why_and_where_it_ran():
    host = MeasurementHost(
        "Final",
        "ranked",
        why_not_ranked=("it ran on the local engine",),
        runs={"compile": "174d5fe1a8", "measure": "99aabbccdd"},
        engine="local",
    )
    text = shown(replace(measured(entry("best")), host=host))
    assert "submission   Final (final), class fp32" in text
    assert "measure run  99aabbccdd" in text
    assert text.splitlines()[-1] == "not counted  it ran on the local engine"


def test_the_gpu_and_its_state_are_shown():
    text = shown(measured(entry("best")), None)
    assert "NVIDIA H200, sm_90, 140.4 GiB, driver 580.159.04" in text
    assert "38 to 41 °C, 110 to 211 W, held for 4.5 s" in text


def test_results_that_were_not_timed_have_no_columns_of_times():
    text = shown(read(json.dumps(made.checked()).encode()))
    assert text.splitlines() == [
        "submission  m2, class fp32",
        "Variants",
        "variant      result",
        "convolution  correct",
    ]


def test_a_measurement_of_nothing_says_so():
    assert shown(measured()).endswith("not accepted  nothing was measured")


def test_a_hostile_sentence_cannot_draw_on_the_terminal():
    text = shown(measured(entry("best", "a\x1b[2J\u202eb\u2731")), None)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\u2731" not in text
