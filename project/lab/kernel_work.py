"""What each launch of our kernels has to do: operations, and bytes of memory.

It follows from the registry's plans, so it needs no GPU. The operations are those of
the definition, 2 B M C K K H_out W_out for a convolution; the bytes are the least that
a launch moves, each array that it reads or writes counted once.
"""

from __future__ import annotations

from collections.abc import Iterator
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
IN_CHUNKS = ("unroll_gemm", "register_gemm", "implicit_gemm")
"""Whose launches are over some columns, numbered across images."""

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
    pixels = size * size
    moved = (1 + FLOAT_BYTES) * images * pixels
    yield Work(layers.plan_bytes(images, pixels), moved)
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
    for launch in part.launches(shape):
        if launch.kernel.endswith("_repair"):  # of a list that is usually empty
            yield Work(launch, 4)
            continue
        s = shape
        if part.stem in IN_CHUNKS:
            columns = launch.numbers[1]
            s = replace(shape, B=columns // (s.H_out * s.W_out))
        moved = _moved(part, s, launch)
        if {*launch.buffers} > {"y"}:
            yield _multiplying(part, s, launch, moved)
        else:  # it prepares memory or an operand
            yield Work(launch, moved)


def _moved(part: Variant, s: ConvShape, launch: Launch) -> int:
    """Return the bytes of the arrays that a launch reads or writes."""
    stored = STORED[part.storage]
    sizes = {
        "y": FLOAT_BYTES * s.B * s.floats_out,
        "x": stored * s.B * s.floats_in,
        "k": stored * s.weights,
        "matrix": FLOAT_BYTES * s.C * s.K * s.K * s.B * s.H_out * s.W_out,
        "list": 0,
    }
    constant = ("k",) if part.constants else ()
    moved = sum(sizes[name] for name in (*launch.buffers, *constant))
    if launch.kernel == "conv_atomics":  # additions read y too
        moved += sizes["y"]
    if launch.kernel.endswith("_pack"):  # it also writes the weights' points
        moved += FLOAT_BYTES * per_layer.lifted(s, part.parameters(s))
    return moved


def _multiplying(part: Variant, s: ConvShape, launch: Launch, moved: int) -> Work:
    """Describe a launch that multiplies: with what, and how often."""
    kind = arithmetic(part)
    unit = FP32 if kind == measurement.FMA else FP16
    if part.stem in TF32_UNITS:
        unit = TF32
    flops = measurement.flops(s)
    unit_flops = PRODUCTS[kind] * flops if PRODUCTS[kind] > 1 else 0
    if part.stem == "per_layer_strips":
        points = per_layer.strips(s) * per_layer.POINTS
        unit_flops = 2 * s.B * s.M * s.C * s.K * s.H_out * points
    return Work(
        *(launch, moved, flops),
        accuracy=part.accuracy,
        unit=unit,
        unit_flops=unit_flops,
    )


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
            shape = ConvShape(images, step.y[0], *step.x, kernel)
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
    match step.layer:
        case Tanh():
            launch = layers.plan_tanh(images, prod(step.x))
        case Pooling():
            launch = layers.plan_pooling(images, *step.x)
        case Dense(outputs=outputs):
            launch = layers.plan_dense(images, prod(step.x), outputs)
        case Softmax():
            launch = layers.plan_softmax(images, *step.x)
        case _:
            return
    flops, moved = of_layer(step, images)
    yield Work(launch, moved, flops)
