"""The sizes of a convolution, for milestones and plans."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Size = Annotated[
    int, Meta(ge=1, le=1_000_000, description="a whole number from 1 to 1000000")
]


class Shape(Struct, frozen=True, forbid_unknown_fields=True):
    """B images of C channels and H x W pixels; M maps of K x K weights, stride 1.

    x is B x C x H x W, k is M x C x K x K, y is B x M x (H - K + 1) x (W - K + 1).
    """

    B: Size
    M: Size
    C: Size
    H: Size
    W: Size
    K: Size

    def __str__(self) -> str:
        return f"B{self.B} M{self.M} C{self.C} H{self.H} W{self.W} K{self.K}"


class LayerShape(Struct, frozen=True):
    """A convolution of an edition's network, by its name."""

    name: str
    shape: Shape
