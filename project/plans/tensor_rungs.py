"""The variants on tensor cores: plans of launches, and entries.

All use ``tensor.cuh``, whose blocks keep a strip of an image, the weights of all
maps and all sums in shared memory. Their sizes are chosen here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from course.shapes import ConvShape
from course.variants import (
    FP32,
    HALF,
    LADDER_TARGETS,
    MOST_GRID,
    SHARED,
    TF32,
    Launch,
    Params,
    Variant,
    tiles,
)

TARGETS = LADDER_TARGETS[1:]
MOST_SHARED = SHARED["sm_86"]  # the smallest limit of the targets
GOOD_SHARED = 72 << 10  # so that three blocks fit on a large GPU
GOOD_ROWS = 4  # K - 1 more are read, so with fewer the overlap is too large
ROUND = 16 * 16  # pixels that a block multiplies at a time: WARPS x TILES x 16
MOST_COLUMNS = 4  # groups of 8 maps that a warp multiplies at a time
IMAGES = 8  # per block, which reuses its weights, if there are many images
MANY_BLOCKS = 512


def columns(s: ConvShape) -> int:
    """Divide the maps evenly among the fewest blocks; return groups of 8 maps."""
    all_columns = tiles(s.M, 8)
    return tiles(all_columns, tiles(all_columns, MOST_COLUMNS))


def shared_bytes(s: ConvShape, rows: int, units: int) -> int:
    """Return the bytes of shared memory for a strip of rows and units per pixel."""
    maps = 8 * columns(s)
    taps = units * s.K * s.K
    weights = 8 * tiles(taps, 8) * (maps if maps % 16 else maps + 8)
    pixels = units * (rows + s.K - 1) * s.W
    sums = maps * (16 * ((rows * s.W_out + 11) // 16) + 4)
    return 4 * (weights + pixels + sums + taps)


def strip(channels: int, s: ConvShape) -> Params:
    """Choose the most channels that fit in shared memory, then the best strip."""
    all_units = tiles(s.C, channels)
    halved = [all_units >> cut for cut in range(all_units.bit_length())]
    fitting = (
        (max(fit, key=lambda rows: use(s, rows)), units)
        for least, room in ((GOOD_ROWS, GOOD_SHARED), (1, MOST_SHARED))
        for units in halved
        if (fit := list(strips(s, units, least, room)))
    )
    rows, units = next(fitting, (1, 1))
    units = tiles(all_units, tiles(all_units, units))  # the same in each chunk
    return {"COLUMNS": columns(s), "ROWS": rows, "UNITS": units}


def strips(s: ConvShape, units: int, least: int, room: int) -> Iterator[int]:
    """Yield the heights of equal strips that fit and have enough rows."""
    for count in range(1, s.H_out + 1):
        rows = tiles(s.H_out, count)
        if rows < min(least, s.H_out):
            return
        if shared_bytes(s, rows, units) <= room:
            yield rows


def use(s: ConvShape, rows: int) -> float:
    """Rate a strip: the utilisation of its warps, and how little strips overlap."""
    pixels = rows * s.W_out
    busy = pixels / (ROUND * tiles(pixels, ROUND))
    return busy * rows / (rows + (s.K - 1) / 2)


def too_wide(tune: Callable[[ConvShape], Params], s: ConvShape) -> str | None:
    """Return why not even one row fits in shared memory; None if it does."""
    p = tune(s)
    needed = shared_bytes(s, p["ROWS"], p["UNITS"])
    if needed <= MOST_SHARED:
        return None
    return f"a row needs {needed} bytes of shared memory; the limit is {MOST_SHARED}"


def plan(kernel: str, s: ConvShape, p: Params) -> tuple[Launch, ...]:
    """Launch one block per strip of rows, group of maps and number of images."""
    grid = (
        tiles(s.H_out, p["ROWS"]),
        tiles(s.M, 8 * p["COLUMNS"]),
        min(s.B, max(tiles(s.B, IMAGES), MANY_BLOCKS), MOST_GRID[2]),
    )
    shared = shared_bytes(s, p["ROWS"], p["UNITS"])
    block = (32 * p["WARPS"], 1, 1)
    return (Launch(kernel, grid, block, ("y", "x", "k"), (s.B,), shared),)


def _rung(
    name: str,
    idea: str,
    after: str,
    accuracy: str,
    warps: int = 8,
) -> Variant:
    tune = partial(strip, 2 if accuracy == HALF else 1)  # channels per 32-bit word
    return Variant(
        name,
        idea,
        partial(plan, f"conv_{name}"),
        after=after,
        params={"WARPS": warps, "TILES": ROUND // 16 // warps},
        tune=tune,
        fixed=("M", "C", "H", "W", "K"),
        refuses=partial(too_wide, tune),
        targets=TARGETS,
        accuracy=accuracy,
    )


RUNGS = (
    _rung(
        "tensor_tf32",
        "tensor cores, operands rounded to tf32",
        "implicit_gemm",
        TF32,
    ),
    _rung(
        "tensor_half",
        "tensor cores, images and weights stored as halves",
        "tensor_tf32",
        HALF,
    ),
    _rung(
        "tensor_split",
        "fp32's accuracy on tensor cores: operands in two parts",
        "tensor_tf32",
        FP32,
        warps=4,
    ),
)
