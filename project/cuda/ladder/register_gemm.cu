// register_gemm: each thread holds the sums of many maps and several pixels in registers.
//
// After unroll_gemm: a weight from shared memory is used for PIXELS multiply-adds, and an
// element of the matrix for MAPS. Only one thread needs that element, so it is loaded to a
// register. More than MAPS maps are divided among blocks.
// thread t of block (i, j) -> maps MAPS j + 0.. of pixels THREADS (PIXELS i + 0..) + t
// Per output: C K K (1 / MAPS + 1 / PIXELS) loads, C K K multiply-adds.

#if !defined(THREADS) || !defined(PIXELS) || !defined(MAPS)
#error "THREADS, PIXELS and MAPS are set by project/plans/ladder.py"
#endif

#include "parts/unroll.cuh"

constexpr int PADDED = (MAPS + 3) / 4 * 4;  // four weights per load
constexpr int DEPTH = 64;                   // rows of the matrix between two barriers

extern "C" __global__ void conv_register_gemm_unroll(float *__restrict__ matrix,
                                                     const float *__restrict__ x, int first,
                                                     int columns, int C, int H, int W, int K)
{
    const int n = blockIdx.x * THREADS + threadIdx.x;
    if (n < columns)
        unroll(matrix, x, n, blockIdx.y, columns, first, C, H, W, K);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    conv_register_gemm(float *__restrict__ y, const float *__restrict__ matrix,
                       const float *__restrict__ k, int first, int columns, int pixels, int M,
                       int depth)
{
    __shared__ __align__(16) float weights[DEPTH][PADDED];
    const int left = blockIdx.x * THREADS * PIXELS + threadIdx.x;
    const int top = blockIdx.y * MAPS;
    int column[PIXELS];
#pragma unroll
    for (int j = 0; j < PIXELS; j++)
        column[j] = min(left + THREADS * j, columns - 1);

    float sums[MAPS][PIXELS] = {};
    for (int from = 0; from < depth; from += DEPTH) {
        const int rows = min(DEPTH, depth - from);
        __syncthreads();
        for (int i = threadIdx.x; i < DEPTH * MAPS; i += THREADS) {
            const int d = i % DEPTH, m = i / DEPTH;
            if (d < rows && top + m < M)
                weights[d][m] = k[(top + m) * depth + from + d];
        }
        __syncthreads();
#pragma unroll 4
        for (int d = 0; d < rows; d++) {
            const float *row = matrix + (size_t)(from + d) * columns;
            float taps[PIXELS];
#pragma unroll
            for (int j = 0; j < PIXELS; j++)
                taps[j] = row[column[j]];
#pragma unroll
            for (int m = 0; m < MAPS; m++)
#pragma unroll
                for (int j = 0; j < PIXELS; j++)
                    sums[m][j] += weights[d][m] * taps[j];
        }
    }

#pragma unroll
    for (int j = 0; j < PIXELS; j++) {
        if (left + THREADS * j >= columns)
            break;
        const int image = column[j] / pixels, pixel = column[j] % pixels;
        float *to = y + ((size_t)(first + image) * M + top) * pixels + pixel;
#pragma unroll
        for (int m = 0; m < MAPS; m++)
            if (top + m < M)
                to[(size_t)m * pixels] = sums[m][j];
    }
}
