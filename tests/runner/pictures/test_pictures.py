"""Pictures in general: their axes, words and colours."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner import pictures
from runner.pictures.scales import Scale, round_value, written
from runner.report.charts import Bar, BarChart
from tests.runner.pictures.drawn import Drawn

CHART = BarChart("Op Time $1$", "s", (Bar("a", 1.0, series="x"), Bar("b", 2.0)))
COLOURS = dict(
    re.findall(r"\.(\w+) \{ color: #\w+; color: light-dark\((.*?)\)", pictures.STYLE)
)


@given(st.floats(1e-15, 1e17), st.floats(1.01, 10), st.booleans())
def test_ticks_are_round_values_as_far_apart_as_is_asked(low, factor, log):
    scale = Scale(low, low * factor, 100, 800, log)
    ticks = scale.ticks(60)
    assert ticks and all(low * 0.999 <= tick <= low * factor * 1.001 for tick in ticks)
    assert all(scale.at(b) - scale.at(a) >= 60 for a, b in pairwise(ticks))
    assert all(len(f"{tick:.12g}".strip("0.").split("e")[0]) < 8 for tick in ticks)


@pytest.mark.parametrize(
    ("low", "high", "log", "words"),
    [
        (0, 0.055, False, "0 s|10 ms|20 ms|30 ms|40 ms|50 ms"),
        (0.0006, 0.08, True, "1 ms|2 ms|5 ms|10 ms|20 ms|50 ms"),
        (1e-9, 1, True, "10 ns|1 µs|100 µs|10 ms|1 s"),
        (0, 0.3, False, "0 s|50 ms|100 ms|150 ms|200 ms|250 ms|300 ms"),
        (1.15, 1.9, True, "1.2 s|1.4 s|1.6 s|1.8 s"),
    ],
)
def test_the_words_of_ticks(low, high, log, words):
    ticks = Scale(low, high, 100, 800, log).ticks(90)
    assert [round_value(tick, "s") for tick in ticks] == words.split("|")


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("16.60 ms", 0.0166, "s"),
        ("1.234 TFLOP/s", 1.2341e12, "FLOP/s"),
        ("40,000", 40000, ""),
        ("unknown", float("nan"), "s"),
    ],
)
def test_a_value_is_written_with_its_unit(text, value, unit):
    assert written(value, unit) == text


def test_a_picture_has_a_name_and_a_text_for_screen_readers():
    picture = Drawn(CHART)
    assert picture.root.attrib["role"] == "img"
    title, about = picture.root[:2]
    assert (title.tag[-5:], title.text) == ("title", "Op Time $1$")
    assert (about.tag[-4:], about.text) == (
        "desc",
        "2 bars: a, x: 1.000 s; b: 2.000 s",
    )


def test_every_class_has_a_colour_for_light_and_one_for_dark():
    named = {
        name
        for each in Drawn(CHART).root.iter()
        for name in each.attrib.get("class", "").split()
    }
    assert named - {"rai-picture", "mark"} <= set(COLOURS)
    assert ".rai-picture:root { color-scheme: light; }" in pictures.STYLE  # on paper


def luminance(colour: str) -> float:
    red, green, blue = ((int(colour[n : n + 2], 16) / 255) ** 2.2 for n in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1])
def test_texts_and_colours_stand_out_from_the_paper(scheme):
    paper = luminance(COLOURS["paper"].split(", ")[scheme])
    for name, both in COLOURS.items():
        low, high = sorted((luminance(both.split(", ")[scheme]), paper))
        least = {"ink": 4.5, "faint": 4.5, "grid": 1, "paper": 1}.get(name, 3)
        assert (high + 0.05) / (low + 0.05) >= least, name
