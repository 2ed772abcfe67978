"""Our own convolution in NumPy."""

from __future__ import annotations

from course import cores

# isort: split
# cores comes before numpy.
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def convolve(y: np.ndarray, x: np.ndarray, weights: np.ndarray) -> None:
    """Unroll each image to a matrix of windows and multiply it by the weights.

    The matrix has a row for each weight of a map and a column for each output pixel,
    so the product has the layout of ``y``. One image's matrix fits the cache.
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
