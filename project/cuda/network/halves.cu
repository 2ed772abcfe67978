// halves: convert floats to half precision, for convolutions of class half.
//
// thread t of block (n, b) -> y[b][n * THREADS + t]
// Per output: four bytes read, two written.

#include <cuda_fp16.h>

#ifndef THREADS
#error "THREADS is set by project/plans/layers.py"
#endif

extern "C" __global__ void floats_to_halves(__half *__restrict__ y, const float *__restrict__ x,
                                            int length)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < length) {
        const size_t at = (size_t)blockIdx.y * length + i;
        y[at] = __float2half_rn(x[at]);
    }
}
