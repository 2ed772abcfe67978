"""Run a network layer by layer, each by an operation of the backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import Generic, TypeVar

import numpy as np
from course import graph
from course.graph import Convolution, Dense, Layer, Pooling, Softmax, Tanh
from course.network import Inference, Network, OwnKernels
from course.shapes import ConvShape
from gpu.device import DeviceArray

Array = TypeVar("Array", np.ndarray, DeviceArray)  # the backend's arrays


class Layerwise(ABC, Generic[Array]):
    """The operations of a network; the first axis of every array is the image."""

    name: str
    batch: int  # the most images computed at a time

    def infer(self, network: Network, images: np.ndarray) -> Inference:
        """Classify images of bytes, N x size x size, in pieces of ``batch``."""
        count, size, _ = images.shape
        layers = pooled_first(network.model.layers)
        note = self.prepare(graph.convolutions(layers, count, size))
        weights = {name: self.put(array) for name, array in network.weights.items()}
        times = {la.name: 0.0 for la in layers if isinstance(la, Convolution)}
        pieces = []
        for start in range(0, count, self.batch):
            x = self.put(images[start : start + self.batch, np.newaxis])
            for layer in layers:
                match layer:
                    case Convolution(name=name, weight=weight):
                        x, seconds = self._convolve(x, weights[weight])
                        times[name] += seconds
                    case Pooling():
                        x = self.pooling(x)
                    case Tanh():
                        x = self.tanh(x)
                    case Dense(weight=weight, bias=bias):
                        x = self.dense(x, weights[weight], weights[bias])
                    case Softmax():
                        x = self.softmax(x)
            pieces.append(self.get(x))
        probabilities = np.concatenate(pieces)
        return Inference(probabilities, tuple(times.values()), note, self.own_kernels())

    def _convolve(self, x: Array, weights: Array) -> tuple[Array, float]:
        """Convolve and return the seconds, as the course times it: into zeros."""
        images, _, height, width = x.shape
        maps, _, kernel, _ = weights.shape
        y = self.zeros((images, maps, height - kernel + 1, width - kernel + 1))
        self.wait()
        start = perf_counter()
        self.convolution(y, x, weights)
        self.wait()
        return y, perf_counter() - start

    def prepare(self, convolutions: Sequence[ConvShape]) -> str | None:
        """Load what these convolutions need, and set ``batch``.

        Return a note for the user, or None.
        """

    def own_kernels(self) -> OwnKernels | None:
        """Return which of our own kernels compute the layers, if any do."""
        return None

    @abstractmethod
    def put(self, array: np.ndarray) -> Array:
        """Copy an array from the host to the backend."""

    @abstractmethod
    def get(self, array: Array) -> np.ndarray:
        """Copy an array from the backend to the host."""

    @abstractmethod
    def zeros(self, shape: tuple[int, ...]) -> Array:
        """Allocate an array and write zeros, so that its memory is mapped."""

    @abstractmethod
    def wait(self) -> None:
        """Wait for all started operations."""

    @abstractmethod
    def convolution(self, y: Array, x: Array, weights: Array) -> None:
        """Write the convolution of ``x`` to ``y``; no padding, no bias."""

    @abstractmethod
    def pooling(self, x: Array) -> Array:
        """Apply 2 x 2 max pooling; drop an odd last row or column."""

    @abstractmethod
    def tanh(self, x: Array) -> Array:
        """Apply the hyperbolic tangent."""

    @abstractmethod
    def dense(self, x: Array, weights: Array, bias: Array) -> Array:
        """Flatten every image, multiply it by the weights' rows, and add the bias."""

    @abstractmethod
    def softmax(self, x: Array) -> Array:
        """Apply softmax to every image's scores."""


def pooled_first(layers: Iterable[Layer]) -> list[Layer]:
    """Move pooling before tanh: tanh is monotonic, so a quarter of it is enough."""
    chain: list[Layer] = []
    for layer in layers:
        if isinstance(layer, Pooling) and chain and isinstance(chain[-1], Tanh):
            chain.insert(-1, layer)
        else:
            chain.append(layer)
    return chain
