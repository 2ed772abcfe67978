"""The rungs of the ladder that teach: the plans of their launches, and their entries.

A plan is a pure function of the sizes, so it is checked without a GPU.
"""

from __future__ import annotations

from shapes import ConvShape
from variants import MOST_CONSTANT, Dim, Launch, Params, Variant, tiles


def _a_thread_per_pixel(s: ConvShape, tile: int) -> tuple[Dim, Dim]:
    """Give each map of each image its own blocks of tile x tile pixels."""
    per_map = tiles(s.H_out, tile) * tiles(s.W_out, tile)
    return (s.M, per_map, s.B), (tile, tile, 1)


def plan_naive(s: ConvShape, p: Params) -> tuple[Launch, ...]:
    """One thread per output pixel."""
    grid, block = _a_thread_per_pixel(s, p["TILE"])
    numbers = (s.C, s.H, s.W, s.K)
    return (Launch("conv_naive", grid, block, ("y", "x", "k"), numbers),)


def plan_restrict_unroll(s: ConvShape, p: Params) -> tuple[Launch, ...]:
    """Launch as the naive kernel, which knows K by now."""
    grid, block = _a_thread_per_pixel(s, p["TILE"])
    numbers = (s.C, s.H, s.W)
    return (Launch("conv_restrict_unroll", grid, block, ("y", "x", "k"), numbers),)


def plan_tiled(s: ConvShape, p: Params) -> tuple[Launch, ...]:
    """One block per output tile of one map of one image, and room for its halo."""
    grid, block = _a_thread_per_pixel(s, p["TILE"])
    numbers = (s.C, s.H, s.W, s.K)
    shared = halo_bytes(s, p)
    return (Launch("conv_tiled", grid, block, ("y", "x", "k"), numbers, shared),)


def plan_constant(s: ConvShape, p: Params) -> tuple[Launch, ...]:
    """Launch as the tiled kernel; the weights are elsewhere."""
    grid, block = _a_thread_per_pixel(s, p["TILE"])
    numbers = (s.C, s.H, s.W, s.K)
    shared = halo_bytes(s, p)
    return (Launch("conv_constant", grid, block, ("y", "x"), numbers, shared),)


def halo_bytes(s: ConvShape, p: Params) -> int:
    """Count the bytes of an input tile with the halo that its outputs reach into."""
    side = p["TILE"] + s.K - 1
    return 4 * side * side


def too_big_for_constant(s: ConvShape) -> str | None:
    """Refuse weights that exceed constant memory."""
    if s.weights <= MOST_CONSTANT:
        return None
    return f"{s.weights} weights exceed the {MOST_CONSTANT} of constant memory"


RUNGS = (
    Variant(
        "naive",
        "one thread per output pixel",
        plan_naive,
        params={"TILE": 16},
    ),
    Variant(
        "restrict_unroll",
        "no aliasing, and the loops over the weights unrolled",
        plan_restrict_unroll,
        after="naive",
        params={"TILE": 16},
        fixed=("K",),
    ),
    Variant(
        "tiled",
        "a block shares its input tile",
        plan_tiled,
        after="naive",
        params={"TILE": 16},
    ),
    Variant(
        "constant",
        "weights in constant memory",
        plan_constant,
        after="tiled",
        params={"TILE": 16, "WEIGHTS": MOST_CONSTANT},
        constants=("weights",),
        refuses=too_big_for_constant,
    ),
)
