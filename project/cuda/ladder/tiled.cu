// tiled: a block loads its input tile, with its halo, to shared memory.
//
// After restrict_unroll: neighbouring threads read the same pixels, so the block loads each
// pixel once per channel. A warp is one row of 32 columns: it reads 32 neighbouring words, in
// as many banks, and its loads and stores are runs of 128 bytes.
// thread (tx, ty) of block (m, tile, b) -> y[b][m][h][w], h and w inside the tile
// Per output: C K K pixels from shared memory, and from global memory C (1 + (K - 1) / 32)
// (1 + (K - 1) / ROWS) pixels and C K K weights, one for a whole warp.

#if !defined(TILE) || !defined(ROWS) || !defined(SHAPE_K)
#error "TILE, ROWS and SHAPE_K are set by project/plans/ladder.py"
#endif

constexpr int K = SHAPE_K;
constexpr int WIDE = TILE + K - 1, HALO = WIDE * (ROWS + K - 1);

extern "C" __global__ void __launch_bounds__(TILE *ROWS)
    conv_tiled(float *__restrict__ y, const float *__restrict__ x, const float *__restrict__ k,
               int C, int H, int W)
{
    extern __shared__ float tile[];
    const int H_OUT = H - K + 1, W_OUT = W - K + 1;
    const int across = (W_OUT + TILE - 1) / TILE;
    const int m = blockIdx.x, M = gridDim.x, b = blockIdx.z;
    const int top = blockIdx.y / across * ROWS, left = blockIdx.y % across * TILE;
    const int h = top + threadIdx.y, w = left + threadIdx.x;
    const float *window = tile + threadIdx.y * WIDE + threadIdx.x;

    const float *image = x + (size_t)b * C * H * W;
    const float *weights = k + m * C * K * K;
    float sum = 0;
    for (int c = 0; c < C; c++) {
        for (int i = threadIdx.y * TILE + threadIdx.x; i < HALO; i += TILE * ROWS) {
            const int row = top + i / WIDE, column = left + i % WIDE;
            tile[i] = row < H && column < W ? image[row * W + column] : 0;
        }
        __syncthreads();
        if (h < H_OUT && w < W_OUT)
#pragma unroll
            for (int p = 0; p < K; p++)
#pragma unroll
                for (int q = 0; q < K; q++)
                    sum += window[p * WIDE + q] * weights[p * K + q];
        __syncthreads();
        image += H * W;
        weights += K * K;
    }
    if (h < H_OUT && w < W_OUT)
        y[(((size_t)b * M + m) * H_OUT + h) * W_OUT + w] = sum;
}
