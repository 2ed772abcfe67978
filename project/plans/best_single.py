"""The fastest convolutions with one product of halves on Hopper's tensor cores."""

from __future__ import annotations

from dataclasses import replace

from course.shapes import ConvShape
from course.variants import HALF, TF32, Launch, OnGpu, Params, Variant, first_of, tiles

THREADS = 512
MOST_MAPS, MOST_TAPS = 32, 7
BARRIERS = 328  # bytes: struct Small
WIDE = 24, 12, 33, 33, 5  # M, C, H, W, K of the only layer that best_wide supports
WIDE_BARRIERS = 512  # bytes: struct Small, and the padding that products read
FEW = 2  # images a multiprocessor up to which best_single is faster than best_wide


def shared_bytes(s: ConvShape) -> int:
    """Return the bytes of two output images, two input images, and the weights."""
    groups = tiles(s.C, 4)
    steps = s.K * tiles(s.K * groups, 4)
    images_in = 2 * 16 * tiles(s.H, 2) * s.W * groups
    images_out = max(2 * 4 * s.floats_out, 128 * tiles(4 * s.weights, 128))
    weights = 256 * tiles(s.M, 8) * steps
    return 128 * tiles(images_out + images_in, 128) + weights + BARRIERS


def plan_single(s: ConvShape, p: Params) -> tuple[Launch, ...]:
    """Launch one persistent block per multiprocessor."""
    call = (s.B, 1, 1), (THREADS, 1, 1), ("y", "x", "k"), (s.B,), shared_bytes(s)
    return (Launch("conv_best_single", *call, resident=1),)


def refuses_single(s: ConvShape) -> str | None:
    """Return why it does not support a shape; None if it does."""
    if s.M > MOST_MAPS:
        return f"it supports up to {MOST_MAPS} maps, not {s.M}"
    if s.K > MOST_TAPS:
        return f"it supports weights of up to {MOST_TAPS} x {MOST_TAPS}, not {s.K}"
    if s.floats_out % 4:
        return f"{s.floats_out} outputs of an image are not a multiple of 16 bytes"
    return None


def shared_bytes_wide(s: ConvShape, half: int) -> int:
    """Return the bytes of 4/3 output images, two input images, and the weights."""
    place = 16 * tiles(4 * s.H * s.W * (2 if half else 4) + 15, 16)
    images_out = max(4 * 32 * s.H_out * s.W_out, 16 * tiles(4 * s.weights, 16))
    images_in = 2 * 16 * tiles(s.H, 2) * s.W * (s.C // 4)
    before = images_out + images_in + (4 if half else 2) * place
    steps = tiles(s.C // 4 * (s.K // 2 + 1) * s.K, 2)
    return 128 * tiles(before, 128) + 64 * s.M * steps + WIDE_BARRIERS


def plan_wide(s: ConvShape, p: Params) -> tuple[Launch, ...]:
    """Launch one persistent block per multiprocessor."""
    room = shared_bytes_wide(s, p["STORED_HALF"])
    call = (s.B, 1, 1), (THREADS, 1, 1), ("y", "x", "k"), (s.B,), room
    return (Launch("conv_best_wide", *call, resident=1),)


def refuses_wide(s: ConvShape) -> str | None:
    """Return why it does not support a shape; None for the shape WIDE."""
    if (s.M, s.C, s.H, s.W, s.K) == WIDE:
        return None
    return "it supports only 24 maps of 12 x 33 x 33 with 5 x 5 weights"


def refuses_many(s: OnGpu) -> str | None:
    """Return why best_wide or no product is better; None if this one is the best."""
    few = FEW * s.gpu.multiprocessors
    if few < s.B and refuses_wide(s) is None:
        return f"best_wide is faster for {s.B} images, more than {few}"
    return refuses_single(s)


def _single(idea: str, after: str, accuracy: str, half: int) -> Variant:
    single = Variant(
        *(f"best_single_{accuracy}", idea, plan_single, after),
        params={"STORED_HALF": half},
        fixed=("C", "M", "K", "H", "W"),
        refuses=refuses_single,
        targets=("sm_90a",),
        accuracy=accuracy,
        file="best_single",
    )
    wide = replace(
        single,
        name=f"best_wide_{accuracy}",
        plan=plan_wide,
        refuses=refuses_wide,
        file="best_wide",
    )
    few = replace(single, name=f"best_few_{accuracy}", refuses=refuses_many)
    return first_of(f"best_any_{accuracy}", idea, after, few, wide, single)


SINGLE_TF32 = _single(
    "scaled to halves while loading, one product, all stages overlapped",
    *("tensor_tf32", TF32, 0),
)
SINGLE_HALF = _single(
    "one product of the stored halves, all stages overlapped",
    *("tensor_half", HALF, 1),
)
