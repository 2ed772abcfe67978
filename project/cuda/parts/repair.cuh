// Compute by the formula the images that a kernel leaves out, because halves cannot hold them.
//
// Tensor cores multiply halves, whose range is 2^33 with one scale. An image or weights of a larger
// range, with Inf or NaN, or so large or small that scales overflow, is added to a list. This
// kernel is launched next, and usually finds the list empty.

#pragma once

#include "parts/direct.cuh"

namespace repair
{

constexpr int BLOCK = 256;

__device__ unsigned left_out, finished;  // images in the list; blocks that are done with it

// Add an image to the list, which has room for every call.
__device__ __forceinline__ void leave_out(int *list, int image)
{
    list[atomicAdd(&left_out, 1)] = image;
}

// block j -> every n-th of the maps of all images in the list
template <int C, int M, int H, int W, int K, typename Number>
__device__ __forceinline__ void repair(float *y, const Number *x, const Number *k, const int *list)
{
    using Shape = Direct<C, M, H, W, K>;
    const int units = left_out * M;
    for (int i = blockIdx.x; i < units; i += gridDim.x) {
        const size_t image = list[i / M], m = i % M;
        Shape::compute(y + (image * M + m) * Shape::PLANE, x + image * (C * H * W),
                       k + m * (C * K * K), 1, threadIdx.x, BLOCK);
    }
    __syncthreads();
    if (threadIdx.x == 0 && atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1)
        left_out = 0;
}

}  // namespace repair
