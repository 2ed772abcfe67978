"""The fastest fp32 convolution of several channels, with Hopper's wgmma."""

from __future__ import annotations

from course.shapes import ConvShape
from course.variants import Launch, OnGpu, Params, Variant, tiles

GROUPS = 2  # warp groups of a block, each with a pair of images
ROW = 64  # pixels of one product: a row of two images side by side
SECTOR = 8  # floats of a 32-byte sector
MEMO = 8
BARRIER = 8  # bytes
LIST = 1024  # doubtful images of a block


def units(s: ConvShape) -> int:
    """Return the 16-byte units of channels and weight columns, in pairs."""
    columns = s.K if s.C <= 8 else s.K + tiles(s.K, 2)
    return 2 * tiles(columns, 2)


def apart(s: ConvShape) -> int:
    """Return where in a row the second image begins: even, and at least half of it."""
    return max(ROW // 2, 2 * tiles(s.W, 2))


def shared_bytes(s: ConvShape, p: Params) -> int:
    """Return the bytes of the weights, two rings of input and output rows, and more."""
    weights = 2 * units(s) * (2 * s.K - 1) * s.M * 16
    each = 16 * (ROW // 2 + tiles(s.K, 2))  # even pixels, or odd ones
    odd = 128 * tiles(each - 64, 128) + 64
    row = 2 * tiles(s.C, 8) * (2 * odd + 32)
    ring = 2 * (5 * s.W_out // SECTOR * SECTOR)
    padding = (48 - 4 * s.H_out * s.W_out % SECTOR) % 32
    outputs = GROUPS * 2 * (s.M * ring + s.M // 4 * padding)  # floats
    barriers = BARRIER * GROUPS * (2 * p["ROWS_IN"] + 4)
    notes = 4 * (GROUPS * MEMO * 2 * 2 + s.M + 2 + LIST)
    passing = s.M * (s.weights // s.M | 1)  # weights, loaded through the outputs' space
    room = 8 * tiles(max(outputs, passing), 2)
    return weights + GROUPS * p["ROWS_IN"] * row + room + barriers + notes


def periods(s: OnGpu) -> int:
    """Return periods per part: images are split where whole ones leave blocks idle.

    A part of n periods has (n + 1) K - 1 output rows, and reads K - 1 more.
    """
    whole = tiles(max(s.H_out - (s.K - 1), 0), s.K)
    pairs = tiles(s.B, 2)
    return min(whole, 1) if 2 * pairs <= s.gpu.multiprocessors else whole


def parts(s: ConvShape, periods: int) -> int:
    """Return the parts of an image that are computed one by one."""
    return tiles(s.H_out, (periods + 1) * s.K - 1)


def plan(s: OnGpu, p: Params) -> tuple[Launch, ...]:
    """Launch at most one block for each multiprocessor."""
    numbers = (s.B, periods(s))
    grid = (tiles(s.B, 2) * parts(s, periods(s)), 1, 1)
    call = (512, 1, 1), ("y", "x", "k"), numbers, shared_bytes(s, p)
    return (Launch("conv_best_split", grid, *call, resident=1),)


def refuses(s: ConvShape) -> str | None:
    """Return why a shape does not fit wgmma's 64 x N x 16; None if it does."""
    if s.C > 8 and s.C != 12:
        return f"it supports up to 8 channels, or 12, not {s.C}"
    if s.M not in {16, 24}:
        return f"it supports 16 or 24 maps, not {s.M}"
    if apart(s) + s.W_out > ROW or s.W > 33:
        return f"two images of {s.W} columns do not fit in a row of {ROW} pixels"
    if s.W_out < SECTOR:
        return f"an output row of {s.W_out} pixels is less than a sector of {SECTOR}"
    if s.K not in {3, 5}:
        return f"it supports 3 x 3 and 5 x 5 weights, not {s.K} x {s.K}"
    return None


SPLIT = Variant(
    "best_split",
    "fp32's accuracy on Hopper's tensor cores, a ring of output rows",
    plan,
    after="wgmma_split",
    params={"ROWS_AHEAD": 3, "ROWS_IN": 6},
    fixed=("M", "C", "H", "W", "K"),
    refuses=refuses,
    targets=("sm_90a",),
)
