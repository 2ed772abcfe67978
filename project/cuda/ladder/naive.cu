// naive: one thread per output pixel, directly by the formula.
//
// The first step of the ladder. A block computes TILE x TILE pixels of a map of an image.
// thread (tx, ty) of block (m, tile, b) -> y[b][m][h][w], h and w inside the tile
// Per output: 2 C K K loads from global memory (most hit caches), C K K multiply-adds.

#ifndef TILE
#error "TILE is set by project/plans/ladder.py"
#endif

extern "C" __global__ void conv_naive(float *y, const float *x, const float *k, int C, int H, int W,
                                      int K)
{
    const int H_OUT = H - K + 1, W_OUT = W - K + 1;
    const int across = (W_OUT + TILE - 1) / TILE;
    const int m = blockIdx.x, M = gridDim.x, b = blockIdx.z;
    const int h = blockIdx.y / across * TILE + threadIdx.y;
    const int w = blockIdx.y % across * TILE + threadIdx.x;
    if (h >= H_OUT || w >= W_OUT)
        return;

    float sum = 0;
    for (int c = 0; c < C; c++)
        for (int p = 0; p < K; p++)
            for (int q = 0; q < K; q++)
                sum += x[(((size_t)b * C + c) * H + h + p) * W + w + q] *
                       k[((m * C + c) * K + p) * K + q];
    y[(((size_t)b * M + m) * H_OUT + h) * W_OUT + w] = sum;
}
