"""A network as a chain of layers, each with the names of its arrays of weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from errors import ProjectError
from shapes import ConvShape

Shape = tuple[int, ...]  # of one image: maps, rows, columns; or one number when flat


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution of stride 1 without padding or bias, K x K."""

    name: str
    weight: str
    maps: int
    kernel: int
    own: bool  # the course's operator `New`, ours to write, not the library's


@dataclass(frozen=True, slots=True)
class Tanh:
    """The hyperbolic tangent of every number."""

    name: str


@dataclass(frozen=True, slots=True)
class Pooling:
    """The largest of every 2 x 2 pixels; an odd last row or column is left out."""

    name: str


@dataclass(frozen=True, slots=True)
class Flatten:
    """Maps, rows and columns as one row of numbers."""

    name: str


@dataclass(frozen=True, slots=True)
class Dense:
    """Weighted sums of all numbers, with a bias."""

    name: str
    weight: str
    bias: str
    outputs: int


@dataclass(frozen=True, slots=True)
class Softmax:
    """Scores turned into probabilities; always the last layer, and only that."""

    name: str


Layer = Convolution | Tanh | Pooling | Flatten | Dense | Softmax
Layers = tuple[Layer, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A layer, and what one image is before it and after it."""

    layer: Layer
    x: Shape
    y: Shape


def steps(layers: Iterable[Layer], size: int) -> Iterator[Step]:
    """Follow one image of size x size pixels in one channel through the layers.

    Raises ProjectError where a layer cannot take what the one before it gives.
    """
    x: Shape = (1, size, size)
    for layer in layers:
        y = _after(layer, x)
        yield Step(layer, x, y)
        x = y


def _after(layer: Layer, x: Shape) -> Shape:
    match layer:
        case Convolution(maps=maps, kernel=kernel):
            _, rows, columns = _planes(layer, x)
            if kernel > min(rows, columns):
                raise ProjectError(
                    f"layer {layer.name}: {kernel} x {kernel} weights do not fit "
                    f"{rows} x {columns} pixels"
                )
            return maps, rows - kernel + 1, columns - kernel + 1
        case Pooling():
            maps, rows, columns = _planes(layer, x)
            if min(rows, columns) < 2:
                raise ProjectError(f"layer {layer.name}: no 2 x 2 pixels are left")
            return maps, rows // 2, columns // 2
        case Dense(outputs=outputs):
            return (outputs,)
        case Flatten():
            return (prod(x),)
        case _:
            return x


def _planes(layer: Layer, x: Shape) -> tuple[int, int, int]:
    if len(x) != 3:
        raise ProjectError(f"layer {layer.name}: what comes in is flat already")
    return x[0], x[1], x[2]


def array_shapes(layers: Iterable[Layer], size: int) -> dict[str, Shape]:
    """Name the arrays of weights with their shapes, in the order of the layers."""
    named: dict[str, Shape] = {}
    for step in steps(layers, size):
        match step.layer:
            case Convolution(weight=weight, maps=maps, kernel=kernel):
                named[weight] = (maps, step.x[0], kernel, kernel)
            case Dense(weight=weight, bias=bias, outputs=outputs):
                named[weight] = (outputs, prod(step.x))
                named[bias] = (outputs,)
    return named


def convolutions(layers: Iterable[Layer], images: int, size: int) -> list[ConvShape]:
    """Give the sizes of a network's convolutions, for so many square images."""
    return [
        ConvShape(images, step.y[0], *step.x, step.layer.kernel)
        for step in steps(layers, size)
        if isinstance(step.layer, Convolution)
    ]


def lenet(
    *maps_and_kernel: tuple[int, int], hidden: int, classes: int, own: bool
) -> Layers:
    """Chain the course's layers, with the names that MXNet gives them by itself.

    tanh and pooling follow the first convolution only.
    """
    kind = "new" if own else "convolution"
    chain: list[Layer] = []
    for n, (maps, kernel) in enumerate(maps_and_kernel):
        name = f"{kind}{n}"
        chain.append(Convolution(name, f"{name}_weight", maps, kernel, own))
        if n == 0:
            chain += [Tanh("activation0"), Pooling("pooling0")]
    chain += [Flatten("flatten0"), _dense(0, hidden), Tanh("activation1")]
    return (*chain, _dense(1, classes), Softmax("softmax"))


def _dense(n: int, outputs: int) -> Dense:
    name = f"fullyconnected{n}"
    return Dense(name, f"{name}_weight", f"{name}_bias", outputs)
