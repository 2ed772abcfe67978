"""The fastest convolution of one input channel: plans of ``best_one.cu``.

One persistent block runs on each multiprocessor and computes 4 maps of an image at a
time. How many images and outputs its shared memory holds is chosen here.
"""

from __future__ import annotations

from functools import partial

from course.shapes import ConvShape
from course.variants import (
    FP32,
    HALF,
    SHARED,
    TF32,
    Launch,
    OnGpu,
    Params,
    Variant,
    tiles,
)

ROOM = SHARED["sm_90"] - 1024  # bytes, less those of the barriers
MAPS = 4  # per group, whose planes are stored in one copy
MOST_GROUPS = 16  # groups whose weights a block keeps
MOST_STAGES, MOST_SLOTS = 16, 2  # with more the blocks get out of step
LARGE = 4900  # pixels between two synchronisations of all blocks
PIXELS_A_THREAD = 128  # pixels that fit in a thread's registers


def steps(s: ConvShape) -> int:
    """Return a product's steps of depth 16: rows of the window, and the rest."""
    beyond = max(0, tiles(s.K + 3, 2) - 4)
    return tiles(s.K + beyond * tiles(s.K, 4), 2)


def rows(s: ConvShape) -> int:
    """Choose the rows that a warp computes, for few idle columns and few loads."""

    def cost(deep: int) -> int:
        units = tiles(s.W_out, 4) * tiles(s.H_out, deep)
        return tiles(units, 8) * (12 * deep + 20)

    return min(range(1, 9 if s.K <= 5 else 5), key=cost)


def slot_bytes(s: ConvShape, precisions: int, deep: int) -> int:
    """Return the bytes of an image as halves, with the padding that is read."""
    quads = tiles(s.K, 4)
    read = tiles(s.H_out, deep) * deep + s.K - 1 + (4 * quads - s.K if s.K > 5 else 0)
    return 16 * tiles((read * tiles(s.W, 2) + 8) * 4 * precisions, 16)


def stage_bytes(s: ConvShape) -> int:
    """Return the bytes of the planes of a group of maps."""
    return 4 * MAPS * s.H_out * s.W_out


def group_bytes(s: ConvShape, precisions: int, stored_half: int) -> int:
    """Return the bytes of a group's weights, as stored and as operands."""
    weights = MAPS * s.K * s.K * (2 if stored_half else 4)
    return 512 * precisions * steps(s) + weights + 4 * MAPS


def roles(s: ConvShape) -> tuple[int, int]:
    """Return threads and loading warps; a large window needs more registers."""
    return (512, 3) if s.K <= 7 else (256, 2)


def tune(s: ConvShape, products: int, stored_half: int) -> Params:
    """Choose the warps of each role, and the buffers that fit in shared memory."""
    precisions = 1 if products == 1 else 2
    deep = rows(s)
    slot, stage = slot_bytes(s, precisions, deep), stage_bytes(s)
    groups = min(tiles(s.M, MAPS), MOST_GROUPS)
    room = ROOM - groups * group_bytes(s, precisions, stored_half)
    stages = max(1, min((room - 2 * slot) // stage, MOST_STAGES))
    slots = max(1, min((room - stages * stage) // slot, MOST_SLOTS))
    threads, holders = roles(s)
    warps = threads // 32 - holders - 1
    # If a group's planes do not occupy all warps, teams compute several groups.
    small = tiles(tiles(s.W_out, 4) * tiles(s.H_out, deep), 8) < warps / 2
    most = stages - 4 if small else 1
    teams = max(n for n in range(1, warps + 1) if warps % n == 0 and n <= max(1, most))
    return {
        "THREADS": threads,
        "ROWS": deep,
        "HOLDERS": holders,
        "TEAMS": teams,
        "STAGES": stages,
        "SLOTS": slots,
        "APART": max(
            1, LARGE // (s.H * s.W)
        ),  # images between two synchronisations of all blocks
    }


def parts(s: OnGpu) -> int:
    """Return among how many blocks an image's maps are divided, if images are few."""
    groups = tiles(s.M, MAPS)

    def rounds(n: int) -> int:
        return tiles(s.B, max(1, s.gpu.multiprocessors // n)) * (tiles(groups, n) + 1)

    fewest = tiles(groups, MOST_GROUPS)
    even = (tiles(groups, tiles(groups, n)) for n in range(fewest, groups + 1))
    return min(even, key=rounds)


def plan(s: OnGpu, p: Params) -> tuple[Launch, ...]:
    """Launch at most one block for each multiprocessor."""
    precisions = 1 if p["PRODUCTS"] == 1 else 2
    n = parts(s)
    shared = (
        p["STAGES"] * stage_bytes(s)
        + p["SLOTS"] * slot_bytes(s, precisions, p["ROWS"])
        + tiles(tiles(s.M, MAPS), n) * group_bytes(s, precisions, p["STORED_HALF"])
    )
    block = (p["THREADS"], 1, 1)
    call = block, ("y", "x", "k"), (s.B, n), shared
    return (Launch("conv_best_one", (n * s.B, 1, 1), *call, resident=1, together=n),)


def refuses(s: ConvShape) -> str | None:
    """Return why it does not support a shape; None if it does."""
    if s.C != 1:
        return f"it supports only one input channel, not {s.C}"
    if s.K > 11:
        return f"it supports weights of up to 11 x 11, not {s.K} x {s.K}"
    if 32 * roles(s)[1] * PIXELS_A_THREAD < s.H * s.W:
        return f"an image of {s.H} x {s.W} exceeds the loading warps' registers"
    return None


def _variant(accuracy: str, products: int, stored_half: int) -> Variant:
    """Return the variant of an accuracy class."""
    return Variant(
        "best_one",
        "one channel as a Toeplitz product, planes stored in one piece",
        plan,
        after="roles",
        params={"PRODUCTS": products, "STORED_HALF": stored_half},
        tune=partial(tune, products=products, stored_half=stored_half),
        fixed=("M", "H", "W", "K"),
        refuses=refuses,
        targets=("sm_90", "sm_100"),
        accuracy=accuracy,
    )


ONE_FP32 = _variant(FP32, 3, 0)
ONE_TF32 = _variant(TF32, 1, 0)
ONE_HALF = _variant(HALF, 1, 1)
