// Unroll the input of some images to a matrix, for unroll_gemm and register_gemm.
//
// Column n is an output pixel, numbered across the images starting at `first`; row
// (c K + p) K + q is the pixel of x that is multiplied with weight (p, q) of channel c.

#pragma once

// Write K elements of column n: those of row p of the window in channel c.
__device__ void unroll(float *__restrict__ matrix, const float *__restrict__ x, int n, int row,
                       int columns, int first, int C, int H, int W, int K)
{
    const int W_OUT = W - K + 1, pixels = (H - K + 1) * W_OUT;
    const int c = row / K, p = row % K;
    const int h = n % pixels / W_OUT, w = n % pixels % W_OUT;
    const float *from = x + (((size_t)(first + n / pixels) * C + c) * H + h + p) * W + w;
    float *to = matrix + (size_t)row * K * columns + n;
    for (int q = 0; q < K; q++)
        to[(size_t)q * columns] = from[q];
}
