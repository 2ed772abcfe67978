// bytes: convert the images' pixels from bytes to floats.
//
// thread t of block (n, b) -> y[b][n * THREADS + t]
// Per output: one byte read, four written.

#ifndef THREADS
#error "THREADS is set by project/plans/layers.py"
#endif

extern "C" __global__ void bytes_to_floats(float *__restrict__ y,
                                           const unsigned char *__restrict__ x, int length)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < length) {
        const size_t at = (size_t)blockIdx.y * length + i;
        y[at] = x[at];
    }
}
