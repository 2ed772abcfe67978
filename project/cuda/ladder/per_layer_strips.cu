// per_layer_strips: eight multiplications for a strip of a row instead of twenty.
//
// After register_gemm: rows are divided into strips of WIDTH outputs. The Toom-Cook method
// (Winograd) transforms a strip's eight pixels to eight points (0, 1, -1, 2, -2, 1/2, -1/2,
// infinity), at which a row of weights is one factor per point. Sums over channels and rows
// of weights are transformed back once. Weights are transformed in double precision.
// lane of a warp -> a point of one of four strips: ROWS rows of four maps in registers
// Per output: C K 8 / WIDTH multiply-adds, and 1/15 as many accesses to shared memory.

#if !defined(ROWS) || !defined(GROUPS) || !defined(CHANNELS) || !defined(BLOCKS)
#error "ROWS, GROUPS, CHANNELS and BLOCKS are set by project/plans/per_layer.py"
#endif
#if !defined(SHAPE_C) || !defined(SHAPE_M) || !defined(SHAPE_K) || !defined(SHAPE_H) || \
    !defined(SHAPE_W)
#error "SHAPE_C, SHAPE_M, SHAPE_K, SHAPE_H and SHAPE_W are set by project/plans/per_layer.py"
#endif

#include "parts/per_layer.cuh"

constexpr int C = SHAPE_C, M = SHAPE_M, K = SHAPE_K, H = SHAPE_H, W = SHAPE_W;
constexpr int H_OUT = H - K + 1, W_OUT = W - K + 1;
constexpr int POINTS = 8, WIDTH = POINTS - K + 1;    // pixels of a strip: in, and out
constexpr int STRIPS = (W_OUT + WIDTH - 1) / WIDTH;  // of a row
constexpr int UNITS = 4;                             // strips of a block
constexpr int IMAGES = 1 + (UNITS - 1) / STRIPS + (STRIPS % UNITS && UNITS % STRIPS);
constexpr int MAPS = 4, THREADS = 32 * GROUPS;  // a warp has MAPS maps
constexpr int MAP_BLOCKS = (M + GROUPS * MAPS - 1) / (GROUPS * MAPS);
constexpr int PACKED = MAP_BLOCKS * GROUPS * K * POINTS;  // float4 of weights of a channel
constexpr int HEIGHT = ROWS + K - 1, STEPS = C / CHANNELS;
constexpr int PATCH = HEIGHT * W, CHUNK = CHANNELS * PATCH;
constexpr bool WHOLE = ROWS == H_OUT;  // no bands of rows
constexpr int FLOATS = WHOLE && CHUNK % 4 == 0 ? 4 : WHOLE && CHUNK % 2 == 0 ? 2 : 1;
// The strides avoid bank conflicts within a warp.
constexpr int RAW = (IMAGES * CHUNK + POINTS + 3) / 4 * 4;
constexpr int COLUMN = 4 * ((HEIGHT + 3) / 4 | 1), LIFTED = UNITS * POINTS * COLUMN;
constexpr int LANE = 20, SUMS = 32 * LANE + 32;  // of four rows of a warp
constexpr int LINE = UNITS * WIDTH, STRIDE = LINE + 4, PLANE = 4 * STRIDE + 8;
static_assert(C % CHANNELS == 0 && STEPS > 1, "two steps are on their way");

__device__ float4 lifted_weights[C * PACKED];

// Transform a map's row of weights: [channel][four maps][row][point], maps in swapped pairs.
extern "C" __global__ void conv_per_layer_strips_pack(const float *__restrict__ k)
{
    const double point[POINTS] = {0, 1, -1, 2, -2, .5, -.5, 0};
    const double factor[POINTS] = {-1, -2. / 9, -2. / 9, 1. / 90, 1. / 90, 32. / 45, 32. / 45, 1};
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= C * PACKED * MAPS)
        return;
    const int p = i / MAPS % POINTS, u = i / (MAPS * POINTS) % K;
    const int m = i / (MAPS * POINTS * K) * MAPS % (PACKED / (K * POINTS) * MAPS) + (i % MAPS ^ 1);
    const int c = i / (MAPS * PACKED);
    double sum = 0;
    if (m < M) {
        const float *row = k + ((m * C + c) * K + u) * K;
        sum = row[p == POINTS - 1 ? K - 1 : 0];
        double power = point[p];
        for (int v = 1; v < K && power != 0; v++, power *= point[p])
            sum += power * row[v];
        sum *= factor[p];
    }
    ((float *)lifted_weights)[i] = sum;
}

// Copy CHANNELS channels starting at c of the images of a task's strips.
__device__ __forceinline__ void fetch(float *raw, const float *x, int task, int B, int top, int c)
{
    const int first = task * UNITS / STRIPS;
#pragma unroll
    for (int n = 0; n < IMAGES; n++) {
        if (IMAGES > 1 && first + n >= B)
            break;
        const float *from = x + ((size_t)(first + n) * C + c) * (H * W) + top * W;
        float *to = raw + n * CHUNK;
        if (WHOLE) {
            const int at = FLOATS * threadIdx.x;
#pragma unroll
            for (int i = 0; i < CHUNK; i += FLOATS * THREADS)
                if (i + FLOATS * THREADS <= CHUNK || at < CHUNK - i)
                    copy<FLOATS>(to + at + i, from + at + i);
        } else {
            const int there = min(HEIGHT, H - top) * W;
#pragma unroll 1
            for (int d = 0; d < CHANNELS; d++)
                for (int i = threadIdx.x; i < there; i += THREADS)
                    copy<1>(to + d * PATCH + i, from + d * H * W + i);
        }
    }
}

// Transform every row of a task's strips to the points: [channel][strip][point][row].
__device__ __forceinline__ void lift(float *lifted, const float *raw, int task)
{
    const int begin = task * UNITS % STRIPS;
#pragma unroll
    for (int j = 0; j < UNITS * HEIGHT; j += THREADS) {
        const int at = threadIdx.x + j, row = at % HEIGHT, unit = at / HEIGHT;
        if (j + THREADS > UNITS * HEIGHT && at >= UNITS * HEIGHT)
            break;
        const int strip = (begin + unit) % STRIPS, n = (begin + unit) / STRIPS;
        const float *from = raw + n * CHUNK + row * W + strip * WIDTH;
        float *to = lifted + unit * POINTS * COLUMN + row;
#pragma unroll
        for (int d = 0; d < CHANNELS; d++, from += PATCH, to += LIFTED) {
            float x[POINTS];
#pragma unroll
            for (int i = 0; i < POINTS; i++)  // the last strip extends beyond the row
                x[i] = (STRIPS - 1) * WIDTH + i < W || strip < STRIPS - 1 ? from[i] : 0;
            to[0 * COLUMN] = (x[6] - x[0]) + 5.25f * (x[2] - x[4]);
            to[7 * COLUMN] = (x[7] - x[1]) + 5.25f * (x[3] - x[5]);
            float even = (x[2] + x[6]) - 4.25f * x[4], odd = (x[1] + x[5]) - 4.25f * x[3];
            to[1 * COLUMN] = even + odd;
            to[2 * COLUMN] = even - odd;
            even = x[6] + .25f * x[2] - 1.25f * x[4];
            odd = .5f * x[1] + 2 * x[5] - 2.5f * x[3];
            to[3 * COLUMN] = even + odd;
            to[4 * COLUMN] = even - odd;
            even = x[6] + 4 * x[2] - 5 * x[4];
            odd = 2 * x[1] + .5f * x[5] - 2.5f * x[3];
            to[5 * COLUMN] = even + odd;
            to[6 * COLUMN] = even - odd;
        }
    }
}

// Transform the points of a strip's row back: WIDTH outputs, and their size.
__device__ __forceinline__ float lower(float (&out)[WIDTH], const float (&at)[POINTS])
{
    const float sum1 = at[1] + at[2], sum2 = at[3] + at[4], sum3 = at[5] + at[6];
    const float less1 = at[1] - at[2], less2 = at[3] - at[4], less3 = at[5] - at[6];
    float twice = 1, half = 1, all = 0;
#pragma unroll
    for (int o = 0; o < WIDTH; o++, twice *= 2, half /= 2) {
        out[o] = o % 2 ? less1 + twice * less2 + half * less3 : sum1 + twice * sum2 + half * sum3;
        if (o == 0)
            out[o] += at[0];
        if (o == WIDTH - 1)
            out[o] += at[7];
        all += fabsf(out[o]);
    }
    return all;
}

// Whether no input or intermediate value was infinite or NaN.
__device__ __forceinline__ bool exact(float size) { return size <= 1e37f && size >= -1e37f; }

__device__ __noinline__ float direct(const float *x, const float *k, int b, int m, int h, int w)
{
    float sum = 0;
    for (int c = 0; c < C; c++)
        for (int u = 0; u < K; u++)
#pragma unroll 1
            for (int v = 0; v < K; v++)
                sum += x[(((size_t)b * C + c) * H + h + u) * W + w + v] *
                       k[((m * C + c) * K + u) * K + v];
    return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    conv_per_layer_strips(float *__restrict__ y, const float *__restrict__ x,
                          const float *__restrict__ k, int B)
{
    extern __shared__ float4 shared[];
    float *raw = (float *)shared, *lifted = raw + 2 * RAW;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int map = (blockIdx.y % MAP_BLOCKS * GROUPS + warp) * MAPS;
    const int top = blockIdx.y / MAP_BLOCKS * ROWS;
    const float4 *column = (const float4 *)(lifted + lane * COLUMN);
    const float4 *at_points = lifted_weights + map / MAPS * K * POINTS + lane % POINTS;

    // A warp's space for the inverse transformation: its sums, then its outputs.
    float *turn = lifted + 2 * CHANNELS * LIFTED + warp * (SUMS + 4 * PLANE);
    float *sums_at = turn + lane * LANE + (lane / 8 + 1) / 2 * 16, *stage = turn + SUMS;
    const int unit = lane / 8, row = lane / 2 % 4, two = lane % 2 * 2;
    const float *from = turn + unit * 8 * LANE + (unit + 1) / 2 * 16 + lane % 8 * 2;
    float *put = stage + two * PLANE + row * STRIDE + unit * WIDTH;

    const int tasks = (B * STRIPS + UNITS - 1) / UNITS;
    int parity = 0;
    fetch(raw, x, blockIdx.x, B, top, 0);
    fetch(raw + RAW, x, blockIdx.x, B, top, CHANNELS);
    float4 weights[K];
#pragma unroll
    for (int u = 0; u < K; u++)
        weights[u] = __ldg(at_points + u * POINTS);
    copied();
    __syncthreads();
    lift(lifted, raw, blockIdx.x);
    for (int task = blockIdx.x; task < tasks; task += gridDim.x) {
        float sums[ROWS][MAPS] = {};
#pragma unroll 1
        for (int step = 0; step < STEPS; step++) {
            copied();
            __syncthreads();
            // Load the step after the next, transform the next, multiply this one.
            const int second = step + 1 < STEPS ? task : task + gridDim.x;
            const int third = step + 2 < STEPS ? task : task + gridDim.x;
            if (third < tasks)
                fetch(raw + parity * RAW, x, third, B, top,
                      (step + 2 - (step + 2 < STEPS ? 0 : STEPS)) * CHANNELS);
            if (second < tasks)
                lift(lifted + (parity ^ 1) * CHANNELS * LIFTED, raw + (parity ^ 1) * RAW, second);
            const float4 *rows = column + parity * (CHANNELS * LIFTED / 4);
            parity ^= 1;
#pragma unroll 1
            for (int d = 0; d < CHANNELS; d++, rows += LIFTED / 4) {
                const int c = step * CHANNELS + d;
                const float4 *next = at_points + (c + 1 < C ? c + 1 : 0) * PACKED;
#pragma unroll
                for (int four = 0; four < HEIGHT; four += 4) {
                    const float4 read = rows[four / 4];
                    const float in[4] = {read.x, read.y, read.z, read.w};
#pragma unroll
                    for (int i = 0; i < 4; i++)
#pragma unroll
                        for (int u = 0; u < K; u++) {
                            const int r = four + i - u;
                            if (r < 0 || r >= ROWS)
                                continue;
                            // Registers of different parity can be read in one cycle, so
                            // pairs of weights are swapped relative to their sums.
                            sums[r][0] += in[i] * weights[u].y;
                            sums[r][1] += in[i] * weights[u].x;
                            sums[r][2] += in[i] * weights[u].w;
                            sums[r][3] += in[i] * weights[u].z;
                            if (r == ROWS - 1)  // its last use: the next channel's
                                weights[u] = __ldg(next + u * POINTS);
                        }
                }
            }
        }

        const int first = task * UNITS / STRIPS, begin = task * UNITS % STRIPS;
        const int at = begin + lane % LINE / WIDTH, b = first + at / STRIPS;
        const int w = at % STRIPS * WIDTH + lane % LINE % WIDTH;
        const bool there = lane < 32 / LINE * LINE && b < B && w < W_OUT;
        float *to = y + (((size_t)b * M + map) * H_OUT + top) * W_OUT + w;
        bool odd = false;
#pragma unroll
        for (int r = 0; r < ROWS; r += 4) {
            __syncwarp();
#pragma unroll
            for (int i = 0; i < 4 && r + i < ROWS; i++)
                *(float4 *)(sums_at + 4 * i) =
                    make_float4(sums[r + i][0], sums[r + i][1], sums[r + i][2], sums[r + i][3]);
            __syncwarp();
            float points[2][POINTS], out[WIDTH];
#pragma unroll
            for (int p = 0; p < POINTS; p++) {
                const float2 maps = *(const float2 *)(from + p * LANE);
                points[0][p] = maps.x, points[1][p] = maps.y;
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                odd |= !exact(lower(out, points[i]));
#pragma unroll
                for (int o = 0; o < WIDTH; o++)
                    put[i * PLANE + o] = out[o];
            }
            __syncwarp();
#pragma unroll
            for (int j = 0; j < 16; j += 32 / LINE) {
                const int line = j + lane / LINE, m = line / 4, i = line % 4;
                if (there && line < 16 && (r + 4 <= ROWS || r + i < ROWS) &&
                    (H_OUT % ROWS == 0 || top + r + i < H_OUT) &&
                    (M % (GROUPS * MAPS) == 0 || map + m < M))
                    to[(m * H_OUT + r + i) * W_OUT] = stage[m * PLANE + i * STRIDE + lane % LINE];
            }
        }
        // Infinity or NaN may come from a neighbouring pixel or a factor: compute directly.
        if (__any_sync(~0u, odd)) {
            __syncwarp();
#pragma unroll 1
            for (int i = lane; i < MAPS * ROWS * LINE; i += 32) {
                const int at = begin + i % LINE / WIDTH, b = first + at / STRIPS;
                const int w = at % STRIPS * WIDTH + i % WIDTH, h = top + i / LINE % ROWS;
                const int m = map + i / (LINE * ROWS);
                if (b >= B || w >= W_OUT || h >= H_OUT || m >= M)
                    continue;
                float *to = y + (((size_t)b * M + m) * H_OUT + h) * W_OUT + w;
                if (!exact(*(volatile float *)to))
                    *to = direct(x, k, b, m, h, w);
            }
        }
    }
}
