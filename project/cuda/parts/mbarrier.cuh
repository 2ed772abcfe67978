// mbarriers in shared memory (PTX ISA, mbarrier), for kernels with specialised warps; a
// barrier is passed as a pointer or as its shared address.

#pragma once

using Barrier = unsigned long long;

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void expect(unsigned barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals)
                 : "memory");
}

// An arrival releases only the arriving thread's own writes.
__device__ __forceinline__ void arrive(unsigned barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void wait(unsigned barrier, unsigned phase)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again%=:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again%=;\n"
                 "}\n" ::"r"(barrier),
                 "r"(phase)
                 : "memory");
}

// Call it after expect, before another thread arrives.
__device__ __forceinline__ void expected()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void expect(Barrier *barrier, int arrivals)
{
    expect(shared_address(barrier), arrivals);
}

__device__ __forceinline__ void arrive(Barrier *barrier) { arrive(shared_address(barrier)); }

__device__ __forceinline__ void wait(Barrier *barrier, unsigned phase)
{
    wait(shared_address(barrier), phase);
}
