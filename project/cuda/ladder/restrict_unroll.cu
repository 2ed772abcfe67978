// restrict_unroll: promise the compiler no aliasing, and unroll the loops over K x K.
//
// After naive: K is a constant, so the window's loops are unrolled and offsets are
// constants; __restrict__ allows reordering of loads and stores, and read-only loads.
// thread (tx, ty) of block (m, tile, b) -> y[b][m][h][w], h and w inside the tile
// Per output: the same loads and multiply-adds, a fraction of the address arithmetic.

#ifndef TILE
#error "TILE is set by project/plans/ladder.py"
#endif
#ifndef SHAPE_K
#error "SHAPE_K is set by project/plans/ladder.py"
#endif

constexpr int K = SHAPE_K;

extern "C" __global__ void conv_restrict_unroll(float *__restrict__ y, const float *__restrict__ x,
                                                const float *__restrict__ k, int C, int H, int W)
{
    const int H_OUT = H - K + 1, W_OUT = W - K + 1;
    const int across = (W_OUT + TILE - 1) / TILE;
    const int m = blockIdx.x, M = gridDim.x, b = blockIdx.z;
    const int h = blockIdx.y / across * TILE + threadIdx.y;
    const int w = blockIdx.y % across * TILE + threadIdx.x;
    if (h >= H_OUT || w >= W_OUT)
        return;

    const float *window = x + ((size_t)b * C * H + h) * W + w;
    const float *weights = k + m * C * K * K;
    float sum = 0;
    for (int c = 0; c < C; c++) {
#pragma unroll
        for (int p = 0; p < K; p++)
#pragma unroll
            for (int q = 0; q < K; q++)
                sum += window[p * W + q] * weights[p * K + q];
        window += H * W;
        weights += K * K;
    }
    y[(((size_t)b * M + m) * H_OUT + h) * W_OUT + w] = sum;
}
