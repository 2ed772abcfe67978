"""The variant per_layer: kernels without tensor cores, tuned for each layer's shape.

``per_layer_strips.cu`` computes several channels with fewer multiplications (the
Winograd method in one dimension); ``per_layer_planes.cu`` computes one channel,
and whatever the former does not support.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from course.shapes import ConvShape
from course.variants import (
    MOST_CONSTANT,
    MOST_THREADS,
    SHARED,
    Launch,
    Params,
    Variant,
    first_of,
    tiles,
)

RESIDENT = 8  # blocks for each multiprocessor, to balance the load
REGISTERS = 65_536  # of a multiprocessor
MOST_REGISTERS = 168  # of a thread, so that twelve warps fit on a multiprocessor
POINTS = 8  # evaluation points, as many as the pixels of a strip
UNITS = 4  # strips per block
MOST_ROWS = 29  # of four maps, that fit in a thread's registers
MOST_GROUPS = 6  # warps per block, with four maps each
MOST_SUM = 84  # products per point; the error grows with the root: 9e-7 there
PACKING = 256  # threads of a block that transforms weights
RESERVED = 1 << 10  # bytes of shared memory that CUDA reserves per block
HALF = 112 << 10  # bytes, so that two blocks fit on a large GPU


def padded(floats: int) -> int:
    """Round a number of floats up to whole 16-byte accesses."""
    return 4 * tiles(floats, 4)


def tune_strips(room: int, s: ConvShape) -> Params:
    """Divide rows and maps evenly; choose the most channels per step that fit."""
    rows = tiles(s.H_out, tiles(s.H_out, MOST_ROWS))
    all_groups = tiles(s.M, 4)
    groups = tiles(all_groups, tiles(all_groups, MOST_GROUPS))
    registers = min(MOST_REGISTERS, 8 * tiles(4 * (rows + s.K) + 36, 8))
    blocks = max(1, min(8, REGISTERS // (32 * groups * registers)))
    params = {"ROWS": rows, "GROUPS": groups, "CHANNELS": 1, "BLOCKS": blocks}
    room = min(room, SHARED["sm_90"] // blocks - RESERVED)
    for channels in (4, 3, 2):
        more = {**params, "CHANNELS": channels}
        if s.C % channels == 0 and channels < s.C and strips_shared(s, more) <= room:
            return more
    return params


def strips(s: ConvShape) -> int:
    """Return the strips of a row, each with POINTS - K + 1 output pixels."""
    return tiles(s.W_out, POINTS - s.K + 1)


def strips_shared(s: ConvShape, p: Params) -> int:
    """Return the bytes of two steps of pixels and points, and each warp's transpose."""
    height, across = p["ROWS"] + s.K - 1, strips(s)
    partly = across % UNITS != 0 and UNITS % across != 0
    images = 1 + (UNITS - 1) // across + partly
    raw = padded(images * p["CHANNELS"] * height * s.W + POINTS)
    column = 4 * (tiles(height, 4) | 1)
    lifted = UNITS * POINTS * p["CHANNELS"] * column
    line = UNITS * (POINTS - s.K + 1) + 4
    turn = 32 * 20 + 32 + 4 * (4 * line + 8)
    return 4 * (2 * raw + 2 * lifted + p["GROUPS"] * turn)


def lifted(s: ConvShape, p: Params) -> int:
    """Return the points of the weights of whole blocks of maps."""
    maps = 4 * p["GROUPS"] * tiles(s.M, 4 * p["GROUPS"])
    return s.C * maps * s.K * POINTS


def plan_strips(s: ConvShape, p: Params) -> tuple[Launch, ...]:
    """Launch the weights' transformation, then persistent blocks of four strips."""
    across = tiles(s.B * strips(s), UNITS)
    down = tiles(s.H_out, p["ROWS"]) * tiles(s.M, 4 * p["GROUPS"])
    name = "conv_per_layer_strips"
    pack = ((tiles(lifted(s, p), PACKING), 1, 1), (PACKING, 1, 1), ("k",))
    block = (32 * p["GROUPS"], 1, 1)
    call = (across, down, 1), block, ("y", "x", "k"), (s.B,), strips_shared(s, p)
    return (
        Launch(f"{name}_pack", *pack),
        Launch(name, *call, resident=RESIDENT),
    )


def no_strips(s: ConvShape) -> str | None:
    """Return why strips are not faster or not accurate enough; None if they are."""
    if not 3 <= s.K <= POINTS - 1:
        return f"strips of {POINTS} pixels need K from 3 to 7, not {s.K}"
    if s.C == 1:
        return "strips are not faster for one channel"
    if s.C * s.K > MOST_SUM:
        return f"strips are not accurate enough for {s.C * s.K} rows of weights"
    if s.B * strips(s) * UNITS > 2**31 - 1:
        return f"{s.B} images have too many strips"
    return None


def planes_shared(s: ConvShape, p: Params) -> int:
    """Return the bytes of two input tiles and of the output rows."""
    tile = padded((p["ROWS"] + s.K - 1) * s.W + p["WIDE"] + s.K)
    return 4 * (2 * tile + p["MAPS"] * p["ROWS"] * s.W_out)


def shares(s: ConvShape, room: int) -> Iterator[tuple[float, Params]]:
    """Yield possible tiles of a block with a rating of their efficiency."""
    for maps in (4, 3, 2, 6, 5, 8, 7, 1):
        for wide in (11, 10, 9, 8, 12, 7, 6, 5, 4):
            across = tiles(s.W_out, wide)
            for bands in range(1, s.H_out + 1):
                rows = tiles(s.H_out, bands)
                threads = 32 * tiles(across * rows, 32)
                params = {"MAPS": maps, "WIDE": wide, "ROWS": rows}
                if threads > MOST_THREADS // 2 or planes_shared(s, params) > room:
                    continue
                used = s.W_out * s.H_out / (wide * threads * tiles(s.H_out, rows))
                used *= s.M / (maps * tiles(s.M, maps))
                loads = (wide + s.K - 1) / (maps * wide * s.K)
                halo = (rows + s.K - 1) / rows
                few = 32 / (threads + 32)
                yield used / ((1 + loads) * (1 + 0.2 * halo) * (1 + few)), params
                break


def tune_planes(room: int, s: ConvShape) -> Params:
    """Choose the most efficient tile, and the blocks that fit on a multiprocessor."""
    none: Params = {"MAPS": 1, "WIDE": 4, "ROWS": 1}
    _, params = max(shares(s, room), key=lambda share: share[0], default=(0, none))
    threads = 32 * tiles(tiles(s.W_out, params["WIDE"]) * params["ROWS"], 32)
    registers = 8 * tiles(params["MAPS"] * params["WIDE"] + params["WIDE"] + s.K + 8, 8)
    by_registers = REGISTERS // (threads * registers)
    by_shared = SHARED["sm_90"] // (planes_shared(s, params) + RESERVED)
    return {**params, "BLOCKS": max(1, min(8, by_registers, by_shared))}


def plan_planes(s: ConvShape, p: Params) -> tuple[Launch, ...]:
    """Launch persistent blocks, each for all maps of a band of an image at a time."""
    bands = tiles(s.H_out, p["ROWS"])
    threads = 32 * tiles(tiles(s.W_out, p["WIDE"]) * p["ROWS"], 32)
    grid, block = (s.B * bands, 1, 1), (threads, 1, 1)
    call = grid, block, ("y", "x"), (s.B,), planes_shared(s, p)
    return (Launch("conv_per_layer_planes", *call, resident=RESIDENT),)


def no_planes(s: ConvShape) -> str | None:
    """Return why a shape is too large for constant memory or a block; None if not."""
    maps = tune_planes(SHARED["sm_90"], s)["MAPS"]
    if s.C * s.K * s.K * maps * tiles(s.M, maps) > MOST_CONSTANT:
        return f"{s.weights} weights exceed the {MOST_CONSTANT} of constant memory"
    if tiles(s.W_out, 4) > MOST_THREADS // 2:
        return f"a row of {s.W_out} pixels is too long for a block"
    if s.K > 11:
        return f"{s.K} x {s.K} weights are more than 11 x 11"
    return None


def no_planes_of_one(s: ConvShape) -> str | None:
    """Return why a shape has several channels, or no planes; None if neither."""
    return f"{s.C} channels are more than 1" if s.C > 1 else no_planes(s)


SIZES = ("C", "M", "K", "H", "W")


def strips_of(room: int) -> Variant:
    """Return the variant of fewer multiplications for an amount of shared memory."""
    return Variant(
        "per_layer_strips",
        "rows in strips, with eight multiplications instead of twenty",
        plan_strips,
        tune=partial(tune_strips, room),
        fixed=SIZES,
        refuses=no_strips,
        elementwise=False,  # differences of pixels and of weights
    )


def planes_of(room: int) -> Variant:
    """Return the direct variant for an amount of shared memory."""
    return Variant(
        "per_layer_planes",
        "uniform weights, whole planes stored at once",
        plan_planes,
        tune=partial(tune_planes, room),
        fixed=SIZES,
        constants=("weights",),
        refuses=no_planes,
    )


PLANES = planes_of(HALF), planes_of(SHARED["sm_75"])
ONE_CHANNEL = first_of(
    "per_layer_planes",
    PLANES[0].idea,
    "register_gemm",
    *(replace(planes, refuses=no_planes_of_one) for planes in PLANES),
)
RUNG = first_of(
    "per_layer",
    "a kernel tuned for each layer's shape",
    "register_gemm",
    strips_of(HALF),
    strips_of(SHARED["sm_75"]),
    *PLANES,
)
