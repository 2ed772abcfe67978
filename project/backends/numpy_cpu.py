"""Run the network with NumPy, on all cores of the processor."""

from __future__ import annotations

from collections.abc import Callable

from course import cores

# isort: split
# cores comes before numpy.
import numpy as np
from host import reference

from backends.layerwise import Layerwise

Convolution = Callable[[np.ndarray, np.ndarray, np.ndarray], None]


class NumpyCpu(Layerwise[np.ndarray]):
    """A backend of NumPy's arrays, with an exchangeable convolution."""

    name = "numpy"
    batch = 32 * cores.COUNT  # a layer's images fit in the cache

    def __init__(
        self,
        convolution: Convolution = reference.convolve,
        dtype: type[np.floating] = np.float32,
    ) -> None:
        self._convolution = convolution
        self._dtype = dtype

    def put(self, array: np.ndarray) -> np.ndarray:
        """Convert the array to the backend's precision."""
        return np.ascontiguousarray(array, self._dtype)

    def get(self, array: np.ndarray) -> np.ndarray:
        """Return the array unchanged."""
        return array

    def zeros(self, shape: tuple[int, ...]) -> np.ndarray:
        """Allocate an array and write zeros, so that its memory is mapped."""
        array = np.empty(shape, self._dtype)
        array.fill(0)
        return array

    def wait(self) -> None:
        """Return at once: all operations are synchronous."""

    def convolution(self, y: np.ndarray, x: np.ndarray, weights: np.ndarray) -> None:
        """Call the backend's convolution."""
        self._convolution(y, x, weights)

    def pooling(self, x: np.ndarray) -> np.ndarray:
        """Take the maximum of two rows, then of two columns."""
        images, maps, rows, columns = x.shape
        pooled = np.empty((images, maps, rows // 2, columns // 2), x.dtype)
        x = x[:, :, : rows // 2 * 2, : columns // 2 * 2]

        def work(part: slice) -> None:
            higher = np.maximum(x[part, :, ::2], x[part, :, 1::2])
            np.maximum(higher[..., ::2], higher[..., 1::2], out=pooled[part])

        cores.share(work, images)
        return pooled

    def tanh(self, x: np.ndarray) -> np.ndarray:
        """Apply the hyperbolic tangent in place."""
        cores.share(lambda part: np.tanh(x[part], out=x[part]), len(x))
        return x

    def dense(self, x: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
        """Multiply by the weights' rows and add the bias."""
        flat = x.reshape(len(x), -1)
        y = np.empty((len(x), len(weights)), x.dtype)

        def work(part: slice) -> None:
            np.matmul(flat[part], weights.T, out=y[part])
            y[part] += bias

        cores.share(work, len(x))
        return y

    def softmax(self, x: np.ndarray) -> np.ndarray:
        """Apply softmax."""
        # Subtract the maximum, so that no exponential overflows.
        exponentials = np.exp(x - x.max(axis=1, keepdims=True))
        shares: np.ndarray = exponentials / exponentials.sum(axis=1, keepdims=True)
        return shares
