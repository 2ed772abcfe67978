// timing: what the benchmark launches beside the kernels that it times

#ifndef CHAINS
#error "CHAINS is set by project/lab/bench_gpu.py"
#endif

// Measure a GPU's peak rate of fp32 multiply-adds. Each thread has CHAINS independent sums in
// registers. They are stored only under a condition that is never true, so that the compiler cannot
// remove them. Cost: 2 x CHAINS flops per step and thread, no memory.
extern "C" __global__ void ceiling_fma(float *y, int steps)
{
    const float a = 1e-7f * threadIdx.x;
    float sums[CHAINS];
#pragma unroll
    for (int n = 0; n < CHAINS; n++)
        sums[n] = n * (blockIdx.x + 1);
#pragma unroll 8
    for (int step = 0; step < steps; step++)
#pragma unroll
        for (int n = 0; n < CHAINS; n++)
            sums[n] += sums[n] * a;
    float total = 0;
#pragma unroll
    for (int n = 0; n < CHAINS; n++)
        total += sums[n];
    if (total == -1)
        y[threadIdx.x] = total;
}

// Write the time in ns and the clock's cycles of each multiprocessor that runs a block.
extern "C" __global__ void stamp(unsigned long long (*at)[2], int most)
{
    int multiprocessor;
    unsigned long long ns;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    if (multiprocessor < most) {
        at[multiprocessor][0] = ns;
        at[multiprocessor][1] = clock64();
    }
}

// Do nothing: what a launch takes.
extern "C" __global__ void nothing(int)
{
}
