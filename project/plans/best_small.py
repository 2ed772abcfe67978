"""The fastest convolution of few images with several channels: ``best_small.cu``.

There is one block for each multiprocessor, and all have the same number of rows.
"""

from __future__ import annotations

from course.variants import (
    FP32,
    LADDER_TARGETS,
    MOST_GRID,
    Launch,
    OnGpu,
    Params,
    Variant,
    tiles,
)

WARPS = 8  # two per scheduler, so that threads may use all registers
MOST_SUMS = 120  # registers of a thread for sums
MOST_LOADS = 132  # elements that a thread loads at once
MOST_IMAGES = 8  # images that a block's rows may belong to
MOST_STEPS = 40  # of 16 products, summed by the tensor cores: error 9e-7 there


def rows(s: OnGpu) -> int:
    """Return the output rows of a block, of those of all images."""
    return tiles(s.B * s.H_out, s.gpu.multiprocessors)


def tune(s: OnGpu) -> Params:
    """Divide a block's pixels among its warps, 16 per tile."""
    return {"ROWS": rows(s), "TILES": tiles(rows(s) * s.W_out, 16 * WARPS)}


def images(s: OnGpu) -> int:
    """Return the most images that the rows of a block belong to."""
    return (rows(s) + s.H_out - 2) // s.H_out + 1


def slots(s: OnGpu) -> int:
    """Return the input rows of a block."""
    return rows(s) + (s.K - 1) * images(s)


def loads(s: OnGpu) -> int:
    """Return the elements of images and weights that a thread loads."""
    threads = 32 * WARPS
    channels = 4 * tiles(s.C, 4)
    pixels = tiles(slots(s) * s.W, threads) * channels
    weights = tiles(8 * tiles(s.M, 8), WARPS) * 4 * tiles(channels // 4 * s.K**2, 32)
    return pixels + weights


def shared_bytes(s: OnGpu) -> int:
    """Return the size of struct Shared."""
    columns, quads = tiles(s.M, 8), tiles(s.C, 4)
    steps = tiles(quads * s.K**2, 4)
    pitch = 8 + 32 * max(0, tiles(s.W - 8, 32))
    plane = 8 + 32 * tiles(slots(s) * pitch - 8, 32)
    words = 4 * quads * plane + 128 * columns * (steps + 1)
    words += WARPS * 8 * (16 * tune(s)["TILES"] + 4)
    words += 4 * (steps + 2) + 8 * columns + WARPS * (1 + images(s))
    return 16 * tiles(words, 4)


def plan(s: OnGpu, p: Params) -> tuple[Launch, ...]:
    """Launch at most one block for each multiprocessor."""
    grid = (tiles(s.B * s.H_out, p["ROWS"]), 1, 1)
    buffers = ("y", "x", "k")
    block = (32 * p["WARPS"], 1, 1)
    return (Launch("conv_best_small", grid, block, buffers, (s.B,), shared_bytes(s)),)


def refuses(s: OnGpu) -> str | None:
    """Return why it does not support a shape; None if it does."""
    if s.C < 3:
        return f"it multiplies 4 channels at a time, so {s.C} would leave most idle"
    if s.B * s.H_out > MOST_GRID[0]:
        return f"{s.B} images have too many rows"
    if images(s) > MOST_IMAGES:
        return f"a block's rows span {images(s)} images, more than {MOST_IMAGES}"
    steps = tiles(tiles(s.C, 4) * s.K**2, 4)
    if steps > MOST_STEPS:
        return f"sums of {s.C * s.K**2} products are not accurate enough"
    sums = tune(s)["TILES"] * tiles(s.M, 8) * 8
    if sums > MOST_SUMS:
        return f"{s.B} images need {sums} sums per thread, more than {MOST_SUMS}"
    if loads(s) > MOST_LOADS:
        return f"{s.B} images need {loads(s)} loads per thread, more than {MOST_LOADS}"
    return None


SMALL = Variant(
    "best_small",
    "few images cut into bands, all loads at once, operands in two halves",
    plan,
    after="tensor_split",
    params={"WARPS": WARPS},
    tune=tune,
    fixed=("M", "C", "H", "W", "K"),
    refuses=refuses,
    targets=LADDER_TARGETS[1:],
    accuracy=FP32,
)
