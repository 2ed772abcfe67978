"""The kinds of inputs on which a result is checked. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class ValueKind(IntEnum):
    """How values are drawn: ``Kind`` of kernels.cu."""

    NORMAL = 0
    CONSTANT = 1
    HEAVY = 2
    SPARSE = 3


@dataclass(frozen=True)
class Inputs:
    """A kind of inputs; images and maps are scaled by 2^e, |e - shift| <= spread.

    ``by_top`` compares with an image's largest value in place of the values themselves:
    for images whose own values differ in size by more than a float's precision.
    """

    name: str
    kind: ValueKind = ValueKind.NORMAL
    shift: int = 0
    spread: int = 0
    weights_spread: int = 0
    by_top: bool = False


PLAIN = Inputs("N(0, 1)")
WIDE = (
    Inputs("each image of another size, 1e-20 to 1e20", spread=66),
    Inputs("each image and each map of another size", spread=30, weights_spread=30),
    Inputs("constant images", ValueKind.CONSTANT),
    Inputs("constant images of very different size", ValueKind.CONSTANT, 0, 60),
    Inputs("denormals", shift=-130, spread=4),
    Inputs("values of very different size in an image", ValueKind.HEAVY, by_top=True),
    Inputs("mostly zeros, some images all zeros", ValueKind.SPARSE, by_top=True),
    Inputs("small values", shift=-40),
    Inputs("large values", shift=40),
)
WIDE_HALVES = (
    Inputs("each image of another size", spread=6),
    Inputs("constant images", ValueKind.CONSTANT),
    Inputs("mostly zeros, some images all zeros", ValueKind.SPARSE, by_top=True),
)
"""Halves hold 6e-8 to 65504 only."""


def wide(storage: str) -> tuple[Inputs, ...]:
    """Return the inputs, besides N(0, 1), that a result has to be right for."""
    return WIDE if storage == "float32" else WIDE_HALVES
