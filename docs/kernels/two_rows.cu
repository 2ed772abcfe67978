// two_rows: a thread computes two pixels, one below the other.
//
// After naive: the windows of both pixels share K - 1 rows, so the second one needs only
// one more row of x.
// thread (tx, ty) of block (m, tile, b) -> y[b][m][h][w] and y[b][m][h + 1][w]
// Per pair: C (K + 1) K loads of x and C K K of k, 2 C K K multiply-adds.

#ifndef TILE
#error "TILE is set by project/plans/ladder.py"
#endif

extern "C" __global__ void conv_two_rows(float *__restrict__ y,
                                         const float *__restrict__ x,
                                         const float *__restrict__ k, int C, int H,
                                         int W, int K)
{
    const int H_OUT = H - K + 1, W_OUT = W - K + 1;
    const int across = (W_OUT + TILE - 1) / TILE;
    const int m = blockIdx.x, M = gridDim.x, b = blockIdx.z;
    const int h = 2 * (blockIdx.y / across * TILE + threadIdx.y);
    const int w = blockIdx.y % across * TILE + threadIdx.x;
    if (h >= H_OUT || w >= W_OUT)
        return;
    const bool second = h + 1 < H_OUT;

    float upper = 0, lower = 0;
    for (int c = 0; c < C; c++) {
        const float *window = x + (((size_t)b * C + c) * H + h) * W + w;
        const float *weights = k + (m * C + c) * K * K;
        for (int p = 0; p < K + second; p++)
            for (int q = 0; q < K; q++) {
                const float pixel = window[p * W + q];
                if (p < K)
                    upper += pixel * weights[p * K + q];
                if (p > 0 && second)
                    lower += pixel * weights[(p - 1) * K + q];
            }
    }
    float *pixel = y + (((size_t)b * M + m) * H_OUT + h) * W_OUT + w;
    pixel[0] = upper;
    if (second)
        pixel[W_OUT] = lower;
}
