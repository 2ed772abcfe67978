"""Pictures as a reader sees them: their parts, axes, words and colours."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from math import inf, nan
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.report import pictures
from runner.report.blocks import Bar, BarChart, Chart, Mark, Roof, Roofline, RoofPoint
from runner.report.pictures import Scale, round_value, width, written

ODD = "\x1b]0;x\x07\x9b2J\u202e✱ <script>alert(1)</script>\"'&]]>\ud800\ufffe $x^2$"
UNSEEN = {*"\x07\x1b\x9b\u202e✱\ud800\ufffe"}
_SVG = "{http://www.w3.org/2000/svg}"
_TAGS = {"svg", "title", "desc", "style", "g", "path", "rect", "text"}


class Drawn:
    """The parts of a picture."""

    def __init__(self, chart: Chart) -> None:
        self.text = pictures.svg(chart)
        self.root = ElementTree.fromstring(self.text)
        self.words = list(map(shown, self.all("text")))
        self.titles = [each.text or "" for each in self.all("title")[1:]]

    def all(self, tag: str) -> list[ElementTree.Element]:
        return list(self.root.iter(_SVG + tag))

    def numbers(self, title: str, tag: str, *names: str) -> list[float]:
        """Return the numbers of the first of these tags in the part with a title."""
        part = next(g for g in self.all("g") if g.findtext(f"{_SVG}title") == title)
        found = next(part.iter(_SVG + tag)).attrib
        return [
            float(number)
            for name in names
            for number in re.findall(r"-?\d[\d.]*", found.get(name, ""))
        ]

    def bar(self, title: str) -> tuple[float, float]:
        """Return where a bar begins and ends."""
        x, wide = self.numbers(title, "rect", "x", "width")
        return x, x + wide

    def point(self, title: str) -> tuple[float, ...]:
        return tuple(self.numbers(title, "path", "transform"))

    def check(self) -> None:
        """Check what holds for each picture.

        All texts are inside, none lies on another, it starts and loads nothing, and
        needs no style attribute.
        """
        high = float(self.root.attrib["height"])
        boxes = list(map(box, self.all("text")))
        for left, top, right, bottom in boxes:
            assert 0 <= left <= right <= 900 and 0 <= top <= bottom <= high
        for one, other in combinations(boxes, 2):
            across = one[0] < other[2] and other[0] < one[2]
            assert not (across and one[1] < other[3] and other[1] < one[3])
        assert {each.tag.removeprefix(_SVG) for each in self.root.iter()} <= _TAGS
        for element in self.root.iter():
            assert not {"style", "src", "id", "href"} & element.attrib.keys()
            assert not [name for name in element.attrib if name.startswith("on")]
        assert not re.search(r"@import|url\(", self.text)
        assert not set(self.text) & UNSEEN


def shown(text: ElementTree.Element) -> str:
    """Return what is seen of a text; what it is short for is its title."""
    return (text.text or "") + "".join(each.tail or "" for each in text)


def box(text: ElementTree.Element) -> tuple[float, float, float, float]:
    """Return the left, top, right and bottom of a text's letters, in a wide font."""
    x, y, size = (float(text.get(name, "13")) for name in ("x", "y", "font-size"))
    wide = width(shown(text), size)
    left = x - wide * {"end": 1, "middle": 0.5}.get(text.get("text-anchor", ""), 0)
    return left, y - size * 0.76, left + wide, y + size * 0.24


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


BOUNDS = ("memory 4 TB/s", "cache 16 TB/s", "FP32 64 TFLOP/s")
ROOFS = (
    Roof("memory", bandwidth=4e12),
    Roof("cache", bandwidth=16e12),
    Roof("FP32", flops=64e12),
)


def test_equal_factors_are_equal_steps_to_the_right_and_up():
    rates = ("100 GFLOP/s", "400 GFLOP/s", "1.6 TFLOP/s")
    points = [RoofPoint(f"k{n}", 4.0**n, 1e11 * 4.0**n, f"{n}") for n in range(3)]
    picture = Drawn(Roofline("t", ROOFS, tuple(points)))
    picture.check()
    (x, y), *others = (
        picture.point(f"k{n}, {n}: {rate} at {4.0**n:.4g} FLOP/B")
        for n, rate in enumerate(rates)
    )
    right, up = others[0][0] - x, y - others[0][1]
    assert right > 0 and up > 0
    assert others[1] == pytest.approx((x + 2 * right, y - 2 * up), abs=0.2)
    assert {"1", "k0, 0", "FLOP per byte", "1 TFLOP/s", *BOUNDS} <= set(picture.words)


def test_bounds_meet_where_the_bytes_take_as_long_as_the_operations():
    points = (RoofPoint("ridge", 16.0, 64e12), RoofPoint("near", 4.0, 64e12))
    picture = Drawn(Roofline("t", ROOFS, points))
    ridge = picture.point("ridge: 64 TFLOP/s at 16 FLOP/B")
    near = picture.point("near: 64 TFLOP/s at 4 FLOP/B")
    memory, cache, level = (picture.numbers(name, "path", "d") for name in BOUNDS)
    assert memory[2:] == pytest.approx(ridge, abs=0.1)
    assert cache[2:] == level[:2] == pytest.approx(near, abs=0.1)
    assert level[1] == level[3]


@pytest.mark.parametrize("step", [0, 1e-4, 1e-2, 0.3])
def test_points_that_lie_close_have_numbers_that_do_not_lie_on_each_other(step):
    close = tuple(RoofPoint(f"k{n}", 1.0 + n * step, 1e12) for n in range(12))
    picture = Drawn(Roofline("t", ROOFS, close))
    picture.check()
    for n in range(1, 13):  # beside its point, and in the list
        assert picture.words.count(str(n)) >= 2


def test_kernels_without_operations_and_the_last_of_many_are_counted():
    many = tuple(RoofPoint(f"kernel {n}", 1.0 + n, 1e12) for n in range(40))
    picture = Drawn(Roofline("t", ROOFS, (*many, RoofPoint("copy", 0.0, 0.0))))
    assert "kernel 29" in picture.words and "kernel 30" not in picture.words
    assert "Without operations or bytes: 1. 10 more kernels are not" in picture.text


POINTS = (
    (),
    (RoofPoint(ODD * 100, 1e-300, 1e300, ODD),),
    (RoofPoint(ODD, nan, inf), RoofPoint(ODD, -1.0, 1.0)),
    (RoofPoint(ODD, 1e-9, 1.0), RoofPoint("far", 1e9, 1e18)),
)
FEW = ((), ROOFS[:1], ROOFS[2:], (Roof(ODD, 1e18), Roof(ODD, None, 1e-9), Roof("")))


@pytest.mark.parametrize(
    "chart",
    [
        *(Roofline(ODD, roofs, points) for roofs in FEW for points in POINTS),
    ],
)
def test_any_figures_give_a_picture_with_all_of_it_inside(chart):
    Drawn(chart).check()
