"""What each launch of our kernels has to do: operations, and bytes of memory.

It follows from the registry's plans, so it needs no GPU. The operations are those of
the definition, 2 B M C K K H_out W_out for a convolution; the bytes are the least that
a launch moves, each array that it reads or writes counted once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from backends.layerwise import pooled_first
from course import graph
from course.graph import Convolution, Dense, Flatten, Pooling, Softmax, Tanh
from course.network import Network, OwnKernels
from course.shapes import ConvShape
from course.variants import FP32, TF32, Launch, Variant
from lab import measurement
from lab.measurement import FLOAT_BYTES, PRODUCTS, STORED
from lab.trials import arithmetic
from plans import layers, per_layer

HALF_BYTES = 2
FP16 = "fp16"
TF32_UNITS = ("tensor_tf32", "tensor_split")  # the others on tensor cores use fp16
SOFTMAX_FLOPS = 5  # a class: a comparison, difference, exponential, sum and quotient


@dataclass(frozen=True, slots=True)
class Work:
    """The launches of one kernel in one configuration, and what each has to do."""

    launch: Launch
    bytes: int
    flops: int = 0
    layer: str = ""
    variant: str = ""
    accuracy: str = FP32
    unit: str = FP32
    unit_flops: int = 0  # if they are not the same as ``flops``
    count: int = 1


def of_network(network: Network, images: int, own: OwnKernels) -> list[Work]:
    """Return what our kernels do for one inference, each configuration once."""
    found: dict[Work, int] = {}
    for first in range(0, images, own.batch):
        piece = min(own.batch, images - first)
        for work in _of_piece(network, piece, own):
            # Chunks of one size differ in their first image, which does not count.
            same = replace(work, launch=replace(work.launch, numbers=()))
            found[same] = found.get(same, 0) + 1
    return [replace(work, count=count) for work, count in found.items()]


def _of_piece(network: Network, images: int, own: OwnKernels) -> Iterator[Work]:
    size = network.edition.size
    chain = pooled_first(network.model.layers)
    yield from _start(images, size * size)
    shapes = iter(graph.convolutions(chain, images, size))
    for step in graph.steps(chain, size):
        name = step.layer.name
        if isinstance(step.layer, Convolution):
            shape = next(shapes)
            if own.variant:
                part = own.variant.serve(shape, own.gpu)
                if part.storage == "float16":
                    for work in _to_halves(images, shape):
                        yield replace(work, variant=own.variant.name)
                for work in of_convolution(part, shape):
                    yield replace(work, layer=name, variant=own.variant.name)
        else:
            yield from (replace(w, layer=name) for w in _of_other(step, images))


def of_convolution(part: Variant, shape: ConvShape) -> Iterator[Work]:
    """Yield what each launch of one convolution does, in their order."""
    does = _OTHERS.get(part.stem, _whole)
    for launch in part.launches(shape):
        yield does(part, shape, launch)


def _unit(part: Variant) -> str:
    """Return the arithmetic that a convolution's products are made of."""
    if part.stem in TF32_UNITS:
        return TF32
    return FP32 if arithmetic(part) == measurement.FMA else FP16


def _multiplying(
    part: Variant, launch: Launch, flops: int, moved: int, unit_flops: int = 0
) -> Work:
    products = PRODUCTS[arithmetic(part)]
    return Work(
        launch,
        moved,
        flops,
        accuracy=part.accuracy,
        unit=_unit(part),
        unit_flops=unit_flops or (products * flops if products > 1 else 0),
    )


def _whole(part: Variant, s: ConvShape, launch: Launch) -> Work:
    """Describe a launch that computes all of a convolution, or what it left out."""
    if launch.kernel.endswith("_repair"):  # of a list that is usually empty
        return Work(launch, 4)
    moved = measurement.moved_bytes(s, STORED[part.storage])
    return _multiplying(part, launch, measurement.flops(s), moved)


def _in_chunks(part: Variant, s: ConvShape, launch: Launch) -> Work:
    """Describe a launch over some columns, numbered across images."""
    window, pixels = s.C * s.K * s.K, s.H_out * s.W_out
    columns = launch.numbers[1]
    matrix = FLOAT_BYTES * window * columns
    images = replace(s, B=columns // pixels)
    if launch.kernel.endswith("_unroll"):
        return Work(launch, FLOAT_BYTES * images.B * s.floats_in + matrix)
    x = matrix if "matrix" in launch.buffers else FLOAT_BYTES * images.B * s.floats_in
    moved = x + FLOAT_BYTES * (s.weights + s.M * columns)
    return _multiplying(part, launch, measurement.flops(images), moved)


def _atomics(part: Variant, s: ConvShape, launch: Launch) -> Work:
    """Describe the zeroing of y, or the additions, which read and write it."""
    y = FLOAT_BYTES * s.B * s.floats_out
    if launch.kernel.endswith("_zero"):
        return Work(launch, y)
    moved = measurement.moved_bytes(s) + y
    return _multiplying(part, launch, measurement.flops(s), moved)


def _strips(part: Variant, s: ConvShape, launch: Launch) -> Work:
    """Describe the transformation of the weights, or the products of points."""
    p = part.parameters(s)
    if launch.kernel.endswith("_pack"):
        maps = 4 * p["GROUPS"] * -(-s.M // (4 * p["GROUPS"]))
        lifted = s.C * maps * s.K * per_layer.POINTS
        return Work(launch, FLOAT_BYTES * (s.weights + lifted))
    points = per_layer.strips(s) * per_layer.POINTS
    products = 2 * s.B * s.M * s.C * s.K * s.H_out * points
    moved = measurement.moved_bytes(s)
    return _multiplying(part, launch, measurement.flops(s), moved, products)


_OTHERS: dict[str, Callable[[Variant, ConvShape, Launch], Work]] = {
    "unroll_gemm": _in_chunks,
    "register_gemm": _in_chunks,
    "implicit_gemm": _in_chunks,
    "atomics": _atomics,
    "per_layer_strips": _strips,
}
"""By file; every launch of the others computes a whole convolution."""


def _start(images: int, pixels: int) -> Iterator[Work]:
    moved = (1 + FLOAT_BYTES) * images * pixels
    yield Work(layers.plan_bytes(images, pixels), moved)


def _to_halves(images: int, s: ConvShape) -> Iterator[Work]:
    """Yield the copies in half precision of a convolution's images and weights."""
    weights = s.weights // s.M
    for count, length in ((images, s.floats_in), (s.M, weights)):
        moved = (FLOAT_BYTES + HALF_BYTES) * count * length
        yield Work(layers.plan_halves(count, length), moved)


def of_layer(step: graph.Step, images: int) -> tuple[int, int]:
    """Return the operations of a layer, and the bytes that it moves."""
    x, y = images * prod(step.x), images * prod(step.y)
    match step.layer:
        case Convolution(kernel=kernel):
            shape = ConvShape(images, step.y[0], *_planes(step.x), kernel)
            return measurement.flops(shape), measurement.moved_bytes(shape)
        case Tanh():
            return x, 2 * FLOAT_BYTES * x
        case Pooling():
            # Of an odd last row or column nothing is read.
            return 3 * y, FLOAT_BYTES * (4 * y + y)
        case Dense(outputs=outputs):
            weights = outputs * prod(step.x)
            return 2 * images * weights + y, FLOAT_BYTES * (x + y + weights + outputs)
        case Softmax():
            return SOFTMAX_FLOPS * x, 2 * FLOAT_BYTES * x
        case Flatten():
            return 0, 0


def _of_other(step: graph.Step, images: int) -> Iterator[Work]:
    flops, moved = of_layer(step, images)
    match step.layer:
        case Tanh():
            yield Work(layers.plan_tanh(images, prod(step.x)), moved, flops)
        case Pooling():
            planes = _planes(step.x)
            yield Work(layers.plan_pooling(images, *planes), moved, flops)
        case Dense(outputs=outputs):
            launch = layers.plan_dense(images, prod(step.x), outputs)
            yield Work(launch, moved, flops)
        case Softmax():
            yield Work(layers.plan_softmax(images, *step.x), moved, flops)


def _planes(x: Sequence[int]) -> tuple[int, int, int]:
    maps, rows, columns = x
    return maps, rows, columns
