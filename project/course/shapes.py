"""The shape of a convolution, in the course's letters."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConvShape:
    """B images of C x H x W; M maps of C x K x K weights; no padding, stride 1."""

    B: int
    M: int
    C: int
    H: int
    W: int
    K: int

    @property
    def H_out(self) -> int:
        """Return the rows of the output."""
        return self.H - self.K + 1

    @property
    def W_out(self) -> int:
        """Return the columns of the output."""
        return self.W - self.K + 1

    @property
    def weights(self) -> int:
        """Return the number of weights of all maps."""
        return self.M * self.C * self.K * self.K

    @property
    def floats_in(self) -> int:
        """Return the number of input elements of one image."""
        return self.C * self.H * self.W

    @property
    def floats_out(self) -> int:
        """Return the number of output elements of one image."""
        return self.M * self.H_out * self.W_out


def between(y: tuple[int, ...], x: tuple[int, ...], k: tuple[int, ...]) -> ConvShape:
    """Return the shape of a convolution from those of output, input and weights.

    Raises ValueError where they do not fit together.
    """
    images, channels, height, width = x
    maps, _, kernel, _ = k
    shape = ConvShape(images, maps, channels, height, width, kernel)
    if y != (images, maps, shape.H_out, shape.W_out) or k[1:] != (
        channels,
        kernel,
        kernel,
    ):
        raise ValueError(f"a convolution of {x} with weights {k} is not {y}")
    return shape
