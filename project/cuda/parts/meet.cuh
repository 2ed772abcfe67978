// A meeting of all blocks, so that they read at the same time: DRAM is slow at switching between
// reading and writing.

#pragma once

namespace meeting
{

constexpr long long PATIENCE = 20000;  // cycles that a block waits: not all need be running

__device__ unsigned arrivals, departures;

// A thread of every block calls this equally often, then `leave`.
__device__ __forceinline__ void meet()
{
    const unsigned all = (atomicAdd(&arrivals, 1) / gridDim.x + 1) * gridDim.x;
    const long long start = clock64();
    volatile unsigned *const now = &arrivals;
    while ((int)(*now - all) < 0 && clock64() - start < PATIENCE)
        ;
}

__device__ __forceinline__ void leave()
{
    if (atomicInc(&departures, gridDim.x - 1) == gridDim.x - 1)
        arrivals = 0;
}

}  // namespace meeting
