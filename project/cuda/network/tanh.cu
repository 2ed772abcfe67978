// tanh: apply the hyperbolic tangent in place.
//
// thread t of block (n, b) -> y[b][n * THREADS + t]
// Per output: one float read and written; the error of tanhf is one or two ulp.

#ifndef THREADS
#error "THREADS is set by project/plans/layers.py"
#endif

extern "C" __global__ void tanh_in_place(float *y, int length)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < length) {
        const size_t at = (size_t)blockIdx.y * length + i;
        y[at] = tanhf(y[at]);
    }
}
