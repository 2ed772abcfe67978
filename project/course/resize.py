"""Resize images from 28 x 28 to an edition's size, as the course did."""

from __future__ import annotations

from course import cores

# isort: split
# cores comes before numpy.
import numpy as np

PIECE = 100  # images converted to float32 at a time, to fit a core's cache


def resize(images: np.ndarray, size: int) -> np.ndarray:
    """Interpolate linearly between pixel centres, zero outside, truncate to uint8.

    The weights are multiples of ``1 / (2 * size)``, so the scaled sums are integers
    that float32 represents exactly, and rounding cannot change a pixel.
    """
    count, old, _ = images.shape
    weights = interpolation(old, size)
    resized = np.empty((count, size, size), np.uint8)

    def work(part: slice) -> None:
        for start in range(part.start, part.stop, PIECE):
            piece = slice(start, min(start + PIECE, part.stop))
            sums = weights @ (images[piece].astype(np.float32) @ weights.T)
            resized[piece] = sums / np.float32(4 * size * size)

    cores.share(work, count)
    return resized


def interpolation(old: int, new: int) -> np.ndarray:
    """Return the weights of old pixels (columns) for new ones (rows), x 2 * new."""
    whole = 2 * new
    centre = (2 * np.arange(new) + 1) * old - new  # in units of 1 / (2 * new)
    left, right = centre // whole, centre // whole + 1
    share = centre % whole
    weights = np.zeros((new, old), np.float32)
    for pixel, weight in ((left, whole - share), (right, share)):
        inside = (pixel >= 0) & (pixel < old)
        weights[np.flatnonzero(inside), pixel[inside]] = weight[inside]
    return weights
