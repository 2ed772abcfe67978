"""The course's rule for larger images."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from resize import resize


def slowly(image, size):
    """The rule as it is told, one pixel after another, in exact fractions."""
    old = len(image)
    resized = np.empty((size, size), np.uint8)
    for row in range(size):
        for column in range(size):
            y = (row + Fraction(1, 2)) * Fraction(old, size) - Fraction(1, 2)
            x = (column + Fraction(1, 2)) * Fraction(old, size) - Fraction(1, 2)
            total = Fraction(0)
            for r in (floor(y), floor(y) + 1):
                for c in (floor(x), floor(x) + 1):
                    if 0 <= r < old and 0 <= c < old:
                        near = (1 - abs(y - r)) * (1 - abs(x - c))
                        total += near * Fraction(int(image[r, c]), 256)
            resized[row, column] = floor(256 * total)
    return resized


@pytest.mark.lengthy
@pytest.mark.parametrize("size", [48, 70, 72])
def test_resizing_is_exactly_bilinear_with_zeros_outside_cut_to_bytes(size):
    rng = np.random.default_rng(size)
    images = rng.integers(0, 256, (2, 28, 28), dtype=np.uint8)
    images[1] = 255

    resized = resize(images, size)

    assert (resized[0] == slowly(images[0], size)).all()
    assert (resized[1] == slowly(images[1], size)).all()


def test_images_of_their_own_size_stay_as_they_are():
    images = np.arange(28 * 28 * 3, dtype=np.int64).astype(np.uint8).reshape(3, 28, 28)

    assert (resize(images, 28) == images).all()


def test_every_image_is_resized_alone_whatever_piece_it_lies_in():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (1003, 28, 28), dtype=np.uint8)

    assert (resize(images, 70)[1000:] == resize(images[1000:], 70)).all()
