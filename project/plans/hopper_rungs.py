"""The rungs between ``tensor_split`` and the fastest: plans and entries.

``toeplitz``, ``staged_store`` and ``roles`` are for one input channel and use
``toeplitz.cuh``, as ``best_one`` does; ``wgmma_split`` is for several channels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from course.shapes import ConvShape
from course.variants import Launch, OnGpu, Params, Variant, left_out, repair, tiles
from plans.best_one import MAPS, group_bytes, rows, slot_bytes, stage_bytes
from plans.tensor_rungs import IMAGES, MANY_BLOCKS, TARGETS

PRECISIONS = 2  # halves of a float
MOST_PAIRS = 32  # of pixels in a thread's registers
MOST_TAPS = 7  # with more, a thread's window exceeds its registers
MOST_MAPS = 64  # whose sums fit in a warpgroup's registers
LEAST_CHANNELS = 3
MOST_STEPS = 64  # of 16 products, summed by the tensor cores


def tune(s: ConvShape) -> Params:
    """Choose the rows that a warp computes."""
    return {"ROWS": rows(s)}


def one_channel_bytes(s: ConvShape, slots: int, stages: int) -> int:
    """Return the bytes of images as halves, planes of 4 maps, and all weights."""
    images = slots * slot_bytes(s, PRECISIONS, rows(s))
    weights = tiles(s.M, MAPS) * group_bytes(s, PRECISIONS, stored_half=0)
    return images + stages * stage_bytes(s) + weights


def _launches(
    name: str, s: OnGpu, p: Params, shared: int, *, fills: bool = False
) -> tuple[Launch, ...]:
    """Launch a kernel, and what computes the images that it leaves out.

    It has blocks of some images each, or one for each multiprocessor, whose memory it
    fills.
    """
    blocks = s.B if fills else max(tiles(s.B, IMAGES), MANY_BLOCKS)
    kernel, buffers = f"conv_{name}", ("y", "x", "k", "list")
    call = (min(s.B, blocks), 1, 1), (p["THREADS"], 1, 1), buffers, (s.B,), shared
    return Launch(kernel, *call, resident=int(fills)), repair(f"{kernel}_repair", s)


def plan_one_channel(
    name: str, slots: int, stages: int, s: OnGpu, p: Params
) -> tuple[Launch, ...]:
    """Launch a kernel for one channel; with stages it fills a multiprocessor."""
    shared = one_channel_bytes(s, slots, stages)
    return _launches(name, s, p, shared, fills=stages > 0)


def refuses_channels(readers: int, s: ConvShape) -> str | None:
    """Return why a shape does not fit ``readers`` threads; None if it does."""
    if s.C != 1:
        return f"it supports only one input channel, not {s.C}"
    if s.K > MOST_TAPS:
        return f"it supports weights of up to {MOST_TAPS} x {MOST_TAPS}, not {s.K}"
    if tiles(s.H * tiles(s.W, 2), readers) > MOST_PAIRS:
        return f"an image of {s.H} x {s.W} exceeds the loading warps' registers"
    return None


def refuses_odd(readers: int, s: ConvShape) -> str | None:
    """Return why planes cannot be stored by bulk copies either; None if they can."""
    if why := refuses_channels(readers, s):
        return why
    if s.H_out * s.W_out % 4 and s.M % 4:
        return "its planes are not whole pieces of 16 bytes"
    return None


def wgmma_bytes(s: ConvShape) -> int:
    """Return the bytes of the weights and an image as halves, in units of 16 bytes."""
    groups, maps = tiles(s.C, 8), 8 * tiles(s.M, 8)
    last = 64 * tiles((s.H_out - 1) * s.W + s.W_out, 64)
    image = groups * max(s.H * s.W, last + (s.K - 1) * (s.W + 1))
    return 2 * 16 * (2 * tiles(groups * s.K * s.K, 2) * maps + image)


def plan_wgmma_split(s: OnGpu, p: Params) -> tuple[Launch, ...]:
    """Launch blocks of some images each."""
    return _launches("wgmma_split", s, p, wgmma_bytes(s))


def refuses_wgmma(s: ConvShape) -> str | None:
    """Return why it does not support a shape; None if it does."""
    if s.C < LEAST_CHANNELS:
        return f"it multiplies 8 channels at a time, so {s.C} would leave most idle"
    if s.M > MOST_MAPS:
        return f"it supports up to {MOST_MAPS} maps, not {s.M}"
    if tiles(s.C * s.K**2, 16) > MOST_STEPS:
        return f"sums of {s.C * s.K**2} products are not accurate enough"
    return None


def _one_channel(
    name: str,
    idea: str,
    after: str,
    buffers: tuple[int, int],  # slots and stages
    params: Params,
    refuses: Callable[[ConvShape], str | None],
    targets: tuple[str, ...] = ("sm_90", "sm_100"),
) -> Variant:
    return Variant(
        *(name, idea, partial(plan_one_channel, name, *buffers), after),
        params={"PRODUCTS": 3, "STORED_HALF": 0, **params},
        tune=tune,
        fixed=("M", "H", "W", "K"),
        refuses=refuses,
        targets=targets,
        scratch=left_out,
    )


TOEPLITZ = _one_channel(
    *("toeplitz", "one channel: the image is an operand", "tensor_split", (1, 0)),
    *({"THREADS": 256}, partial(refuses_channels, 256), TARGETS),
)
STAGED_STORE = _one_channel(
    *("staged_store", "planes of 4 maps stored by one bulk copy", "toeplitz", (1, 2)),
    *({"THREADS": 512}, partial(refuses_odd, 512)),
)
ROLES = _one_channel(
    *("roles", "warps that load, multiply or store", "staged_store", (2, 2)),
    {"THREADS": 512, "LOADERS": 3, "SLOTS": 2, "STAGES": 2},
    partial(refuses_odd, 3 * 32),
)
WGMMA_SPLIT = Variant(
    "wgmma_split",
    "several channels: wgmma, the window moves by an address",
    plan_wgmma_split,
    after="tensor_split",
    params={"THREADS": 384},
    fixed=("M", "C", "H", "W", "K"),
    refuses=refuses_wgmma,
    targets=("sm_90a",),
    scratch=left_out,
)
RUNGS = TOEPLITZ, STAGED_STORE, ROLES, WGMMA_SPLIT
