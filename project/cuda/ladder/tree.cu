// tree: split the input channels over a block's threads; sum with a tree reduction.
//
// After restrict_unroll: `lanes` threads compute one output; lane l sums channels l,
// l + lanes, ... The partial sums are reduced in shared memory in log2(lanes) steps, each
// of which adds one half to the other.
// threads (t, 0..lanes) of block (i, m, b) -> pixel PIXELS i + t of y[b][m]
// Per output: 2 C K K loads and C K K multiply-adds, by `lanes` threads in parallel; `lanes`
// stores and loads in shared memory, log2(lanes) barriers.

#if !defined(PIXELS) || !defined(SHAPE_K)
#error "PIXELS and SHAPE_K are set by project/plans/ladder.py"
#endif

constexpr int K = SHAPE_K;

extern "C" __global__ void conv_tree(float *__restrict__ y, const float *__restrict__ x,
                                     const float *__restrict__ k, int B, int C, int H, int W)
{
    extern __shared__ float partial[];
    const int W_OUT = W - K + 1, pixels = (H - K + 1) * W_OUT;
    const int lane = threadIdx.y, lanes = blockDim.y;
    const int m = blockIdx.y, M = gridDim.y;
    const int pixel = blockIdx.x * PIXELS + threadIdx.x;
    const int within = min(pixel, pixels - 1);
    float *mine = partial + lane * PIXELS + threadIdx.x;

    for (int b = blockIdx.z; b < B; b += gridDim.z) {
        const float *image = x + (size_t)b * C * H * W;
        float sum = 0;
        for (int c = lane; c < C; c += lanes) {
            const float *window = image + (c * H + within / W_OUT) * W + within % W_OUT;
            const float *weights = k + (m * C + c) * K * K;
#pragma unroll
            for (int p = 0; p < K; p++)
#pragma unroll
                for (int q = 0; q < K; q++)
                    sum += window[p * W + q] * weights[p * K + q];
        }
        *mine = sum;
        for (int half = lanes / 2; half > 0; half /= 2) {
            __syncthreads();
            if (lane < half)
                *mine += mine[half * PIXELS];
        }
        if (lane == 0 && pixel < pixels)
            y[((size_t)b * M + m) * pixels + pixel] = *mine;
        __syncthreads();
    }
}
