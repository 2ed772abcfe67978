"""Pictures of kernels below the bounds of their GPU."""

from __future__ import annotations

from math import inf, nan

import pytest

from runner.report.charts import Roof, Roofline, RoofPoint
from tests.runner.pictures.drawn import ODD, Drawn

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
