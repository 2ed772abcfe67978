"""Pictures of bars."""

from __future__ import annotations

from itertools import pairwise
from math import inf, nan

import pytest

from runner.report.charts import Bar, BarChart
from tests.runner.pictures.drawn import ODD, check_harmless, drawn

THREE = BarChart(
    "Op Time",
    "s",
    (Bar("naive", 0.04), Bar("tiled", 0.02, 0.016, 0.024), Bar("best", 0.01)),
)


def test_a_bar_is_as_long_as_its_value_and_below_the_one_before():
    picture = drawn(THREE)
    boxes = [
        picture.box(title)
        for title in (
            "naive: 40.00 ms",
            "tiled: 20.00 ms, from 16.00 ms to 24.00 ms",
            "best: 10.00 ms",
        )
    ]
    lengths = [right - left for left, _, right, _ in boxes]
    assert lengths[1] / lengths[0] == pytest.approx(0.5, abs=0.01)
    assert lengths[2] / lengths[0] == pytest.approx(0.25, abs=0.01)
    assert boxes[0][3] < boxes[1][1] < boxes[2][1]
    assert {"naive", "40.00 ms", "0 s", "20 ms"} <= set(picture.words)


def test_the_ends_of_a_spread_are_where_bars_of_these_values_would_end():
    bars = (Bar("a", 2.0, 1.0, 3.0), Bar("low", 1.0), Bar("high", 3.0))
    picture = drawn(BarChart("t", "s", bars))
    ends = [
        picture.box(f"{name}: {n}.000 s")[2] for name, n in (("low", 1), ("high", 3))
    ]
    lines = [
        each.attrib["d"].split() for each in picture.all("path") if "d" in each.attrib
    ]
    spans = [(float(d[1]), float(d[4])) for d in lines if len(d) == 6 and d[2] == d[5]]
    assert pytest.approx(tuple(ends), abs=0.1) in spans


def test_a_logarithmic_axis_has_plain_marks_and_equal_steps_for_equal_factors():
    bars = tuple(Bar(f"k{n}", 10.0**-n) for n in range(4))
    picture = drawn(BarChart("t", "s", bars, logarithmic=True))
    values = ("1.000 s", "100.0 ms", "10.00 ms", "1.000 ms")
    ends = [picture.box(f"k{n}: {value}")[2] for n, value in enumerate(values)]
    steps = [one - other for one, other in pairwise(ends)]
    assert steps == pytest.approx([steps[0]] * 3, abs=0.1)
    assert {"1 ms", "10 ms", "100 ms", "1 s"} <= set(picture.words)
    assert "The axis is logarithmic." in picture.words


def test_of_many_bars_the_first_are_drawn_and_the_rest_counted():
    many = [Bar(f"bar {n}", n) for n in range(200)]
    picture, more = (drawn(BarChart("t", "", tuple(many[:n]))) for n in (200, 100))
    assert "bar 39" in picture.words and "bar 40" not in picture.words
    assert "160 more bars are not drawn." in picture.words
    assert picture.height == more.height < 2000
    assert "200 bars" in (picture.all("desc")[0].text or "")


def test_series_have_colours_hatches_and_a_legend():
    bars = tuple(Bar("layer", n + 1.0, series=f"series {n}") for n in range(10))
    picture = drawn(BarChart("t", "s", bars))
    assert {f"series {n}" for n in range(8)} <= set(picture.words)
    assert "2 more series have no line in the legend." in picture.words
    assert len(picture.all("pattern")) >= 7
    assert "others" not in drawn(THREE).words


def test_what_others_named_is_text_and_nothing_else():
    long = ODD + "x" * 5000
    bars = (Bar(ODD, 1.0, series=ODD), Bar(long, 2.0, series="_hidden"), Bar("", 3.0))
    picture = drawn(BarChart(ODD, ODD, bars, logarithmic=True))
    check_harmless(picture)
    assert "_hidden" in picture.words
    assert any(
        "&lt;script&gt;" in part and "$x^2$" in part for part in picture.text.split("<")
    )
    assert max(map(len, picture.words)) < 120
    assert max(map(len, picture.titles)) > 1000


@pytest.mark.parametrize("logarithmic", [False, True])
@pytest.mark.parametrize(
    "values",
    [(), (0.0,), (nan, inf, -inf), (-1.0, 2.0), (1e308, 1e-308), (5e-324, 1.0), (3.0,)],
)
def test_any_values_give_a_picture_with_all_of_it_inside(values, logarithmic):
    bars = tuple(Bar(f"bar {v}", v, v / 2, v) for v in values)
    picture = drawn(BarChart("t", "s", bars, logarithmic=logarithmic))
    check_harmless(picture)
    for text in picture.all("text"):
        assert 0 <= float(text.attrib["x"]) <= picture.width
        assert 0 <= float(text.attrib["y"]) <= picture.height
    for bar in bars:
        assert bar.label in picture.words
    if not bars:
        assert "There is nothing to draw." in picture.words
