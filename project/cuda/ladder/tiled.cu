// tiled: a block loads its input tile, with its halo, to shared memory.
//
// After naive: neighbouring threads read the same pixels, so the block loads each pixel
// once per channel. The tile with its halo is TILE + K - 1 wide.
// thread (tx, ty) of block (m, tile, b) -> y[b][m][h][w], h and w inside the tile
// Per output: C (1 + (K - 1) / TILE)^2 pixels from global memory instead of C K K.

#ifndef TILE
#error "TILE is set by project/plans/ladder.py"
#endif

extern "C" __global__ void conv_tiled(float *__restrict__ y, const float *__restrict__ x,
                                      const float *__restrict__ k, int C, int H, int W,
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
                           k[((m * C + c) * K + p) * K + q];
        __syncthreads();
    }
    if (h < H_out && w < W_out)
        y[(((size_t)b * M + m) * H_out + h) * W_out + w] = sum;
}
