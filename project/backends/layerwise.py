"""A network layer after layer, each by an operation of the backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import Generic, Protocol, TypeVar

import graph
import numpy as np
from graph import Convolution, Dense, Layer, Pooling, Softmax, Tanh
from network import Inference, Network
from shapes import ConvShape


class Shaped(Protocol):
    """An array of any kind: in the host's memory, or in a device's."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Count the numbers along every axis."""


Array = TypeVar("Array", bound=Shaped)  # the backend's own kind


class Layerwise(ABC, Generic[Array]):
    """The operations of a network; images come first in every array."""

    name: str
    batch: int  # how many images it takes at a time

    def infer(self, network: Network, images: np.ndarray) -> Inference:
        """Classify images of bytes, a piece at a time."""
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
        return Inference(np.concatenate(pieces), tuple(times.values()), note)

    def _convolve(self, x: Array, weights: Array) -> tuple[Array, float]:
        """Convolve, and time it as the course does: from zeros to the last sum."""
        images, _, height, width = x.shape
        maps, _, kernel, _ = weights.shape
        y = self.zeros((images, maps, height - kernel + 1, width - kernel + 1))
        self.wait()
        start = perf_counter()
        self.convolution(y, x, weights)
        self.wait()
        return y, perf_counter() - start

    def prepare(self, convolutions: Sequence[ConvShape]) -> str | None:
        """Load what these convolutions need, and set how many images fit.

        What the user should know of it is returned; mostly there is nothing.
        """

    @abstractmethod
    def put(self, array: np.ndarray) -> Array:
        """Bring an array of the host to where the backend computes."""

    @abstractmethod
    def get(self, array: Array) -> np.ndarray:
        """Bring an array back."""

    @abstractmethod
    def zeros(self, shape: tuple[int, ...]) -> Array:
        """Make an array of zeros, written and not merely promised."""

    @abstractmethod
    def wait(self) -> None:
        """Return when all that was asked for is done."""

    @abstractmethod
    def convolution(self, y: Array, x: Array, weights: Array) -> None:
        """Write into ``y`` the convolution of ``x``; no padding, no bias."""

    @abstractmethod
    def pooling(self, x: Array) -> Array:
        """Take the largest of every 2 x 2 pixels; an odd last row or column is left."""

    @abstractmethod
    def tanh(self, x: Array) -> Array:
        """Take the hyperbolic tangent of every number."""

    @abstractmethod
    def dense(self, x: Array, weights: Array, bias: Array) -> Array:
        """Flatten every image, multiply it by the weights' rows, add the bias."""

    @abstractmethod
    def softmax(self, x: Array) -> Array:
        """Turn every image's scores into probabilities."""


def pooled_first(layers: Iterable[Layer]) -> list[Layer]:
    """Pool before a tanh: it never falls, so that gives the same for a quarter."""
    chain: list[Layer] = []
    for layer in layers:
        if isinstance(layer, Pooling) and chain and isinstance(chain[-1], Tanh):
            chain.insert(-1, layer)
        else:
            chain.append(layer)
    return chain
