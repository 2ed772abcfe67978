// unroll_gemm: unroll the input to a matrix, then multiply matrices by tiles.
//
// After tiled: the convolution is the matrix product y = k matrix; a block loads a tile of
// each operand at a time. Images are computed in chunks, whose matrix is a scratch array.
// unroll: thread n of block row r -> K elements of column n (see unroll.cuh)
// multiply: thread (tx, ty) of block (i, j) -> map TILE j + ty of pixel TILE i + tx
// Per output: 2 C K K / TILE loads, C K K multiply-adds from shared memory. The matrix,
// K K times the input's size, is written once and read M / TILE times.

#if !defined(TILE) || !defined(THREADS)
#error "TILE and THREADS are set by project/plans/ladder.py"
#endif

#include "parts/unroll.cuh"

extern "C" __global__ void conv_unroll_gemm_unroll(float *__restrict__ matrix,
                                                   const float *__restrict__ x, int first,
                                                   int columns, int C, int H, int W, int K)
{
    const int n = blockIdx.x * THREADS + threadIdx.x;
    if (n < columns)
        unroll(matrix, x, n, blockIdx.y, columns, first, C, H, W, K);
}

extern "C" __global__ void conv_unroll_gemm(float *__restrict__ y, const float *__restrict__ matrix,
                                            const float *__restrict__ k, int first, int columns,
                                            int pixels, int M, int depth)
{
    __shared__ float weights[TILE][TILE], taps[TILE][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int n = blockIdx.x * TILE + tx, m = blockIdx.y * TILE + ty;

    float sum = 0;
    for (int from = 0; from < depth; from += TILE) {
        weights[ty][tx] = m < M && from + tx < depth ? k[m * depth + from + tx] : 0;
        taps[ty][tx] =
            n < columns && from + ty < depth ? matrix[(size_t)(from + ty) * columns + n] : 0;
        __syncthreads();
#pragma unroll
        for (int d = 0; d < TILE; d++)
            sum += weights[ty][d] * taps[d][tx];
        __syncthreads();
    }
    if (n < columns && m < M)
        y[((size_t)(first + n / pixels) * M + m) * pixels + n % pixels] = sum;
}
