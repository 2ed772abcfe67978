"""Images of 28 x 28 to an edition's size, as the course resized them."""

from __future__ import annotations

import cores
import numpy as np

PIECE = 100  # images in float32 at a time, few enough for a core's cache


def resize(images: np.ndarray, size: int) -> np.ndarray:
    """Interpolate linearly between pixels' centres, zero outside, cut to uint8.

    The weights are fractions of ``2 * size``, so all sums are whole numbers that
    float32 holds exactly, and no rounding can move a pixel.
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
    """Weigh the old pixels (columns) of every new one (rows), in 1 / (2 * new)."""
    whole = 2 * new
    centre = (2 * np.arange(new) + 1) * old - new  # in the same fractions
    left, right = centre // whole, centre // whole + 1
    share = centre % whole
    weights = np.zeros((new, old), np.float32)
    for pixel, weight in ((left, whole - share), (right, share)):
        inside = (pixel >= 0) & (pixel < old)
        weights[np.flatnonzero(inside), pixel[inside]] = weight[inside]
    return weights
