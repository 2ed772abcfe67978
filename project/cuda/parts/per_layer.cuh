// Asynchronous copies to shared memory, for the kernels per_layer.

#pragma once

// Copy 1, 2 or 4 floats, aligned to their size.
template <int FLOATS> __device__ __forceinline__ void copy(float *to, const float *from)
{
#if __CUDA_ARCH__ >= 800
    const unsigned there = (unsigned)__cvta_generic_to_shared(to);
    if (FLOATS == 4)  // bypass the L1 cache, to keep weights there
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(there), "l"(from)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(there), "l"(from),
                     "n"(4 * FLOATS)
                     : "memory");
#else
#pragma unroll
    for (int i = 0; i < FLOATS; i++)
        to[i] = from[i];
#endif
}

// Wait for this thread's copies.
__device__ __forceinline__ void copied()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
