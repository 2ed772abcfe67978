"""Pictures of kernels below the bounds of their GPU."""

from __future__ import annotations

from itertools import combinations
from math import inf, nan

import pytest

from runner.report.charts import Roof, Roofline, RoofPoint
from tests.runner.pictures.drawn import ODD, Drawn, check_harmless, drawn

ROOFS = (
    Roof("memory", bandwidth=4e12),
    Roof("cache", bandwidth=16e12),
    Roof("FP32", flops=64e12),
)
POINTS = tuple(
    RoofPoint(f"k{n}", 0.5 * 4.0**n, 1e11 * 4.0**n, f"series {n % 2}") for n in range(4)
)


def centre(picture: Drawn, title: str) -> tuple[float, float]:
    part = next(
        part
        for part in picture.all("g")
        if any(each.tag.endswith("title") and each.text == title for each in part)
    )
    use = next(each for each in part.iter() if each.tag.endswith("use"))
    return float(use.attrib["x"]), float(use.attrib["y"])


def test_equal_factors_are_equal_steps_to_the_right_and_up():
    picture = drawn(Roofline("t", ROOFS, POINTS))
    rates = ("100 GFLOP/s", "400 GFLOP/s", "1.6 TFLOP/s", "6.4 TFLOP/s")
    places = [
        centre(picture, f"k{n}, series {n % 2}: {rate} at {0.5 * 4.0**n:.4g} FLOP/B")
        for n, rate in enumerate(rates)
    ]
    for n in (1, 2):
        right = [places[n][0] - places[n - 1][0], places[n + 1][0] - places[n][0]]
        up = [places[n - 1][1] - places[n][1], places[n][1] - places[n + 1][1]]
        assert right[0] == pytest.approx(right[1], abs=0.1) and right[0] > 0
        assert up[0] == pytest.approx(up[1], abs=0.1) and up[0] > 0
    assert {"k0", "series 0", "series 1", "FLOP per byte", "6.4 TFLOP/s"} <= set(
        picture.words
    )


def test_bounds_meet_where_the_bytes_take_as_long_as_the_operations():
    on_ridge = (RoofPoint("ridge", 16.0, 64e12), RoofPoint("near", 4.0, 64e12))
    picture = drawn(Roofline("t", ROOFS, on_ridge))
    memory = picture.box("memory: 4 TB/s")
    cache = picture.box("cache: 16 TB/s")
    level = picture.box("FP32: 64 TFLOP/s")
    ridge = centre(picture, "ridge: 64 TFLOP/s at 16 FLOP/B")
    near = centre(picture, "near: 64 TFLOP/s at 4 FLOP/B")
    assert (memory[2], memory[1]) == pytest.approx(ridge, abs=0.1)
    assert (cache[2], cache[1]) == pytest.approx(near, abs=0.1)
    assert (level[0], level[1]) == pytest.approx(near, abs=0.1)
    assert level[1] == pytest.approx(level[3])


def test_numbers_of_points_that_lie_close_do_not_lie_on_each_other():
    close = tuple(RoofPoint(f"k{n}", 1.0 + n / 100, 1e12) for n in range(6))
    picture = drawn(Roofline("t", ROOFS, close))
    within = {
        each.text: (float(each.attrib["x"]), float(each.attrib["y"]))
        for each in picture.all("text")
        if (each.text or "").isdigit() and float(each.attrib["y"]) < 340
    }
    assert {"2", "3", "4", "5", "6"} <= within.keys()
    for one, other in combinations(within.values(), 2):
        assert abs(one[0] - other[0]) >= 7 or abs(one[1] - other[1]) >= 11


def test_kernels_without_operations_and_the_last_of_many_are_counted():
    many = tuple(RoofPoint(f"kernel {n}", 1.0 + n, 1e12) for n in range(40))
    picture = drawn(Roofline("t", ROOFS, (*many, RoofPoint("copy", 0.0, 0.0))))
    assert "kernel 29" in picture.words and "kernel 30" not in picture.words
    assert "10 more kernels are not drawn." in picture.words
    assert "1 kernel has no place, without operations or bytes." in picture.words


@pytest.mark.parametrize(
    "points",
    [
        (),
        (RoofPoint(ODD * 100, 1e-300, 1e300, ODD),),
        (RoofPoint(ODD, nan, inf), RoofPoint(ODD, -1.0, 1.0)),
        (RoofPoint(ODD, 1e-9, 1.0), RoofPoint("far", 1e9, 1e18)),
    ],
)
@pytest.mark.parametrize(
    "roofs",
    [(), ROOFS[:1], ROOFS[2:], (Roof(ODD, 1e18), Roof(ODD, None, 1e-9), Roof(""))],
)
def test_any_kernels_and_bounds_give_a_picture_with_all_of_it_inside(points, roofs):
    picture = drawn(Roofline(ODD, roofs, points))
    check_harmless(picture)
    for text in picture.all("text"):
        if "transform" not in text.attrib:
            assert 0 <= float(text.attrib["x"]) <= picture.width
            assert 0 <= float(text.attrib["y"]) <= picture.height
    assert "Both axes are logarithmic." in picture.words
