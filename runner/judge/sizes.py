"""The sizes of a convolution, in elements and bytes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runner.judge import layout

REFERENCES = (3, 5, 7)
"""The sizes of weights for which kernels.cu has a reference."""

REFERENCE_PART = 4
"""The reference computes one of so many images."""


@dataclass(frozen=True)
class Layer:
    """A convolution of a plan: its sizes in elements and bytes."""

    name: str
    shape: tuple[int, int, int, int, int, int]  # B, M, C, H, W, K
    halves: bool
    scratch: Mapping[str, int]

    @property
    def outputs(self) -> tuple[int, int, int, int]:
        """The shape of y."""
        images, maps, _, rows, columns, taps = self.shape
        return images, maps, rows - taps + 1, columns - taps + 1

    @property
    def counts(self) -> tuple[int, int, int]:
        """The elements of y, x and k."""
        images, maps, channels, rows, columns, taps = self.shape
        _, _, rows_out, columns_out = self.outputs
        return (
            images * maps * rows_out * columns_out,
            images * channels * rows * columns,
            maps * channels * taps * taps,
        )

    @property
    def stored(self) -> int:
        """The bytes of an element of x and k."""
        return 2 if self.halves else 4

    @property
    def inputs(self) -> dict[str, int]:
        """The bytes of x and k."""
        _, x, k = self.counts
        return {"x": self.stored * x, "k": self.stored * k}

    @property
    def products(self) -> int:
        """The multiplications of the plain sum."""
        y, _, _ = self.counts
        return y * self.shape[2] * self.shape[5] ** 2

    def outside(self) -> dict[str, int]:
        """Return the bytes of y and of all scratch arrays together."""
        y, _, _ = self.counts
        scratch = sum(map(layout.padded, self.scratch.values()))
        return {"y": 4 * y, **({"scratch": scratch} if scratch else {})}


def reference_of(layer: Layer) -> Layer:
    """Return what the reference computes beside a layer: a part of its images."""
    images, maps, channels, rows, columns, taps = layer.shape
    taps = min(REFERENCES, key=lambda known: abs(known - taps))
    sizes = max(rows, taps), max(columns, taps), taps
    shape = max(1, images // REFERENCE_PART), maps, channels, *sizes
    return Layer(layer.name, shape, halves=False, scratch={})
