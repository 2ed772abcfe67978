// new-forward.cu: a convolution on the GPU; gpu-new-forward.h says what each function does.
#include <cstdio>
#include <cstdlib>
#include "gpu-new-forward.h"

#define TILE 16

// After each call of CUDA: check(cudaMalloc(...)).
static void check(cudaError_t status)
{
    if (status != cudaSuccess) {
        std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(status));
        std::exit(1);
    }
}

// y[b][m][h][w] is the sum of x[b][c][h + p][w + q] * k[m][c][p][q] over all c, p and q.
__global__ void conv_forward(float *y, const float *x, const float *k, int B, int M, int C, int H, int W, int K)
{
    // TODO: 1. Let each thread compute one number of y: find its b, m, h and w.
}

void GPUInterface::conv_forward_gpu_prolog(const float *host_output, const float *host_input, const float *host_mask,
                                           float **device_output_ptr, float **device_input_ptr,
                                           float **device_mask_ptr, const int B, const int M, const int C,
                                           const int H, const int W, const int K)
{
    // TODO: 2. Three cudaMalloc, two cudaMemcpy.
}

void GPUInterface::conv_forward_gpu(float *device_output, const float *device_input, const float *device_mask,
                                    const int B, const int M, const int C, const int H, const int W, const int K)
{
    // TODO: 3. Launch the kernel with blocks of TILE x TILE threads, as many as there are numbers.
    check(cudaGetLastError());
}

void GPUInterface::conv_forward_gpu_epilog(float *host_output, float *device_output, float *device_input,
                                           float *device_mask, const int B, const int M, const int C, const int H,
                                           const int W, const int K)
{
    // TODO: 4. One cudaMemcpy, which waits for the kernel and says if it failed; three cudaFree.
}
