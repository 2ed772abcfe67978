// cpu.h: enough of CUDA to run a small kernel on the CPU, one block after another.
//
// Each thread of a block is a thread of the CPU. It has what is below: no warps, no streams.
#pragma once
#include <atomic>
#include <barrier>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __shared__ static // the next block finds what the last one left, as on a GPU

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
inline thread_local dim3 threadIdx;
inline dim3 blockIdx, blockDim, gridDim;
inline std::unique_ptr<std::barrier<>> block_barrier;

inline void __syncthreads() { block_barrier->arrive_and_wait(); }
inline float atomicAdd(float *at, float more) { return std::atomic_ref(*at).fetch_add(more); }

template <class T> int cudaMallocManaged(T **memory, size_t bytes)
{
    return !(*memory = static_cast<T *>(std::calloc(1, bytes)));
}
inline int cudaDeviceSynchronize() { return 0; }

template <class Kernel, class... Arguments>
void launch(Kernel kernel, dim3 grid, dim3 block, Arguments... arguments)
{
    gridDim = grid, blockDim = block;
    for (unsigned n = 0; n < grid.x * grid.y * grid.z; n++) {
        blockIdx = dim3(n % grid.x, n / grid.x % grid.y, n / grid.x / grid.y);
        const unsigned size = block.x * block.y * block.z;
        block_barrier = std::make_unique<std::barrier<>>(size);
        std::vector<std::jthread> threads;
        for (unsigned t = 0; t < size; t++)
            threads.emplace_back([=] {
                threadIdx = dim3(t % block.x, t / block.x % block.y, t / block.x / block.y);
                kernel(arguments...);
                block_barrier->arrive_and_drop(); // the others do not wait for it any more
            });
    }
}
