"""The sizes of a convolution, in the letters of the course."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConvShape:
    """B images of C x H x W, M maps of C x K x K weights; no padding, stride 1."""

    B: int
    M: int
    C: int
    H: int
    W: int
    K: int

    @property
    def H_out(self) -> int:
        """Count the output's rows."""
        return self.H - self.K + 1

    @property
    def W_out(self) -> int:
        """Count the output's columns."""
        return self.W - self.K + 1

    @property
    def weights(self) -> int:
        """Count the weights of all maps."""
        return self.M * self.C * self.K * self.K

    @property
    def floats_in(self) -> int:
        """Count the numbers of one image that come in."""
        return self.C * self.H * self.W

    @property
    def floats_out(self) -> int:
        """Count the numbers of one image that go out."""
        return self.M * self.H_out * self.W_out


def between(y: tuple[int, ...], x: tuple[int, ...], k: tuple[int, ...]) -> ConvShape:
    """Read the sizes off the shapes of output, input and weights."""
    images, channels, height, width = x
    maps, _, kernel, _ = k
    shape = ConvShape(images, maps, channels, height, width, kernel)
    if y != (images, maps, shape.H_out, shape.W_out) or k[1:] != (
        channels,
        kernel,
        kernel,
    ):
        raise ValueError(f"no convolution of {x} by {k} gives {y}")
    return shape
