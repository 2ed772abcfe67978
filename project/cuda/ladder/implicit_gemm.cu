// implicit_gemm: multiply by the unrolled matrix without storing it.
//
// After register_gemm: element (d, n) of the matrix is x[start of n + offset of d], so it
// is read from x. Loads are coalesced, and the repeated reads hit the L1 cache. The weights
// of CHANNELS channels are in shared memory at a time. All sizes, and so offsets, are
// constants.
// thread t of block (i, j) -> maps MAPS j + 0.. of pixels THREADS (PIXELS i + 0..) + t
// Per output: C K K (1 / MAPS + 1 / PIXELS) loads, C K K multiply-adds; no scratch.

#if !defined(THREADS) || !defined(PIXELS) || !defined(MAPS) || !defined(CHANNELS)
#error "THREADS, PIXELS, MAPS and CHANNELS are set by project/plans/ladder.py"
#endif
#if !defined(SHAPE_M) || !defined(SHAPE_C) || !defined(SHAPE_H) || !defined(SHAPE_W) || \
    !defined(SHAPE_K)
#error "the shape but its images is set by project/plans/ladder.py"
#endif

constexpr int M = SHAPE_M, C = SHAPE_C, H = SHAPE_H, W = SHAPE_W, K = SHAPE_K;
constexpr int W_OUT = W - K + 1, OUT = (H - K + 1) * W_OUT;
constexpr int PADDED = (MAPS + 3) / 4 * 4;  // four weights per load

extern "C" __global__ void __launch_bounds__(THREADS)
    conv_implicit_gemm(float *__restrict__ y, const float *__restrict__ x,
                       const float *__restrict__ k, int first, int columns)
{
    __shared__ __align__(16) float weights[CHANNELS * K * K][PADDED];
    const int left = blockIdx.x * THREADS * PIXELS + threadIdx.x;
    const int top = blockIdx.y * MAPS;
    const float *windows[PIXELS];
#pragma unroll
    for (int j = 0; j < PIXELS; j++) {
        const int n = min(left + THREADS * j, columns - 1);
        const int h = n % OUT / W_OUT, w = n % OUT % W_OUT;
        windows[j] = x + (size_t)(first + n / OUT) * C * H * W + h * W + w;
    }

    float sums[MAPS][PIXELS] = {};
    for (int from = 0; from < C; from += CHANNELS) {
        const int channels = min(CHANNELS, C - from);
        __syncthreads();
        for (int i = threadIdx.x; i < CHANNELS * K * K * MAPS; i += THREADS) {
            const int d = i % (CHANNELS * K * K), m = i / (CHANNELS * K * K);
            if (d < channels * K * K && top + m < M)
                weights[d][m] = k[((top + m) * C + from) * K * K + d];
        }
        __syncthreads();
#pragma unroll 2
        for (int row = 0; row < channels * K; row++) {
            const int offset = ((from + row / K) * H + row % K) * W;
#pragma unroll
            for (int q = 0; q < K; q++) {
                float taps[PIXELS];
#pragma unroll
                for (int j = 0; j < PIXELS; j++)
                    taps[j] = windows[j][offset + q];
#pragma unroll
                for (int m = 0; m < MAPS; m++)
#pragma unroll
                    for (int j = 0; j < PIXELS; j++)
                        sums[m][j] += weights[row * K + q][m] * taps[j];
            }
        }
    }

#pragma unroll
    for (int j = 0; j < PIXELS; j++) {
        const int n = left + THREADS * j;
        if (n >= columns)
            break;
        float *to = y + ((size_t)(first + n / OUT) * M + top) * OUT + n % OUT;
#pragma unroll
        for (int m = 0; m < MAPS; m++)
            if (top + m < M)
                to[m * OUT] = sums[m][j];
    }
}
