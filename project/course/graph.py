"""A network as a chain of layers, each with the names of its weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from course.errors import ProjectError
from course.shapes import ConvShape

Shape = tuple[int, ...]  # of one image: (maps, rows, columns), or (length,)


@dataclass(frozen=True, slots=True)
class Convolution:
    """A K x K convolution of stride 1 without padding or bias."""

    name: str
    weight: str
    maps: int
    kernel: int
    own: bool  # the course's operator `New`, our own, not the library's


@dataclass(frozen=True, slots=True)
class Tanh:
    """The hyperbolic tangent of every element."""

    name: str


@dataclass(frozen=True, slots=True)
class Pooling:
    """2 x 2 max pooling; an odd last row or column is dropped."""

    name: str


@dataclass(frozen=True, slots=True)
class Flatten:
    """Maps, rows and columns flattened to one row."""

    name: str


@dataclass(frozen=True, slots=True)
class Dense:
    """A fully connected layer with a bias."""

    name: str
    weight: str
    bias: str
    outputs: int


@dataclass(frozen=True, slots=True)
class Softmax:
    """Softmax over the classes; only allowed as the last layer."""

    name: str


Layer = Convolution | Tanh | Pooling | Flatten | Dense | Softmax
Layers = tuple[Layer, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A layer, and the shapes of one image before and after it."""

    layer: Layer
    x: Shape
    y: Shape


def steps(layers: Iterable[Layer], size: int) -> Iterator[Step]:
    """Yield each layer with its shapes for one image of 1 x size x size.

    Raises ProjectError where a layer does not fit the shape before it.
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
                    f"layer {layer.name}: {kernel} x {kernel} weights are larger than "
                    f"the {rows} x {columns} image"
                )
            return maps, rows - kernel + 1, columns - kernel + 1
        case Pooling():
            maps, rows, columns = _planes(layer, x)
            if min(rows, columns) < 2:
                raise ProjectError(
                    f"layer {layer.name}: cannot pool {rows} x {columns} pixels"
                )
            return maps, rows // 2, columns // 2
        case Dense(outputs=outputs):
            return (outputs,)
        case Flatten():
            return (prod(x),)
        case _:
            return x


def _planes(layer: Layer, x: Shape) -> tuple[int, int, int]:
    if len(x) != 3:
        raise ProjectError(f"layer {layer.name}: its input is already flat")
    return x[0], x[1], x[2]


def array_shapes(layers: Iterable[Layer], size: int) -> dict[str, Shape]:
    """Return the shapes of the weights by name, in the order of the layers."""
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
    """Return the shapes of a network's convolutions for a number of images."""
    return [
        ConvShape(images, step.y[0], *step.x, step.layer.kernel)
        for step in steps(layers, size)
        if isinstance(step.layer, Convolution)
    ]


def lenet(
    *maps_and_kernel: tuple[int, int], hidden: int, classes: int, own: bool
) -> Layers:
    """Return the course's chain of layers, with MXNet's default names.

    Only the first convolution is followed by tanh and pooling.
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
