"""Every convolution against the plain one."""

import numpy as np
import pytest
from host import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from project.tests.plain import gold


@st.composite
def layers(draw):
    images, channels, maps, kernel = (draw(st.integers(1, n)) for n in (5, 3, 4, 4))
    height, width = (kernel + draw(st.integers(0, 5)) for _ in "hw")
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    x = rng.standard_normal((images, channels, height, width))
    weights = rng.standard_normal((maps, channels, kernel, kernel))
    return x, weights


def convolved(x, weights):
    rows, columns = (side - weights.shape[2] + 1 for side in x.shape[2:])
    y = np.full((len(x), len(weights), rows, columns), np.nan, x.dtype)
    reference.convolve(y, x, weights)
    return y


@settings(max_examples=40, deadline=None)
@given(layer=layers())
def test_a_convolution_of_any_shape_is_the_plain_one(layer):
    x, weights = layer

    exactly = convolved(x, weights)
    roughly = convolved(x.astype("float32"), weights.astype("float32"))

    np.testing.assert_allclose(exactly, gold(x, weights), atol=1e-12)
    np.testing.assert_allclose(roughly, gold(x, weights), atol=1e-4)


@pytest.mark.smoke
def test_the_plain_convolution_multiplies_windows_as_they_lie_unturned():
    x = np.arange(9.0).reshape(1, 1, 3, 3)
    weights = np.array([[[[1.0, 10.0], [100.0, 1000.0]]]])

    assert gold(x, weights).tolist() == [[[[4310, 5421], [7643, 8754]]]]


@pytest.mark.parametrize(("channels", "maps", "size"), [(1, 12, 70), (12, 24, 33)])
def test_a_pixel_of_each_real_layer_is_the_plain_ones(channels, maps, size):
    rng = np.random.default_rng(size)
    x = rng.standard_normal((3, channels, size, size), dtype=np.float32)
    weights = rng.standard_normal((maps, channels, 5, 5), dtype=np.float32)

    y = convolved(x, weights)

    corner = gold(x[:, :, -6:, -6:], weights)
    np.testing.assert_allclose(y[:, :, -2:, -2:], corner, rtol=1e-4, atol=1e-4)
    assert not np.isnan(y).any()
