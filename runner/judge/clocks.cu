// The judge's clocks on the GPU; the player loads them beside a team's kernels.
//
// As kernels.cu says, they also compile for the CPU.
#ifndef JUDGE_ON_CPU
typedef unsigned long long u64;

static __device__ u64 now_ns()
{
    u64 ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

static __device__ u64 multiprocessor()
{
    unsigned int sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    return sm;
}
#endif

// Wait on the GPU, so that what is launched meanwhile begins without a gap.
extern "C" __global__ void judge_delay(u64 ns)
{
    const u64 began = now_ns();
    while (now_ns() - began < ns) {
    }
}

// Write the time and the cycle counter of each multiprocessor that runs a block.
extern "C" __global__ void judge_stamp(u64 *out, u64 most)
{
    const u64 sm = multiprocessor();
    if (threadIdx.x == 0 && sm < most) {
        out[2 * sm] = now_ns();
        out[2 * sm + 1] = (u64)clock64();
    }
}
