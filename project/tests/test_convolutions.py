"""Every convolution on a GPU beside float64: any shape, any range, and nothing else."""

import numpy as np
import pytest
from course.errors import GpuError
from course.shapes import ConvShape
from course.variants import HALF
from plans.kernels import VARIANTS

from project.tests.guarded import (
    SERVING,
    bound,
    convolved,
    error,
    gold,
    mistaken,
    numbers,
    prepared,
    served,
    stored,
)

pytestmark = pytest.mark.gpu

EVERY = pytest.mark.parametrize("variant", SERVING.values(), ids=list(SERVING))
WIDE = {name: part for name, part in SERVING.items() if part.accuracy != HALF}
ANY_RANGE = pytest.mark.parametrize("variant", WIDE.values(), ids=list(WIDE))
LAYERS = (ConvShape(7, 12, 1, 70, 70, 5), ConvShape(7, 24, 12, 33, 33, 5))
EDITIONS = (
    *(ConvShape(3, 50, 1, 28, 28, 5), ConvShape(3, 6, 1, 64, 64, 5)),
    *(ConvShape(3, 16, 6, 30, 30, 5), ConvShape(3, 12, 1, 72, 72, 7)),
    *(ConvShape(3, 24, 12, 36, 36, 7), ConvShape(3, 6, 1, 48, 48, 5)),
    *(ConvShape(3, 16, 6, 22, 22, 5), ConvShape(3, 12, 1, 48, 48, 7)),
    ConvShape(3, 24, 12, 21, 21, 7),
)
ODD = (
    *(ConvShape(1, 3, 5, 17, 23, kernel) for kernel in range(1, 12)),
    *(ConvShape(1, 1, 1, 1, 1, 1), ConvShape(1, 1, 1, 11, 11, 11)),
    *(ConvShape(2, 7, 13, 11, 40, 11), ConvShape(3, 5, 1, 9, 200, 9)),
    *(ConvShape(5, 13, 12, 33, 33, 5), ConvShape(1, 12, 1, 70, 70, 5)),
)
RANDOM = 8
SCALES = (1e-20, 1e-10, 1e10, 1e20)


def check(device, variant, shape, convolution, x, k, scale=1.0):
    """Compare with float64, as large as the numbers are."""
    found = convolved(device, convolution, x, k, variant.storage)
    usual = scale * (shape.C * shape.K * shape.K) ** 0.5
    wrong = error(found.astype(float), gold(x, k), usual)
    assert wrong < bound(variant, shape), shape


@EVERY
@pytest.mark.parametrize(
    "shapes", [LAYERS, EDITIONS, ODD], ids=["2019fa", "all", "odd"]
)
def test_a_variant_is_the_reference_in_its_class(variant, shapes, device, rng):
    for shape, convolution in served(variant, device, shapes):
        check(device, variant, shape, convolution, *numbers(rng, shape))


@EVERY
def test_a_variant_is_the_reference_on_shapes_that_nobody_chose(variant, device, rng):
    def drawn():
        b, m, c, k = (int(rng.integers(1, most + 1)) for most in (5, 30, 13, 11))
        return ConvShape(b, m, c, *(k + int(rng.integers(0, 40)) for _ in "hw"), k)

    for shape, convolution in served(variant, device, [drawn() for _ in range(RANDOM)]):
        check(device, variant, shape, convolution, *numbers(rng, shape))


@ANY_RANGE
@pytest.mark.parametrize("which", ["images", "weights"])
def test_a_class_holds_for_numbers_of_any_size(variant, which, device, rng):
    for shape, convolution in served(variant, device, LAYERS):
        for scale in SCALES:
            x, k = numbers(rng, shape)
            (x if which == "images" else k).__imul__(np.float32(scale))
            check(device, variant, shape, convolution, x, k, scale)


@ANY_RANGE
def test_each_image_of_a_batch_is_exact_by_its_own_measure(variant, device, rng):
    for shape, convolution in served(variant, device, LAYERS):
        x, k = numbers(rng, shape)
        scales = 10.0 ** np.array([-20, 20, 0, -10, 10, -3, 3])
        x *= scales[:, None, None, None].astype(np.float32)
        found = convolved(device, convolution, x, k)
        expected = gold(x, k)
        for y, image, scale in zip(found, expected, scales, strict=True):
            usual = scale * (shape.C * shape.K * shape.K) ** 0.5
            assert error(y.astype(float), image, usual) < bound(variant, shape), scale


@EVERY
def test_images_and_weights_of_zeros_give_zeros(variant, device, rng):
    for shape, convolution in served(variant, device, LAYERS):
        x, k = numbers(rng, shape)
        x[::2] = 0
        found = convolved(device, convolution, x, k, variant.storage)
        assert not found[::2].any()
        assert np.isfinite(found).all()
        assert found[1::2].any()
        assert not convolved(device, convolution, x, 0 * k, variant.storage).any()


@pytest.mark.filterwarnings("ignore:invalid value encountered")
@EVERY
@pytest.mark.parametrize("strange", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("which", ["images", "weights"])
def test_what_is_not_finite_spreads_as_far_as_in_the_reference(
    variant, which, strange, device, rng
):
    for shape, convolution in served(variant, device, LAYERS):
        x, k = numbers(rng, shape)
        place = x[2] if which == "images" else k[shape.M // 2]
        place[-1, -1, 3] = strange
        place[0, 2, 2] = strange
        found = convolved(device, convolution, x, k, variant.storage)
        expected = gold(stored(variant, x), stored(variant, k))
        finite = np.isfinite(expected)
        assert np.array_equal(np.isnan(found), np.isnan(expected))
        assert np.array_equal(found[~finite], expected[~finite], equal_nan=True)
        usual = (shape.C * shape.K * shape.K) ** 0.5
        wrong = error(found[finite].astype(float), expected[finite], usual)
        assert wrong < bound(variant, shape)


WRONG = {
    "a row too few": ("naive", "p < K", "p < K - 1"),
    "another weight": ("naive", "k[", "k[1 + "),
    "the first image only": ("naive", "(size_t)b * C", "(size_t)0 * C"),
    "writes beside": ("naive", "h >= H_OUT ||", "h > H_OUT ||"),
    "no barrier": ("tiled", "__syncthreads();", ";"),
    "a map too far": ("constant", "m * C", "(m + 1) * C"),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=list(WRONG))
def test_a_wrong_kernel_is_caught(wrong, device, rng, tmp_path):
    name, right, mistake = wrong
    mistaken(name, right, mistake, tmp_path)
    variant, shape = VARIANTS[name], ConvShape(3, 5, 4, 40, 37, 5)
    x, k = numbers(rng, shape)

    with pytest.raises((AssertionError, GpuError)):
        for _ in range(20):  # a race may go well now and then
            (convolution,) = prepared(device, variant, [shape], tmp_path)
            check(device, variant, shape, convolution, x, k)
