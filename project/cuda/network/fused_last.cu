// fused_last: add the hidden layer's partial sums and bias, tanh, the last layer and softmax
//
// warp -> images warp, + warps, ...; a lane has every 32nd hidden output and its weights.
// Partial sums are added in a fixed order. The largest score is subtracted, so that no
// exponential overflows.
// Per image: its partial sums are read once, CLASSES floats are written.

#if !defined(HIDDEN) || !defined(PITCH) || !defined(CLASSES)
#error "HIDDEN, PITCH and CLASSES are set by project/gpu/forward.py"
#endif

constexpr int EACH = (HIDDEN + 31) / 32;

extern "C" __global__ void __launch_bounds__(256)
    fused_last(float *__restrict__ y, const float *__restrict__ parts,
               const float *__restrict__ hidden_bias, const float *__restrict__ weights,
               const float *__restrict__ bias, int images, int tile, int chunks, int pieces_of)
{
    const int lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32);
    float w[EACH][CLASSES], shift[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int at = lane + 32 * i;
        shift[i] = at < HIDDEN ? hidden_bias[at] : 0;
#pragma unroll
        for (int c = 0; c < CLASSES; c++)
            w[i][c] = at < HIDDEN ? weights[c * HIDDEN + at] : 0;
    }
    for (int n = (blockIdx.x * blockDim.x + threadIdx.x) / 32; n < images; n += warps) {
        const long long from = (long long)(n / tile) * chunks;
        const int count = (int)((from + chunks - 1) / pieces_of - from / pieces_of) + 1;
        float hidden[EACH] = {};
        // Few images have many partial sums, of which several are loaded at a time.
#pragma unroll 8
        for (int part = 0; part < count; part++) {
            const float *row = parts + ((size_t)part * images + n) * PITCH;
#pragma unroll
            for (int i = 0; i < EACH; i++)
                if (lane + 32 * i < HIDDEN)
                    hidden[i] += row[lane + 32 * i];
        }
        float scores[CLASSES] = {};
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            hidden[i] = tanhf(hidden[i] + shift[i]);
#pragma unroll
            for (int c = 0; c < CLASSES; c++)
                scores[c] = fmaf(hidden[i], w[i][c], scores[c]);
        }
        float largest = 0, mine = 0, sum = 0;
#pragma unroll
        for (int c = 0; c < CLASSES; c++) {
#pragma unroll
            for (int i = 16; i; i /= 2)
                scores[c] += __shfl_xor_sync(~0u, scores[c], i);
            scores[c] += bias[c];
            largest = c ? fmaxf(largest, scores[c]) : scores[c];
        }
#pragma unroll
        for (int c = 0; c < CLASSES; c++) {
            const float share = expf(scores[c] - largest);
            mine = c == lane ? share : mine;
            sum += share;
        }
        if (lane < CLASSES)
            y[(size_t)n * CLASSES + lane] = mine / sum;
    }
}
