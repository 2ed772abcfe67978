// constant: the weights in constant memory, whose cache broadcasts to a whole warp.
//
// After tiled: all threads of a block read the same weight at the same time. The weights
// are copied to `weights` before each launch; 64 KiB hold at most WEIGHTS of them.
// thread (tx, ty) of block (m, tile, b) -> y[b][m][h][w], h and w inside the tile
// Per output: as tiled, without a load through the L1 cache per weight.

#if !defined(TILE) || !defined(ROWS) || !defined(WEIGHTS) || !defined(SHAPE_K)
#error "TILE, ROWS, WEIGHTS and SHAPE_K are set by project/plans/ladder.py"
#endif

constexpr int K = SHAPE_K;
constexpr int WIDE = TILE + K - 1, HALO = WIDE * (ROWS + K - 1);

extern "C" __constant__ float weights[WEIGHTS];

extern "C" __global__ void __launch_bounds__(TILE *ROWS)
    conv_constant(float *__restrict__ y, const float *__restrict__ x, int C, int H, int W)
{
    extern __shared__ float tile[];
    const int H_OUT = H - K + 1, W_OUT = W - K + 1;
    const int across = (W_OUT + TILE - 1) / TILE;
    const int m = blockIdx.x, M = gridDim.x, b = blockIdx.z;
    const int top = blockIdx.y / across * ROWS, left = blockIdx.y % across * TILE;
    const int h = top + threadIdx.y, w = left + threadIdx.x;
    const float *window = tile + threadIdx.y * WIDE + threadIdx.x;

    const float *image = x + (size_t)b * C * H * W;
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
                    sum += window[p * WIDE + q] * weights[((m * C + c) * K + p) * K + q];
        __syncthreads();
        image += H * W;
    }
    if (h < H_OUT && w < W_OUT)
        y[(((size_t)b * M + m) * H_OUT + h) * W_OUT + w] = sum;
}
