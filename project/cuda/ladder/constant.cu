// constant: the weights in constant memory, whose cache broadcasts to a whole warp.
//
// After tiled: all threads of a block read the same weight at the same time. The weights
// are copied to `weights` before each launch; 64 KiB hold at most WEIGHTS of them.
// thread (tx, ty) of block (m, tile, b) -> y[b][m][h][w], h and w inside the tile
// Per output: as tiled, without a load from global memory per weight.

#ifndef TILE
#error "TILE is set by project/plans/ladder.py"
#endif
#ifndef WEIGHTS
#error "WEIGHTS is set by project/plans/ladder.py"
#endif

extern "C" __constant__ float weights[WEIGHTS];

extern "C" __global__ void conv_constant(float *__restrict__ y,
                                         const float *__restrict__ x, int C, int H, int W,
                                         int K)
{
    extern __shared__ float tile[];
    const int H_out = H - K + 1, W_out = W - K + 1;
    const int across = (W_out + TILE - 1) / TILE, halo = TILE + K - 1;
    const int m = blockIdx.x, M = gridDim.x, b = blockIdx.z;
    const int top = blockIdx.y / across * TILE, left = blockIdx.y % across * TILE;
    const int h = top + threadIdx.y, w = left + threadIdx.x;

    float sum = 0;
    for (int c = 0; c < C; c++) {
        const float *image = x + ((size_t)b * C + c) * H * W;
        for (int i = threadIdx.y; i < halo; i += TILE)
            for (int j = threadIdx.x; j < halo; j += TILE)
                if (top + i < H && left + j < W)
                    tile[i * halo + j] = image[(top + i) * W + left + j];
        __syncthreads();
        if (h < H_out && w < W_out)
            for (int p = 0; p < K; p++)
                for (int q = 0; q < K; q++)
                    sum += tile[(threadIdx.y + p) * halo + threadIdx.x + q] *
                           weights[((m * C + c) * K + p) * K + q];
        __syncthreads();
    }
    if (h < H_out && w < W_out)
        y[(((size_t)b * M + m) * H_out + h) * W_out + w] = sum;
}
