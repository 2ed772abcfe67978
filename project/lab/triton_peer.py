"""A convolution in Triton, another way to fp32's accuracy on tensor cores.

It is an implicit product of matrices: pixels x taps times taps x maps, in float32 of
which Triton makes three products of tf32.
"""

# ruff: noqa: ANN001, ANN202
# Triton reads the annotations, so they are not postponed.
from collections.abc import Iterator
from itertools import product

import torch
import triton
from course.shapes import ConvShape
from lab.measurement import Way
from torch import Tensor
from triton import language as tl

TRIED = (64, 128), (32, 64), (4, 8)  # rows, taps at a time, warps


@triton.jit
def _convolve(
    x,
    k,
    y,
    total,
    M: tl.constexpr,
    C: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    TAPS: tl.constexpr,
):
    W_OUT: tl.constexpr = W - K + 1
    PLANE: tl.constexpr = (H - K + 1) * W_OUT
    WINDOW: tl.constexpr = C * K * K
    pixel = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    image, at = pixel // PLANE, pixel % PLANE
    corner = image * (C * H * W) + at // W_OUT * W + at % W_OUT
    m = tl.arange(0, COLUMNS)
    sums = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for first in range(0, WINDOW, TAPS):
        tap = first + tl.arange(0, TAPS)
        c, u, v = tap // (K * K), tap % (K * K) // K, tap % K
        there = tap < WINDOW
        a = tl.load(
            x + corner[:, None] + (c * (H * W) + u * W + v)[None, :],
            mask=(pixel < total)[:, None] & there[None, :],
            other=0.0,
        )
        b = tl.load(
            k + m[None, :] * WINDOW + tap[:, None],
            mask=(m < M)[None, :] & there[:, None],
            other=0.0,
        )
        sums = tl.dot(a, b, sums, input_precision="tf32x3")
    tl.store(
        y + (image * (M * PLANE) + at)[:, None] + m[None, :] * PLANE,
        sums,
        mask=(pixel < total)[:, None] & (m < M)[None, :],
    )


def ways(s: ConvShape, x: Tensor, k: Tensor) -> Iterator[Way]:
    """Yield the convolution with each parameters to try; fewer than 2^31 elements."""
    y = torch.empty(s.B, s.M, s.H_out, s.W_out, device="cuda")
    total = s.B * s.H_out * s.W_out
    columns = max(16, triton.next_power_of_2(s.M))
    for rows, taps, warps in product(*TRIED):
        sizes = (s.M, s.C, s.H, s.W, s.K, rows, columns, taps)
        grid = (triton.cdiv(total, rows),)

        def way(grid=grid, sizes=sizes, warps=warps) -> Tensor:
            _convolve[grid](x, k, y, total, *sizes, num_warps=warps)
            return y

        yield way
