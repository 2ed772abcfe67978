"""Every output of many images on a GPU beside float64, and each by its own measure."""

from dataclasses import replace

import numpy as np
import pytest
from course.shapes import ConvShape
from lab import float64
from lab.float64 import WORST, Float64

from project.tests.guarded import (
    SERVING,
    bound,
    compared,
    gold,
    many,
    numbers,
    served,
)
from project.tests.test_convolutions import EDITIONS, LAYERS, ODD

pytestmark = pytest.mark.gpu

STEADY = (
    *(ConvShape(1, 12, 1, 28, 28, 5), ConvShape(1, 50, 1, 28, 28, 5)),
    *(ConvShape(1, 16, 6, 14, 15, 5), ConvShape(1, 16, 3, 10, 12, 3)),
    *(ConvShape(1, 24, 12, 33, 33, 5), ConvShape(1, 24, 12, 21, 21, 7)),
)
SHAPES = (
    *(*LAYERS, *EDITIONS, *ODD[2:12:3], *ODD[-4:]),
    *(replace(shape, B=n) for shape in LAYERS for n in (1, 2, 37)),
)
SINGLE = {name: part for name, part in SERVING.items() if not part.choices}
EXACT = {name: part for name, part in SINGLE.items() if float64.promised(part)}


@pytest.fixture
def reference(device):
    return Float64(device)


def lognormal(rng, x, k):
    return np.exp(4 * x), np.exp(4 * k)


def one_pixel(rng, x, k):
    x[:, x.shape[1] // 2, x.shape[2] // 2, x.shape[3] // 3] *= np.float32(1e12)
    return x, k


def maps(rng, x, k):
    sizes = np.logspace(-6, 6, len(k), dtype=np.float32)
    return x, k * sizes[:, None, None, None]


def by_image(rng, x, k):
    sizes = np.logspace(-20, 20, len(x), dtype=np.float32)
    return x * sizes[:, None, None, None], k


def scaled(of_x, of_k):
    return lambda rng, x, k: (x * np.float32(of_x), k * np.float32(of_k))


def positive(rng, x, k):
    return np.abs(x), np.abs(k)


def one_hot(rng, x, k):
    flat = np.zeros_like(k).reshape(len(k), -1)
    flat[np.arange(len(k)), rng.integers(0, flat.shape[1], len(k))] = 1
    return x, flat.reshape(k.shape)


def sparse(rng, x, k):
    return x * (rng.random(x.shape) < 0.01), k * (rng.random(k.shape) < 0.01)


def strange(value):
    def put(rng, x, k):
        x[len(x) // 2, 0, 0, -1] = value
        return x, k

    return put


KINDS = {
    **{f.__name__: f for f in (lognormal, one_pixel, maps, by_image, positive)},
    **{f.__name__: f for f in (one_hot, sparse)},
    **{f"images by {n}": scaled(n, 1) for n in (1e-38, 1e-20, 1e-10, 1e10, 1e20)},
    **{f"weights by {n}": scaled(1, n) for n in (1e-20, 1e-10, 1e10, 1e20)},
    **{f"both by {n}": scaled(n, n) for n in (1e-20, 1e-10, 1e10, 1e18)},
    **{str(n): strange(n) for n in (np.nan, np.inf, -np.inf)},
}
"""Numbers that are hard to hold in few bits, of random ones."""


def test_the_reference_is_numpys_and_finds_what_is_wrong(device, reference, rng):
    shape = ConvShape(5, 7, 3, 11, 13, 3)
    x, k = numbers(rng, shape)
    sizes, right = gold(np.abs(x), np.abs(k)), gold(x, k)
    y = right.astype(np.float32)
    y[1, 2, 3, 4] += 0.5
    y[3, 0, 0, :2] = np.nan, np.inf
    there = list(map(device.upload, (y, x, k)))

    found = reference.errors(*there)

    assert found.missing.tolist() == [0, 0, 0, 2, 0]
    wrong = np.abs(y - right)
    assert found.by_element == pytest.approx((wrong / sizes)[1, 2, 3, 4])
    for image in (0, 1, 2, 4):
        norm = np.linalg.norm(wrong[image]) / np.linalg.norm(right[image])
        assert found.norms[image] == pytest.approx(norm, rel=1e-6)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("variant", SINGLE.values(), ids=list(SINGLE))
def test_each_of_many_images_is_right(variant, device, reference, rng):
    shapes = [replace(s, B=images) for s in STEADY for images in many(device)]
    for shape, convolution in served(variant, device, shapes):
        x, k = numbers(rng, shape)
        found = compared(device, reference, convolution, x, k, variant.storage)
        assert not found.missing.any(), (shape, np.flatnonzero(found.missing))
        worst = int(found.norms.argmax())
        most = bound(variant, replace(shape, B=1))
        assert found.norms[worst] < most, (shape, f"image {worst}")


@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:underflow")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("variant", EXACT.values(), ids=list(EXACT))
def test_each_output_is_exact_by_its_own_sum(variant, device, reference, rng):
    wrong = []
    for shape, convolution in served(variant, device, SHAPES):
        most = WORST * max(1, shape.C * shape.K * shape.K / 300) ** 0.5
        for kind, change in KINDS.items():
            drawn = change(rng, *numbers(rng, shape))
            x, k = (np.asarray(a, np.float32) for a in drawn)
            found = compared(device, reference, convolution, x, k)
            missing, worst = int(found.missing.sum()), found.by_element
            if missing or worst > most:
                wrong.append(f"{kind}, {shape}: {worst:.1e}, {missing} missing")
    assert not wrong, "\n".join(wrong)
