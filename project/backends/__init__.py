"""The seam between a network and what computes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np
from shapes import ConvShape


class Shaped(Protocol):
    """An array of any kind: in the host's memory, or in a device's."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Count the numbers along every axis."""


Array = TypeVar("Array", bound=Shaped)  # the backend's own kind


class Backend(Protocol[Array]):
    """The operations of a network; images come first in every array."""

    name: str
    batch: int  # how many images it takes at a time

    def prepare(self, convolutions: Sequence[ConvShape]) -> str | None:
        """Load what these convolutions need, and set how many images fit.

        What the user should know of it is returned; mostly there is nothing.
        """

    def put(self, array: np.ndarray) -> Array:
        """Bring an array of the host to where the backend computes."""

    def get(self, array: Array) -> np.ndarray:
        """Bring an array back."""

    def zeros(self, shape: tuple[int, ...]) -> Array:
        """Make an array of zeros, written and not merely promised."""

    def wait(self) -> None:
        """Return when all that was asked for is done."""

    def convolution(self, y: Array, x: Array, weights: Array) -> None:
        """Write into ``y`` the convolution of ``x``; no padding, no bias."""

    def pooling(self, x: Array) -> Array:
        """Take the largest of every 2 x 2 pixels; an odd last row or column is left."""

    def tanh(self, x: Array) -> Array:
        """Take the hyperbolic tangent of every number."""

    def dense(self, x: Array, weights: Array, bias: Array) -> Array:
        """Flatten every image, multiply it by the weights' rows, add the bias."""

    def softmax(self, x: Array) -> Array:
        """Turn every image's scores into probabilities."""
