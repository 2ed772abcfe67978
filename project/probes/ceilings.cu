// ceilings: how many multiply-adds a GPU can do when nothing else keeps it waiting
//
// Each thread has CHAINS sums that do not depend on each other; none leaves its
// registers. The sums are stored only if they are what they cannot be, so that the
// compiler keeps them. Cost: 2 x CHAINS flops a step and thread, no memory.

#ifndef CHAINS
#error "CHAINS is set by project/bench_gpu.py"
#endif

extern "C" __global__ void ceiling_fma(float *y, int steps) {
    const float a = 1e-7f * threadIdx.x;
    float sums[CHAINS];
#pragma unroll
    for (int n = 0; n < CHAINS; n++) sums[n] = n * (blockIdx.x + 1);
#pragma unroll 8
    for (int step = 0; step < steps; step++)
#pragma unroll
        for (int n = 0; n < CHAINS; n++) sums[n] += sums[n] * a;
    float total = 0;
#pragma unroll
    for (int n = 0; n < CHAINS; n++) total += sums[n];
    if (total == -1) y[threadIdx.x] = total;
}
