#include "minidnn.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <stdexcept>
#include <unistd.h>

#include "gpu-new-forward.h"

#ifdef STRIDED
#define SHAPE s.B, s.M, s.C, s.H, s.W, s.K, s.S
#else
#define SHAPE s.B, s.M, s.C, s.H, s.W, s.K
#endif

void conv_gpu(float *y, float *x, float *k, const Shape &s)
{
    using Clock = std::chrono::steady_clock;
    using Milliseconds = std::chrono::duration<float, std::milli>;
    GPUInterface gpu;
    std::cout << "Conv-GPU==" << std::endl;
    // The driver starts, whose time counts nowhere. CUDA calls one that is missing too old.
    if (cudaError_t error = cudaFree(nullptr); error != cudaSuccess) {
        const bool missing = access("/dev/nvidiactl", F_OK) && access("/dev/dxg", F_OK);
        error = missing ? cudaErrorNoDevice : error;
        throw std::runtime_error(std::string("CUDA does not start: ") + cudaGetErrorString(error));
    }
    const auto begin = Clock::now();
#ifdef THREE_STEPS
    float *there_y = nullptr, *there_x = nullptr, *there_k = nullptr;
    gpu.conv_forward_gpu_prolog(y, x, k, &there_y, &there_x, &there_k, SHAPE);
#ifdef CLEARED
    std::fill_n(y, s.outputs(), NAN);
    if (cudaMemset(there_y, 255, s.outputs() * sizeof(float)) != cudaSuccess) // NaN
        throw std::runtime_error("conv_forward_gpu_prolog gives no array of the GPU for the output");
    cudaDeviceSynchronize();
#endif
    const auto start = Clock::now();
    gpu.conv_forward_gpu(there_y, there_x, there_k, SHAPE);
    cudaDeviceSynchronize();
    const Milliseconds op = Clock::now() - start;
    gpu.conv_forward_gpu_epilog(y, there_y, there_x, there_k, SHAPE);
    const Milliseconds layer = Clock::now() - begin;
    std::cout << "Layer Time: " << layer.count() << " ms" << std::endl;
#else
    gpu.conv_forward_gpu(y, x, k, SHAPE);
    cudaDeviceSynchronize();
    const Milliseconds op = Clock::now() - begin;
#endif
    std::cout << "Op Time: " << op.count() << " ms" << std::endl;
    // A project may have looked at no error: the answer is wrong then, and this says why.
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess)
        std::cerr << "CUDA error: " << cudaGetErrorString(error) << std::endl;
}
