// Bulk copies from shared to global memory (PTX ISA, cp.async.bulk). They are done by the TMA unit;
// the thread that starts one waits for it.

#pragma once

// Let copies and wgmma see what this thread wrote to shared memory.
__device__ __forceinline__ void publish()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Start a copy; addresses and bytes are multiples of 16.
__device__ __forceinline__ void start_copy(float *to, const float *from, int bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
                 "cp.async.bulk.commit_group;" ::"l"(to),
                 "r"((unsigned)__cvta_generic_to_shared(from)), "r"(bytes)
                 : "memory");
}

// Wait until all copies but the last PENDING have read their source.
template <int PENDING> __device__ __forceinline__ void wait_for_copies()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}
