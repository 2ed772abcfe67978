"""Our own convolution on the CPU: slow and plain to compare with, and fast."""

from __future__ import annotations

from itertools import product

import cores
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def gold(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Convolve in float64, one product after another; what all others must match."""
    images, channels, height, width = x.shape
    maps, _, kernel, _ = weights.shape
    rows, columns = height - kernel + 1, width - kernel + 1
    y = np.zeros((images, maps, rows, columns), np.float64)
    for b, m, h, w in product(*map(range, y.shape)):
        total = 0.0
        for c, p, q in product(range(channels), range(kernel), range(kernel)):
            total += float(x[b, c, h + p, w + q]) * float(weights[m, c, p, q])
        y[b, m, h, w] = total
    return y


def convolve(y: np.ndarray, x: np.ndarray, weights: np.ndarray) -> None:
    """Unroll every image into a matrix of windows, and multiply it by the weights.

    The matrix has a row for each weight of a map and a column for each pixel of the
    output, so the product lies in ``y`` as it should; one image's matrix fits a cache.
    """
    maps, channels, kernel, _ = weights.shape
    pixels = y.shape[2] * y.shape[3]
    windows = sliding_window_view(x, (kernel, kernel), axis=(2, 3))
    windows = windows.transpose(0, 1, 4, 5, 2, 3)  # image, c, p, q, row, column
    matrix_of_weights = weights.reshape(maps, -1)

    def work(part: slice) -> None:
        unrolled = np.empty(windows.shape[1:], x.dtype)
        matrix = unrolled.reshape(channels * kernel * kernel, pixels)
        for image, window in zip(y[part], windows[part], strict=True):
            unrolled[...] = window
            np.matmul(matrix_of_weights, matrix, out=image.reshape(maps, pixels))

    cores.share(work, len(x))
