"""Handouts, and what a student writes into them."""

from __future__ import annotations

import re
from pathlib import Path

_PIXEL = """\
    const int across = (W_out + TILE - 1) / TILE, b = blockIdx.z, m = blockIdx.y;
    const int h = blockIdx.x / across * TILE + threadIdx.y;
    const int w = blockIdx.x % across * TILE + threadIdx.x;
"""
_SIZES = "    const int H_out = H - K + 1, W_out = W - K + 1;\n"
_Y = "y[(((size_t)b * M + m) * H_out + h) * W_out + w]"
_X = "x[(((size_t)b * C + c) * H + h + p) * W + w + q]"
_SUM = """\
    if (h >= H_out || w >= W_out)
        return;
    float sum = 0;
    for (int c = 0; c < C; c++)
        for (int p = 0; p < K; p++)
            for (int q = 0; q < K; q++)
                sum += X * WEIGHT;
    Y = sum;
"""
_FLAT = "k[((m * C + c) * K + p) * K + q]"


def _sum(x: str, weight: str, y: str) -> str:
    return (
        _SUM.replace("X *", f"{x} *").replace("WEIGHT", weight).replace("Y =", f"{y} =")
    )


SOLUTIONS = {
    "conv.cu": _PIXEL
    + _sum("x4d(b, c, h + p, w + q)", "k4d(m, c, p, q)", "y4d(b, m, h, w)"),
    "constant.cu": _SIZES + _PIXEL + _sum(_X, _FLAT.replace("k[", "weights["), _Y),
    "tiled.cu": _SIZES
    + _PIXEL
    + f"""\
    const int side = TILE + K - 1, top = h - threadIdx.y, left = w - threadIdx.x;
    float sum = 0;
    for (int c = 0; c < C; c++) {{
        for (int i = threadIdx.y; i < side; i += TILE)
            for (int j = threadIdx.x; j < side; j += TILE) {{
                const bool inside = top + i < H && left + j < W;
                const size_t row = ((size_t)b * C + c) * H + top + i;
                tile[i * side + j] = inside ? x[row * W + left + j] : 0;
            }}
        __syncthreads();
        for (int p = 0; p < K; p++)
            for (int q = 0; q < K; q++)
                sum += tile[(threadIdx.y + p) * side + threadIdx.x + q] * {_FLAT};
        __syncthreads();
    }}
    if (h < H_out && w < W_out)
        {_Y} = sum;
""",
    "registers.cu": _SIZES
    + _PIXEL.replace("m = blockIdx.y", "first = blockIdx.y * MAPS")
    + f"""\
    if (h >= H_out || w >= W_out)
        return;
    for (int c = 0; c < C; c++)
        for (int p = 0; p < K; p++)
            for (int q = 0; q < K; q++) {{
                const float pixel = {_X};
#pragma unroll
                for (int i = 0; i < MAPS; i++)
                    if (int m = first + i; m < M)
                        sums[i] += pixel * {_FLAT};
            }}
    for (int i = 0; i < MAPS; i++)
        if (int m = first + i; m < M)
            {_Y} = sums[i];
""",
    "convolution.cpp": """\
    const int H_out = H - K + 1, W_out = W - K + 1;
    for (int b = 0; b < B; b++)
        for (int m = 0; m < M; m++)
            for (int h = 0; h < H_out; h++)
                for (int w = 0; w < W_out; w++) {
"""
    + _sum(_X, _FLAT, _Y).split("return;\n")[1]
    + "    }\n",
}
"""What stands in the place of the TODO, by the file's name."""


def fill_in(folder: Path) -> None:
    """Solve a handout."""
    for name in {*SOLUTIONS} & {file.name for file in folder.iterdir()}:
        file = folder / name
        before, after = re.split(r"    // TODO[^}]*", file.read_text())
        file.write_text(before + SOLUTIONS[name] + after)
