"""The fastest fp32 convolutions without Hopper's instructions.

``mma_split.cu`` is for several input channels, ``mma_one.cu`` for one. Their blocks are
persistent: as many run as fit the multiprocessors. The sizes are chosen here, by models
of the times of an H200.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from itertools import product

from course.variants import LADDER_TARGETS, Launch, OnGpu, Params, Variant, tiles

RESERVED = 1024  # bytes of a multiprocessor's shared memory for each block
MOST_ITEMS = 2**30  # an int counts them


def persistent(
    kernel: str, s: OnGpu, p: Params, items: int, parts: int, shared: int
) -> tuple[Launch, ...]:
    """Launch the blocks that run at a time, equally many for each part of the maps."""
    call = (32 * p["WARPS"], 1, 1), ("y", "x", "k"), (s.B,), shared
    grid = (items * parts, 1, 1)
    return (Launch(kernel, grid, *call, resident=p["BLOCKS"], together=parts),)


# Several channels. A band is a number of pixels of an image, 16 TILES for each warp.

MOST_COLUMNS = 4  # groups of 8 maps of a block
MOST_STEPS = 32  # of 16 products, summed by the tensor cores; other sums add more
REGISTERS = 1 << 16  # of a multiprocessor; each of its 4 schedulers has a quarter
MOST_OWN = 96  # pixels that a thread splits at once


def groups(s: OnGpu) -> tuple[int, int]:
    """Return the groups of 8 channels, and 1 if there is a rest, of up to 4."""
    octets = (s.C + 3) // 8
    return octets, int(8 * octets < s.C)


def steps(s: OnGpu) -> int:
    """Return the steps of two units: 8 channels of a tap, or 4 of two columns."""
    octets, rest = groups(s)
    return tiles(octets * s.K**2 + rest * s.K * tiles(s.K, 2), 2)


def columns(s: OnGpu) -> int:
    """Divide the maps evenly among the fewest blocks; return groups of 8 maps."""
    return tiles(tiles(s.M, 8), tiles(s.M, 8 * MOST_COLUMNS))


def band(p: Params) -> int:
    """Return the output pixels of a band."""
    return 16 * p["TILES"] * p["WARPS"]


def bands(s: OnGpu, p: Params) -> int:
    """Return the bands of an image."""
    return tiles(s.H_out * s.W_out, band(p))


def deep(s: OnGpu, p: Params) -> int:
    """Return the input rows of a band, which may begin anywhere in a row."""
    return min(s.H_out, (band(p) + s.W_out - 2) // s.W_out + 1) + s.K - 1


def split_bytes(s: OnGpu, p: Params) -> int:
    """Return the size of struct Shared of ``mma_split.cu``."""
    weights = 512 * steps(s) * p["COLUMNS"]
    pixels = 32 * sum(groups(s)) * deep(s, p) * (s.W + (1 - s.K) % 8)
    raw = 4 * s.C * deep(s, p) * s.W
    others = 8 * (steps(s) + 1) + 32 * p["COLUMNS"] + 8 * p["WARPS"]
    return 16 * tiles(weights + pixels + raw + others, 16)


def registers(p: Params) -> int:
    """Return the registers of a thread, if all blocks run at a time."""
    warps = 4 * tiles(p["WARPS"] * p["BLOCKS"], 4)
    return min(255, REGISTERS // (32 * warps) // 8 * 8)


def settings(s: OnGpu) -> Iterator[Params]:
    """Yield the sizes for which registers and shared memory suffice."""
    each = columns(s)
    sums = 12 if steps(s) > MOST_STEPS else 8
    for warps, most, blocks in product(range(4, 17), range(2, 9), range(1, 5)):
        p = {"WARPS": warps, "TILES": most, "COLUMNS": each, "BLOCKS": blocks}
        needed = sums * most * each + 8 * most + 4 * each + 28
        own = tiles(deep(s, p) * s.W, 32 * warps) * s.C
        shared = split_bytes(s, p)
        if (
            needed <= registers(p)
            and own <= min(MOST_OWN, registers(p) - 32)
            and blocks * (shared + RESERVED) <= s.gpu.shared_bytes + RESERVED
        ):
            yield p


def cost(s: OnGpu, p: Params) -> float:
    """Rate sizes by what they multiply and split, and by the warps that do it."""
    multiplied = band(p) * steps(s) * p["COLUMNS"] * (1 + 0.5 / p["TILES"])
    split = deep(s, p) * s.W * s.C
    warps = p["WARPS"] * p["BLOCKS"]
    uneven = 4 * tiles(warps, 4) / warps
    return bands(s, p) * (multiplied + split) * (1 + 1.5 / warps) * uneven


@cache
def tune_split(s: OnGpu) -> Params:
    """Choose the fastest sizes by the model; the smallest if none suffice."""
    smallest = {"WARPS": 4, "TILES": 2, "COLUMNS": columns(s), "BLOCKS": 1}
    return min(settings(s), key=partial(cost, s), default=smallest)


def plan_split(s: OnGpu, p: Params) -> tuple[Launch, ...]:
    """Launch blocks that take band after band."""
    parts = tiles(s.M, 8 * p["COLUMNS"])
    items = s.B * bands(s, p)
    return persistent("conv_mma_split", s, p, items, parts, split_bytes(s, p))


def refuses_split(s: OnGpu) -> str | None:
    """Return why it does not support a shape; None if it does."""
    if s.C == 1:
        return "it multiplies 4 channels at a time, so one would leave most idle"
    if s.B * s.H_out * s.W_out > MOST_ITEMS:
        return f"{s.B} images have too many pixels"
    if not any(settings(s)):
        return f"a band exceeds {s.gpu.shared_bytes} bytes of shared memory"
    return None


# One channel. A strip is a number of rows of an image.

MAPS = 4  # of a group
WARPS = 4
STRIP_ROOM = 53 << 10  # so that 3 blocks fit the multiprocessors of an A100
WEIGHTS_ROOM = 42 << 10


def depth(s: OnGpu) -> int:
    """Return a product's steps of depth 16: rows of the window, and the rest."""
    beyond = max(0, tiles(s.K + 3, 2) - 4)
    return tiles(s.K + beyond * tiles(s.K, 4), 2)


def group_bytes(s: OnGpu) -> int:
    """Return the bytes of a group's weights as operands."""
    return 1024 * depth(s) + 4 * MAPS


def strip(s: OnGpu, p: Params) -> int:
    """Return the output rows of a strip."""
    return p["SHAPE_H"] - s.K + 1


def strips(s: OnGpu, p: Params) -> int:
    """Return the strips of an image."""
    return tiles(s.H_out, strip(s, p))


def one_bytes(s: OnGpu, p: Params) -> int:
    """Return the size of struct Shared of ``mma_one.cu``."""
    planes = 4 * MAPS * strip(s, p) * s.W_out
    weights = 4 * MAPS * p["GROUPS_EACH"] * s.K**2
    beyond = 4 * tiles(s.K, 4) - s.K if s.K > 5 else 0
    read = tiles(strip(s, p), p["ROWS"]) * p["ROWS"] + s.K - 1 + beyond
    pixels = 16 * tiles((read * tiles(s.W, 2) + 8) * 8, 16)
    others = p["GROUPS_EACH"] * group_bytes(s) + 8 * p["WARPS"]
    return 16 * tiles(max(planes, weights), 16) + pixels + 16 * tiles(others, 16)


def strip_settings(s: OnGpu) -> Iterator[Params]:
    """Yield the strips that fit in shared memory, and the rows that a warp computes."""
    all_groups = tiles(s.M, MAPS)
    parts = tiles(all_groups, max(1, WEIGHTS_ROOM // group_bytes(s)))
    most = 6 if s.K <= 5 else 4 if s.K <= 7 else 2
    equal = {tiles(s.H_out, n) for n in range(1, s.H_out + 1)}
    for high, rows in product(equal, range(1, most + 1)):
        p = {
            "SHAPE_H": high + s.K - 1,
            "IMAGE_H": s.H,
            "ROWS": rows,
            "WARPS": WARPS,
            "BLOCKS": 2 if s.K > 7 else 3 if s.K > 5 and rows > 2 else 4,
            "GROUPS_EACH": tiles(all_groups, parts),
        }
        shared = one_bytes(s, p)
        if shared <= STRIP_ROOM:
            fitting = (s.gpu.shared_bytes + RESERVED) // (shared + RESERVED)
            yield {**p, "BLOCKS": min(p["BLOCKS"], fitting)}


def strip_cost(s: OnGpu, p: Params) -> float:
    """Rate a strip by the rounds of its warps, its loads and its stores."""
    high = strip(s, p)
    units = tiles(s.W_out, 4) * tiles(high, p["ROWS"])
    spilled = 12 * (p["ROWS"] > 4)
    rounds = tiles(tiles(units, 8), WARPS) * (12 * p["ROWS"] + 20 + spilled)
    at_once = 4 if high * s.W_out % 4 == 0 == s.H_out * s.W_out % 4 else 2
    stored = high * s.W_out / 8 / at_once
    loaded = p["SHAPE_H"] * s.W / 16
    return strips(s, p) * (p["GROUPS_EACH"] * (rounds + stored + 40) + loaded + 40)


@cache
def tune_one(s: OnGpu) -> Params:
    """Choose the fastest strip by the model; a row if none fits."""
    smallest = {"SHAPE_H": s.K, "IMAGE_H": s.H, "ROWS": 1, "WARPS": WARPS, "BLOCKS": 1}
    smallest["GROUPS_EACH"] = 1
    return min(strip_settings(s), key=partial(strip_cost, s), default=smallest)


def plan_one(s: OnGpu, p: Params) -> tuple[Launch, ...]:
    """Launch blocks that take strip after strip."""
    parts = tiles(tiles(s.M, MAPS), p["GROUPS_EACH"])
    items = s.B * strips(s, p)
    return persistent("conv_mma_one", s, p, items, parts, one_bytes(s, p))


def refuses_one(s: OnGpu) -> str | None:
    """Return why it does not support a shape; None if it does."""
    if s.C != 1:
        return f"it supports only one input channel, not {s.C}"
    if s.K > 11:
        return f"it supports weights of up to 11 x 11, not {s.K} x {s.K}"
    if s.B * s.H_out > MOST_ITEMS:
        return f"{s.B} images have too many rows"
    if not any(strip_settings(s)):
        return f"a row does not fit in {STRIP_ROOM} bytes of shared memory"
    return None


SPLIT = Variant(
    "mma_split",
    "persistent blocks, operands in two halves, without Hopper's instructions",
    plan_split,
    after="tensor_split",
    tune=tune_split,
    fixed=("M", "C", "H", "W", "K"),
    refuses=refuses_split,
    targets=LADDER_TARGETS[1:],
)
ONE = Variant(
    "mma_one",
    "one channel as a Toeplitz product, without Hopper's instructions",
    plan_one,
    after="tensor_split",
    tune=tune_one,
    fixed=("M", "W", "K"),
    refuses=refuses_one,
    targets=LADDER_TARGETS[1:],
)
