"""The forward pass in fused kernels: shapes, launches and packed weights.

There are four steps: the first convolution with pooling and tanh, the second
convolution, the first dense layer on tensor cores, and the rest. Folded, there are
three: no nonlinearity is between the second convolution and the dense layer, so their
product is one dense layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
from course import graph
from course.editions import CLASSES, EDITIONS
from course.errors import UsageError
from course.graph import Convolution, Dense, Flatten, Layers, Pooling, Softmax, Tanh
from course.shapes import ConvShape
from course.variants import H200, Launch, Params, tiles
from gpu.compiler import Unit, defines

FIRST: Params = {"WARPS_PER_GROUP": 4, "AT_ONCE": 6}
DENSE: Params = {"STAGES": 5, "OUTPUTS": 160, "DEPTH": 32, "CHAIN": 4}
LAST: Params = {"PITCH": DENSE["OUTPUTS"], "CLASSES": CLASSES}

MAPS = 4  # maps that a warp of the first kernel computes
MOST_FIRST = 512  # its threads on a multiprocessor, limited by registers
TABLES = 6 << 10  # bytes of its index tables and of CUDA's reserved shared memory
ROWS = 128  # images in a tile of the dense kernel
DENSE_THREADS = 384
LAST_THREADS, LAST_BLOCKS = 256, 4  # threads of a block; blocks of a multiprocessor
ROOM = 14  # operands are scaled to 2^14; halves hold up to 2^16
MOST_EXPONENT = 60

ARCHITECTURE = "sm_90"  # for wgmma and bulk copies
FILES = ("fused_first", "dense_split", "fused_last")
ORDER = (Convolution, Tanh, Pooling, Convolution, Flatten, Dense, Tanh, Dense, Softmax)


@dataclass(frozen=True, slots=True)
class Chain:
    """The shapes of a network that the fused pass supports, and its arrays' names."""

    first: ConvShape
    second: ConvShape
    hidden: int
    arrays: tuple[str, ...]  # two convolutions; two dense layers, each with a bias

    @property
    def pooled(self) -> int:
        """Return the elements of an image after the first kernel."""
        return self.second.floats_in

    @property
    def flat(self) -> int:
        """Return the elements of an image before the dense layer."""
        return self.second.floats_out


def chain(layers: Layers, images: int, size: int) -> Chain:
    """Return the shapes of a network; raise UsageError if it is not supported."""
    if tuple(map(type, layers)) != ORDER:
        raise UsageError(
            "the fused forward pass supports only networks of two convolutions, tanh "
            "and pooling after the first, and two dense layers, such as 2019fa's"
        )
    first, second = graph.convolutions(layers, images, size)
    shapes = graph.array_shapes(layers, size)
    hidden = next(layer.outputs for layer in layers if isinstance(layer, Dense))
    served = Chain(first, second, hidden, tuple(shapes))
    if why := refusal(served):
        raise UsageError(f"the fused forward pass does not support {first}: {why}")
    return served


def refusal(c: Chain) -> str | None:
    """Return why shapes are not supported; None if they are."""
    s = c.first
    if s.K % 2 == 0 or s.W % 2 or s.H * s.W % 4:
        return "it needs an odd K and an even image width"
    if c.pooled % 4 or c.flat % 4:
        return "an image must have a multiple of four elements after every layer"
    if c.hidden > DENSE["OUTPUTS"]:
        return f"{c.hidden} hidden outputs exceed {DENSE['OUTPUTS']}"
    return None


def units(c: Chain) -> tuple[Unit, Unit, Unit]:
    """Return the files of the first, the dense, and the last kernel."""
    sizes = {f"SHAPE_{n}": getattr(c.first, n) for n in "HWMK"}
    return (
        Unit(
            "network/fused_first",
            defines({**FIRST, "BLOCKS": first_blocks(c), **sizes}),
        ),
        Unit("network/dense_split", defines(DENSE), own=True),
        Unit("network/fused_last", defines({**LAST, "HIDDEN": c.hidden})),
    )


def units_of_editions() -> Iterator[Unit]:
    """Yield the files for all editions that are supported."""
    served = (
        chain(model.layers, 1, edition.size)
        for edition in EDITIONS.values()
        for model in edition.models
        if tuple(map(type, model.layers)) == ORDER
    )
    yield from dict.fromkeys(unit for c in served for unit in units(c))


def first_shared(c: Chain) -> int:
    """Return the first kernel's bytes of shared memory, for two images at a time."""
    pixels = tiles(c.first.H * c.first.W + 16, 16) * 16
    return 2 * (2 * pixels + 4 * c.pooled)


def first_blocks(c: Chain) -> int:
    """Return the first kernel's blocks per multiprocessor, one or two."""
    room = H200.shared_bytes // (first_shared(c) + TABLES)
    return max(1, min(2, room, MOST_FIRST // first_threads(c)))


def first_threads(c: Chain) -> int:
    """Return the threads of a block of the first kernel."""
    return 32 * tiles(c.first.M, MAPS) * FIRST["WARPS_PER_GROUP"]


def plan_first(c: Chain, multiprocessors: int) -> Launch:
    """Launch persistent blocks, each for one image after another."""
    return Launch(
        "fused_first",
        grid=(min(c.first.B, first_blocks(c) * multiprocessors), 1, 1),
        block=(first_threads(c), 1, 1),
        buffers=("pooled", "images", "first"),
        numbers=(c.first.B,),
        shared_bytes=first_shared(c),
    )


@dataclass(frozen=True, slots=True)
class Pieces:
    """How the dense layer is split: into tiles, and these along their inputs."""

    tiles: int
    chunks: int  # per tile
    each: int  # chunks per block

    @property
    def parts(self) -> int:
        """Return the most blocks that share a tile."""
        return tiles(self.chunks - 1, self.each) + 1


def pieces(images: int, inputs: int, blocks: int) -> Pieces:
    """Split the work evenly among the blocks, one for each multiprocessor."""
    count, chunks = tiles(images, ROWS), tiles(inputs, DENSE["DEPTH"])
    return Pieces(count, chunks, tiles(count * chunks, blocks))


def plan_dense(
    images: int, inputs: int, multiprocessors: int, x: str, exponents: tuple[int, int]
) -> Launch:
    """Launch one block per multiprocessor; ``exponents`` scale x and the weights."""
    p = pieces(images, inputs, multiprocessors)
    rows = 4 * (ROWS + DENSE["OUTPUTS"])  # bytes: a float, or two halves
    return Launch(
        "dense_split",
        grid=(multiprocessors, 1, 1),
        block=(DENSE_THREADS, 1, 1),
        buffers=("parts", x, "dense"),
        numbers=(images, inputs, p.chunks, p.each, exponents[0], -sum(exponents)),
        shared_bytes=DENSE["STAGES"] * DENSE["DEPTH"] * rows,
    )


def plan_last(c: Chain, inputs: int, multiprocessors: int) -> Launch:
    """Launch persistent warps, each for one image after another."""
    p = pieces(c.first.B, inputs, multiprocessors)
    most = tiles(c.first.B, LAST_THREADS // 32)
    return Launch(
        "fused_last",
        grid=(min(most, LAST_BLOCKS * multiprocessors), 1, 1),
        block=(LAST_THREADS, 1, 1),
        buffers=("y", "parts", "dense_bias", "last", "last_bias"),
        numbers=(c.first.B, ROWS, p.chunks, p.each),
    )


def exponent(largest: float) -> int:
    """Return the exponent of the power of two that scales a bound to about 2^ROOM."""
    above = int(np.frexp(np.float64(largest))[1]) if largest else ROOM
    return max(-MOST_EXPONENT, min(MOST_EXPONENT, ROOM - above))


def bound(weights: np.ndarray) -> float:
    """Return the largest possible output of a convolution of inputs from -1 to 1."""
    return float(np.abs(weights).sum(axis=(1, 2, 3), dtype=np.float64).max())


def packed(weights: np.ndarray, power: int) -> np.ndarray:
    """Split a dense layer's weights into halves, in the layout that the kernel reads.

    Each chunk of inputs has the high halves, then the low ones; both consist, for every
    16 inputs, of core matrices of 8 outputs x 8 inputs. A thread loads four neighbours
    of x at once, which are in two places of wgmma's operand; therefore 16 inputs have
    the order 0 1 4 5 8 9 12 13, then the others.
    """
    outputs, inputs = weights.shape
    depth, wide = DENSE["DEPTH"], DENSE["OUTPUTS"]
    chunks = tiles(inputs, depth)
    scaled = np.zeros((wide, chunks * depth), np.float32)
    scaled[:outputs, :inputs] = np.ldexp(weights.astype(np.float32), power)
    high = scaled.astype(np.float16)
    low = (scaled - high).astype(np.float16)
    halves = np.stack([high, low])
    axes = halves.reshape(2, wide // 8, 8, chunks, depth // 16, 4, 2, 2)
    return np.ascontiguousarray(axes.transpose(3, 0, 4, 6, 1, 2, 5, 7)).reshape(-1)


def folded(dense: np.ndarray, convolution: np.ndarray, c: Chain) -> np.ndarray:
    """Return the product of a dense layer and the convolution before it, as fp32."""
    s = c.second
    rows = dense.astype(np.float64).reshape(-1, s.M, s.H_out, s.W_out)
    k = convolution.astype(np.float64)
    whole = np.zeros((len(rows), s.C, s.H, s.W))
    for u in range(s.K):
        for v in range(s.K):
            part = np.tensordot(rows, k[:, :, u, v], axes=(1, 0))
            whole[:, :, u : u + s.H_out, v : v + s.W_out] += part.transpose(0, 3, 1, 2)
    return whole.reshape(len(rows), prod((s.C, s.H, s.W))).astype(np.float32)
