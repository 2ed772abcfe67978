"""Pictures of bars."""

from __future__ import annotations

from itertools import pairwise
from math import inf, nan

import pytest

from runner.report.charts import Bar, BarChart, Mark
from tests.runner.pictures.drawn import ODD, Drawn

TITLES = (
    "naive: 40.00 ms",
    "tiled: 20.00 ms, from 10.00 ms to 40.00 ms",
    "best: 10.00 ms",
)
BARS = (Bar("naive", 0.04), Bar("tiled", 0.02, 0.01, 0.04), Bar("best", 0.01))


def test_a_bar_is_as_long_as_its_value_and_a_spread_as_wide_as_its_own():
    picture = Drawn(BarChart("Op Time", "s", BARS))
    picture.check()
    bars = list(map(picture.bar, TITLES))
    lengths = [right - left for left, right in bars]
    assert lengths == pytest.approx([n * lengths[0] for n in (1, 0.5, 0.25)], abs=0.2)
    assert {"naive", "40.00 ms", "0 s", "20 ms"} <= set(picture.words)
    low, *_, high = picture.numbers(TITLES[1], "path", "d")
    assert (low, high) == pytest.approx((bars[2][1], bars[0][1]), abs=0.2)


def test_a_logarithmic_axis_has_equal_steps_for_equal_factors():
    bars = tuple(Bar(f"k{n}", 10.0**-n) for n in range(4))
    picture = Drawn(BarChart("t", "s", bars, logarithmic=True))
    values = ("1.000 s", "100.0 ms", "10.00 ms", "1.000 ms")
    ends = [picture.bar(f"k{n}: {value}")[1] for n, value in enumerate(values)]
    steps = [one - other for one, other in pairwise(ends)]
    assert steps == pytest.approx([steps[0]] * 3, abs=0.2)
    assert {"1 ms", "10 ms", "100 ms", "1 s"} <= set(picture.words)
    assert "The axis is logarithmic." in picture.words


def test_of_many_bars_the_first_are_drawn_and_the_rest_counted():
    picture = Drawn(BarChart("t", "", tuple(Bar(f"bar {n}", n) for n in range(200))))
    assert "bar 39" in picture.words and "bar 40" not in picture.words
    assert "160 more bars are not drawn." in picture.words
    about = picture.all("desc")[0].text or ""
    assert about.startswith("200 bars: bar 0: 0; bar 1: 1;")
    assert about.endswith("; and 190 more")


def test_a_bar_has_its_series_beside_it_and_its_marks_in_a_legend():
    marks = tuple(Mark(name, n) for n, name in enumerate(("floor", "vendor"), 1))
    bars = tuple(Bar("layer", 3.0, series=f"run {n}", marks=marks) for n in range(3))
    picture = Drawn(BarChart("t", "s", bars))
    picture.check()
    assert {"run 0", "run 1", "run 2", "floor", "vendor"} <= set(picture.words)
    assert "layer, run 0: 3.000 s, floor 1.000 s, vendor 2.000 s" in picture.titles
    assert len({rect.get("class") for rect in picture.all("rect")[1:]}) == 3


@pytest.mark.parametrize("at", [1.1, 1.5, 2.0])
def test_a_value_is_not_written_over_a_mark(at):
    picture = Drawn(BarChart("t", "s", (Bar("a", 1.0, marks=(Mark("peer", at),)),)))
    left = float(picture.all("text")[-1].attrib["x"])
    place, _ = picture.point(f"a: 1.000 s, peer {at:.3f} s")
    assert picture.words[-1] == "1.000 s" and not left - 8 < place < left + 60


def test_a_label_without_room_is_short_and_whole_in_its_title():
    name = "void op_generic_tensor_kernel<int=2, float, float, float, int=256>()"
    picture = Drawn(BarChart("t", "%", (Bar(name, 50.0),)))
    picture.check()
    assert name in picture.titles
    (short,) = [word for word in picture.words if "…" in word]
    assert short.startswith("void op_generic") and short.endswith("int=256>()")


def test_what_others_named_is_text_and_nothing_else():
    bars = (Bar(ODD, 1.0, series=ODD), Bar(ODD + "x" * 5000, 2.0), Bar("", 3.0))
    picture = Drawn(BarChart(ODD, ODD, bars, logarithmic=True))
    picture.check()
    assert "&lt;script&gt;" in picture.text and "$x^2$" in picture.text
    assert max(map(len, picture.words)) < 120
    assert max(map(len, picture.titles)) > 1000


@pytest.mark.parametrize("logarithmic", [False, True])
@pytest.mark.parametrize(
    "values",
    [(), (0.0,), (nan, inf, -inf), (-1.0, 2.0), (1e308, 1e-308), (5e-324, 1.0), (3.0,)],
)
def test_any_values_give_a_picture_with_all_of_it_inside(values, logarithmic):
    bars = tuple(Bar(f"bar {v}", v, v / 2, v) for v in values)
    picture = Drawn(BarChart("t", "s", bars, logarithmic=logarithmic))
    picture.check()
    assert {bar.label for bar in bars} <= set(picture.words)
    assert bars or "There is nothing to draw." in picture.words
