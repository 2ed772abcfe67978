"""A project of the shape of the course's Mini-DNN editions, written for these tests."""

from __future__ import annotations

SIZES = "const int B, const int M, const int C, const int H, const int W, const int K"
LINES = (
    "cp /ece408/project/build/weights-86.bin /build",
    "cp -rv /src/custom/* /ece408/project/src/layer/custom",
    "cmake /ece408/project/ && make -j8",
)
"""Those of the course's build files."""

LOOPS = """
{
    const int rows = (H - K) / S + 1, columns = (W - K) / S + 1;
    for (int n = 0; n < B * M * rows * columns; n++) {
        const int column = n % columns, row = n / columns % rows;
        const int map = n / columns / rows;
        float sum = 0;
        for (int c = 0; c < C; c++)
            for (int p = 0; p < K; p++)
                for (int q = 0; q < K; q++)
                    sum += x[((map / M * C + c) * H + row * S + p) * W + column * S + q]
                        * k[((map % M * C + c) * K + p) * K + q];
        y[n] = sum;
    }
}
"""
KERNEL = "static __global__ void convolve(float *y, const float *x, const float *k, "


def project(year: int) -> dict[str, bytes]:
    """Return the files of an edition's project, which computes on the host alike."""
    sizes = SIZES + (", const int S" if year == 2023 else "")
    stride = "" if year == 2023 else "constexpr int S = 1;\n"
    given = "B, M, C, H, W, K" + (", S" if year == 2023 else "")
    cpu = f"void conv_forward_cpu(float *y, const float *x, const float *k, {sizes})"
    arrays = "float *y, const float *x, const float *k, "
    copies = {
        "_prolog": "const float *y, const float *x, const float *k, "
        f"float **to_y, float **to_x, float **to_k, {sizes}",
        "": arrays + sizes,
        "_epilog": f"float *y, float *from_y, float *from_x, float *from_k, {sizes}",
    }
    steps = copies if year > 2020 else {"": arrays + sizes}
    declared = "".join(f"void conv_forward_gpu{n}({a});\n" for n, a in steps.items())
    bodies = {"": f"{{ convolve<<<1, 1>>>(y, x, k, {given}); }}"}
    defined = "".join(
        f"void GPUInterface::conv_forward_gpu{n}({a})\n{bodies.get(n, '{}')}\n"
        for n, a in steps.items()
    )
    kernel = f'#include "gpu-new-forward.h"\n{stride}{KERNEL}{sizes}){LOOPS}{defined}'
    files = {
        "cpu-new-forward.h": f"#pragma once\n{cpu};\n",
        "cpu-new-forward.cc": f'#include "cpu-new-forward.h"\n{stride}{cpu}{LOOPS}',
        "gpu-new-forward.h": f"class GPUInterface {{ public:\n{declared}}};\n",
        "new-forward.cu": kernel,
        "new-forward-old.cu": "no CUDA: projects keep what they tried",
    }
    return {f"custom/{name}": text.encode() for name, text in files.items()}
