"""The last rung with one product of halves on Hopper's tensor cores."""

from __future__ import annotations

from shapes import ConvShape
from variants import HALF, MULTIPROCESSORS, TF32, Launch, Params, Variant, tiles

THREADS = 512
MOST_MAPS, MOST_TAPS = 32, 7
BARRIERS = 264  # bytes: struct Small


def shared_bytes(s: ConvShape) -> int:
    """Count two images out, two in as halves, and the weights as operands."""
    groups = tiles(s.C, 4)
    steps = s.K * tiles(s.K * groups, 4)
    images_in = 2 * 16 * tiles(s.H, 2) * s.W * groups
    images_out = max(2 * 4 * s.floats_out, 128 * tiles(4 * s.weights, 128))
    weights = 256 * tiles(s.M, 8) * steps
    return 128 * tiles(images_out + images_in, 128) + weights + BARRIERS


def plan_single(s: ConvShape, p: Params) -> tuple[Launch, ...]:
    """One block per multiprocessor, from image to image."""
    grid, block = (min(s.B, MULTIPROCESSORS), 1, 1), (THREADS, 1, 1)
    buffers = ("y", "x", "k")
    room = shared_bytes(s)
    return (Launch("conv_best_single", grid, block, buffers, (s.B,), room),)


def refuses_single(s: ConvShape) -> str | None:
    """Refuse what exceeds registers, and images that bulk copies cannot store."""
    if s.M > MOST_MAPS:
        return f"{s.M} maps exceed the {MOST_MAPS} that a thread can sum"
    if s.K > MOST_TAPS:
        return f"{s.K} x {s.K} weights exceed the {MOST_TAPS} x {MOST_TAPS} it can hold"
    if s.floats_out % 4:
        return f"an image of {s.floats_out} outputs is not whole 16-byte pieces"
    return None


def _single(name: str, idea: str, after: str, accuracy: str, half: int) -> Variant:
    return Variant(
        *(name, idea, plan_single, after),
        params={"STORED_HALF": half},
        fixed=("C", "M", "K", "H", "W"),
        refuses=refuses_single,
        targets=("sm_90a",),
        accuracy=accuracy,
        file="best_single",
    )


SINGLE_TF32 = _single(
    "best_single_tf32",
    "scaled to halves on the way in, one product, all stages overlapped",
    *("tensor_tf32", TF32, 0),
)
SINGLE_HALF = _single(
    "best_single_half",
    "one product of the stored halves, all stages overlapped",
    *("tensor_half", HALF, 1),
)
