"""The course's optimisations, one variant each: plans of launches, and entries.

A plan is a pure function of the shape, so it is tested without a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from course.shapes import ConvShape
from course.variants import (
    MOST_CONSTANT,
    MOST_GRID,
    Dim,
    Launch,
    Params,
    Variant,
    tiles,
)

MOST_MATRIX = 512 << 20  # bytes of a chunk's unrolled images
MOST_MAPS = 24  # maps whose sums a thread keeps in registers
MOST_WEIGHTS = 8192  # floats in the shared memory of a block of implicit_gemm
MOST_COLUMNS = 2**31 - 2**16  # of a matrix, so that the last block's indices are ints
MOST_LANES = 8  # threads that compute one output together
ZEROS_A_THREAD = 16


def _a_thread_per_pixel(s: ConvShape, wide: int, high: int) -> tuple[Dim, Dim]:
    """Return grid and block: a block per wide x high pixels, map and image."""
    per_map = tiles(s.H_out, high) * tiles(s.W_out, wide)
    return (s.M, per_map, s.B), (wide, high, 1)


def plan_naive(s: ConvShape, p: Params) -> tuple[Launch, ...]:
    """Launch one thread per output pixel."""
    grid, block = _a_thread_per_pixel(s, p["TILE"], p["TILE"])
    numbers = (s.C, s.H, s.W, s.K)
    return (Launch("conv_naive", grid, block, ("y", "x", "k"), numbers),)


def plan_restrict_unroll(s: ConvShape, p: Params) -> tuple[Launch, ...]:
    """Launch as the naive kernel; K is compiled in."""
    grid, block = _a_thread_per_pixel(s, p["TILE"], p["TILE"])
    numbers = (s.C, s.H, s.W)
    return (Launch("conv_restrict_unroll", grid, block, ("y", "x", "k"), numbers),)


def plan_tiled(s: ConvShape, p: Params) -> tuple[Launch, ...]:
    """Launch one block per output tile, map and image; share an input tile."""
    grid, block = _a_thread_per_pixel(s, p["TILE"], p["ROWS"])
    numbers = (s.C, s.H, s.W)
    shared = halo_bytes(s, p)
    return (Launch("conv_tiled", grid, block, ("y", "x", "k"), numbers, shared),)


def plan_constant(s: ConvShape, p: Params) -> tuple[Launch, ...]:
    """Launch as the tiled kernel; the weights are in constant memory."""
    grid, block = _a_thread_per_pixel(s, p["TILE"], p["ROWS"])
    numbers = (s.C, s.H, s.W)
    shared = halo_bytes(s, p)
    return (Launch("conv_constant", grid, block, ("y", "x"), numbers, shared),)


def halo_bytes(s: ConvShape, p: Params) -> int:
    """Return the bytes of an input tile with its halo."""
    return 4 * (p["TILE"] + s.K - 1) * (p["ROWS"] + s.K - 1)


def too_big_for_constant(s: ConvShape) -> str | None:
    """Return why weights do not fit in constant memory; None if they do."""
    if s.weights <= MOST_CONSTANT:
        return None
    return f"{s.weights} weights exceed the {MOST_CONSTANT} of constant memory"


def _chunks(images: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield the first image and the length of chunks of at most ``most`` images."""
    for first in range(0, images, most):
        yield first, min(most, images - first)


def unrolled_images(s: ConvShape) -> int:
    """Return how many images' unrolled matrix fits the scratch array, at least one."""
    pixels = s.H_out * s.W_out
    fit = MOST_MATRIX // (4 * s.C * s.K * s.K * pixels)
    return min(s.B, max(1, min(fit, MOST_COLUMNS // pixels)))


def matrix_bytes(s: ConvShape) -> Mapping[str, int]:
    """Return the bytes of a chunk's unrolled matrix."""
    pixels = s.H_out * s.W_out
    return {"matrix": 4 * s.C * s.K * s.K * pixels * unrolled_images(s)}


def plan_unroll_gemm(s: ConvShape, p: Params) -> Iterator[Launch]:
    """Yield unrolling and multiplication for each chunk of images."""
    pixels, tile = s.H_out * s.W_out, p["TILE"]
    for first, images in _chunks(s.B, unrolled_images(s)):
        columns = images * pixels
        yield _unroll("conv_unroll_gemm_unroll", s, p, first, columns)
        yield Launch(
            "conv_unroll_gemm",
            (tiles(columns, tile), tiles(s.M, tile), 1),
            (tile, tile, 1),
            ("y", "matrix", "k"),
            (first, columns, pixels, s.M, s.C * s.K * s.K),
        )


def _unroll(kernel: str, s: ConvShape, p: Params, first: int, columns: int) -> Launch:
    """Launch one thread per column, channel and row of the window."""
    grid = tiles(columns, p["THREADS"]), s.C * s.K, 1
    numbers = (first, columns, s.C, s.H, s.W, s.K)
    return Launch(kernel, grid, (p["THREADS"], 1, 1), ("matrix", "x"), numbers)


def even_maps(s: ConvShape) -> Params:
    """Divide the maps evenly into the fewest groups."""
    return {"MAPS": tiles(s.M, tiles(s.M, MOST_MAPS))}


def plan_register_gemm(s: ConvShape, p: Params) -> Iterator[Launch]:
    """Yield unrolling and multiplication for each chunk of images."""
    pixels = s.H_out * s.W_out
    for first, images in _chunks(s.B, unrolled_images(s)):
        columns = images * pixels
        yield _unroll("conv_register_gemm_unroll", s, p, first, columns)
        yield Launch(
            "conv_register_gemm",
            (tiles(columns, p["THREADS"] * p["PIXELS"]), tiles(s.M, p["MAPS"]), 1),
            (p["THREADS"], 1, 1),
            ("y", "matrix", "k"),
            (first, columns, pixels, s.M, s.C * s.K * s.K),
        )


def even_maps_and_channels(s: ConvShape) -> Params:
    """Choose the maps and channels whose weights fit in shared memory."""
    maps = even_maps(s)["MAPS"]
    fit = MOST_WEIGHTS // (s.K * s.K * 4 * tiles(maps, 4))
    return {"MAPS": maps, "CHANNELS": max(1, min(s.C, fit))}


def too_big_a_window(s: ConvShape) -> str | None:
    """Return why one channel's weights do not fit in shared memory; None if they do."""
    floats = s.K * s.K * 4 * tiles(even_maps(s)["MAPS"], 4)
    if floats <= MOST_WEIGHTS:
        return None
    return f"{floats} weights of a channel exceed a block's {MOST_WEIGHTS}"


def plan_implicit_gemm(s: ConvShape, p: Params) -> Iterator[Launch]:
    """Yield one thread per PIXELS pixels, numbered across all images."""
    pixels = s.H_out * s.W_out
    for first, images in _chunks(s.B, max(1, MOST_COLUMNS // pixels)):
        columns = images * pixels
        yield Launch(
            "conv_implicit_gemm",
            (tiles(columns, p["THREADS"] * p["PIXELS"]), tiles(s.M, p["MAPS"]), 1),
            (p["THREADS"], 1, 1),
            ("y", "x", "k"),
            (first, columns),
        )


def plan_tree(s: ConvShape, p: Params) -> tuple[Launch, ...]:
    """Launch a power of two of threads per output, each with at least one channel."""
    lanes = min(MOST_LANES, 1 << (s.C.bit_length() - 1))
    grid = tiles(s.H_out * s.W_out, p["PIXELS"]), s.M, min(s.B, MOST_GRID[2])
    block = p["PIXELS"], lanes, 1
    numbers = (s.B, s.C, s.H, s.W)
    shared = 4 * lanes * p["PIXELS"]
    return (Launch("conv_tree", grid, block, ("y", "x", "k"), numbers, shared),)


def plan_atomics(s: ConvShape, p: Params) -> tuple[Launch, ...]:
    """Launch zeroing of y, then one thread per output and CHANNELS channels."""
    threads = (p["THREADS"], 1, 1)
    zeros = tiles(s.B * s.floats_out, p["THREADS"] * ZEROS_A_THREAD), 1, 1
    parts = s.B * tiles(s.C, p["CHANNELS"])
    grid = tiles(s.H_out * s.W_out, p["THREADS"]), s.M, min(parts, MOST_GRID[2])
    numbers = (s.B, s.C, s.H, s.W)
    return (
        Launch("conv_atomics_zero", zeros, threads, ("y",), (s.B, s.floats_out)),
        Launch("conv_atomics", grid, threads, ("y", "x", "k"), numbers),
    )


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
        after="restrict_unroll",
        params={"TILE": 32, "ROWS": 8},
        fixed=("K",),
    ),
    Variant(
        "constant",
        "weights in constant memory",
        plan_constant,
        after="tiled",
        params={"TILE": 32, "ROWS": 8, "WEIGHTS": MOST_CONSTANT},
        fixed=("K",),
        constants=("weights",),
        refuses=too_big_for_constant,
    ),
    Variant(
        "unroll_gemm",
        "unroll the input to a matrix, multiply by tiles",
        plan_unroll_gemm,
        after="tiled",
        params={"TILE": 16, "THREADS": 256},
        scratch=matrix_bytes,
    ),
    Variant(
        "register_gemm",
        "many outputs per thread, in registers",
        plan_register_gemm,
        after="unroll_gemm",
        params={"THREADS": 128, "PIXELS": 2},
        tune=even_maps,
        scratch=matrix_bytes,
    ),
    Variant(
        "implicit_gemm",
        "multiply without storing the matrix",
        plan_implicit_gemm,
        after="register_gemm",
        params={"THREADS": 128, "PIXELS": 4},
        tune=even_maps_and_channels,
        fixed=("M", "C", "H", "W", "K"),
        refuses=too_big_a_window,
    ),
    Variant(
        "tree",
        "channels split over threads, added up by a tree",
        plan_tree,
        after="restrict_unroll",
        params={"PIXELS": 64},
        fixed=("K",),
    ),
    Variant(
        "atomics",
        "channels split over blocks, added up atomically",
        plan_atomics,
        after="restrict_unroll",
        params={"THREADS": 128, "CHANNELS": 4},
        fixed=("K",),
    ),
)
