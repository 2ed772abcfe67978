// atomics: split the input channels over blocks, which add their sums to y atomically.
//
// After restrict_unroll: there are more blocks, so even a small batch fills the GPU. y must
// be zeroed first, and is read and written C / CHANNELS times. The order of additions, and
// so the last bit, varies between runs. Atomic additions flush subnormals (below 1.2e-38)
// to zero.
// thread t of block (i, m, z) -> pixel THREADS i + t of map m, of image z / parts, of
// the CHANNELS channels from (z % parts) CHANNELS on
// Per output: 2 C K K loads, C K K multiply-adds, C / CHANNELS atomic additions.

#if !defined(THREADS) || !defined(CHANNELS) || !defined(SHAPE_K)
#error "THREADS, CHANNELS and SHAPE_K are set by project/plans/ladder.py"
#endif

constexpr int K = SHAPE_K;

extern "C" __global__ void conv_atomics_zero(float *y, int images, int floats)
{
    const size_t stride = (size_t)gridDim.x * THREADS, all = (size_t)images * floats;
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < all; i += stride)
        y[i] = 0;
}

extern "C" __global__ void conv_atomics(float *__restrict__ y, const float *__restrict__ x,
                                        const float *__restrict__ k, int B, int C, int H, int W)
{
    const int W_OUT = W - K + 1, pixels = (H - K + 1) * W_OUT;
    const int parts = (C + CHANNELS - 1) / CHANNELS;
    const int m = blockIdx.y, M = gridDim.y;
    const int pixel = blockIdx.x * THREADS + threadIdx.x;
    if (pixel >= pixels)
        return;

    const size_t all = (size_t)B * parts;
    for (size_t z = blockIdx.z; z < all; z += gridDim.z) {
        const size_t b = z / parts;
        const int first = z % parts * CHANNELS;
        const float *window = x + ((b * C + first) * H + pixel / W_OUT) * W + pixel % W_OUT;
        const float *weights = k + (m * C + first) * K * K;
        float sum = 0;
        for (int c = first; c < min(first + CHANNELS, C); c++) {
#pragma unroll
            for (int p = 0; p < K; p++)
#pragma unroll
                for (int q = 0; q < K; q++)
                    sum += window[p * W + q] * weights[p * K + q];
            window += H * W;
            weights += K * K;
        }
        atomicAdd(&y[(b * M + m) * pixels + pixel], sum);
    }
}
