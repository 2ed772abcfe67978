"""The course's rule for larger images."""

import numpy as np
import pytest
from course.resize import resize


def slowly(image, size):
    """The rule as it is told, one pixel after another, in whole parts of a pixel."""
    old, parts = len(image), 2 * size
    rows = image.tolist()
    resized = np.empty((size, size), np.uint8)
    for row in range(size):
        for column in range(size):
            y = (2 * row + 1) * old - size
            x = (2 * column + 1) * old - size
            total = 0
            for r in (y // parts, y // parts + 1):
                for c in (x // parts, x // parts + 1):
                    if 0 <= r < old and 0 <= c < old:
                        near = (parts - abs(y - r * parts)) * (
                            parts - abs(x - c * parts)
                        )
                        total += near * rows[r][c]
            resized[row, column] = total // parts**2
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
