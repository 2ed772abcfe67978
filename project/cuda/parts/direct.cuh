// The convolution by the formula, in fp32 multiply-adds, a channel at a time: for images that a
// kernel on tensor cores cannot hold in its operands.

#pragma once

#include <cuda_fp16.h>

__device__ __forceinline__ float float_of(float x) { return x; }
__device__ __forceinline__ float float_of(__half x) { return __half2float(x); }

template <int C, int M, int H, int W, int K> struct Direct {
    static constexpr int PIXELS = 4;  // outputs that a thread computes at a time
    static constexpr int H_OUT = H - K + 1, W_OUT = W - K + 1, PLANE = H_OUT * W_OUT;
    static constexpr int EACH = (W_OUT + PIXELS - 1) / PIXELS;  // of a row, in pieces of PIXELS

    // One output, at the first pixel of its window in the first channel.
    template <typename Number>
    static __device__ __forceinline__ float output(const Number *x, const Number *k)
    {
        float sum = 0;
#pragma unroll 1
        for (int c = 0; c < C; c++) {
            float of_channel = 0;
#pragma unroll 1
            for (int u = 0; u < K; u++)
#pragma unroll
                for (int v = 0; v < K; v++)
                    of_channel = fmaf(float_of(x[(c * H + u) * W + v]),
                                      float_of(k[(c * K + u) * K + v]), of_channel);
            sum += of_channel;
        }
        return sum;
    }

    // Outputs of some maps of an image, by one of some threads.
    template <typename Number>
    static __device__ __forceinline__ void compute(float *y, const Number *x, const Number *k,
                                                   int maps, int thread, int threads)
    {
        for (int i = thread; i < maps * H_OUT * EACH; i += threads) {
            const int m = i / (H_OUT * EACH), row = i / EACH % H_OUT, column = i % EACH * PIXELS;
            const Number *const of_map = k + m * (C * K * K);
            float sum[PIXELS] = {};
#pragma unroll 1
            for (int c = 0; c < C; c++) {
                float of_channel[PIXELS] = {};
#pragma unroll(K <= 7 ? K : 1)  // many loads at once
                for (int u = 0; u < K; u++) {
                    const Number *const from = x + (c * H + row + u) * W + column;
                    float pixel[K + PIXELS - 1];
#pragma unroll
                    for (int j = 0; j < K + PIXELS - 1; j++)
                        pixel[j] = column + j < W ? float_of(from[j]) : 0;
#pragma unroll
                    for (int v = 0; v < K; v++) {
                        const float weight = float_of(of_map[(c * K + u) * K + v]);
#pragma unroll
                        for (int j = 0; j < PIXELS; j++)
                            of_channel[j] = fmaf(pixel[v + j], weight, of_channel[j]);
                    }
                }
#pragma unroll
                for (int j = 0; j < PIXELS; j++)
                    sum[j] += of_channel[j];
            }
#pragma unroll
            for (int j = 0; j < PIXELS; j++)
                if (column + j < W_OUT)
                    y[m * PLANE + row * W_OUT + column + j] = sum[j];
        }
    }
};
