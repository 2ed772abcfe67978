"""The convolution as it is defined, to which all others are held."""

from itertools import product

import numpy as np


def gold(x, weights):
    """Convolve in float64 with plain loops; the reference for all others.

    ``x`` is B x C x H x W, ``weights`` M x C x K x K, the result B x M x H' x W'.
    """
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
