// best_small: few images, divided into bands, in three products of halves on tensor cores.
//
// With no more images than multiprocessors, latency is the limit. Therefore the output rows
// of all images are divided evenly, ROWS per block, which issues the loads of its pixels and
// weights all at once. Operands are scaled by a power of two for each map and for each image
// of a band, and split, x = high + low in fp16; high high is summed separately from high low
// + low high. A unit of depth is 4 channels of one tap, so that a thread reads a fragment at
// the sum of a pixel's and a unit's address. What halves cannot represent (infinities, NaN,
// sums near the end of fp32's range) is computed directly.
// a warp of a block -> 16 TILES pixels of its band, all maps
// Per output: 3 C K K products, 2048 per instruction.

#include "parts/mbarrier.cuh"
#include <cuda_fp16.h>

#if !defined(SHAPE_M) || !defined(SHAPE_C) || !defined(SHAPE_H) || !defined(SHAPE_W) || \
    !defined(SHAPE_K)
#error "the shape but its images is set by project/plans/best_small.py"
#endif
#if !defined(ROWS) || !defined(WARPS) || !defined(TILES)
#error "ROWS, WARPS and TILES are set by project/plans/best_small.py"
#endif

namespace
{

constexpr int M = SHAPE_M, C = SHAPE_C, H = SHAPE_H, W = SHAPE_W, K = SHAPE_K;
constexpr int H_OUT = H - K + 1, W_OUT = W - K + 1, TAPS = K * K;
constexpr int PLANE_IN = H * W, PLANE_OUT = H_OUT * W_OUT;
constexpr int THREADS = 32 * WARPS;

constexpr int over(int a, int b) { return (a + b - 1) / b; }

constexpr int COLUMNS = over(M, 8);  // groups of 8 maps
constexpr int QUADS = over(C, 4);    // groups of 4 channels
constexpr int UNITS = QUADS * TAPS;
constexpr int STEPS = over(UNITS, 4);

// The images of a batch are stacked to one tall image, and so are their outputs, each with
// K - 1 rows fewer; a band of the output may belong to several images.
constexpr int IMAGES = (ROWS + H_OUT - 2) / H_OUT + 1;
constexpr int SLOTS = ROWS + (K - 1) * IMAGES;  // rows of input

// In words of two channels: 8 pixels of 4 rows, or of 4 groups of channels, are in
// different banks.
constexpr int PITCH = over(W - 8, 32) * 32 + 8;
constexpr int PLANE = over(SLOTS * PITCH - 8, 32) * 32 + 8;

// Elements that a thread loads at once.
constexpr int PIXELS_EACH = over(SLOTS * W, THREADS);
constexpr int MAPS_EACH = over(8 * COLUMNS, WARPS);
constexpr int UNITS_EACH = over(UNITS, 32);

constexpr int STAGE_PITCH = 16 * TILES + 4;
constexpr int STAGE_EACH = over(16 * TILES, 32);

struct Shared {
    unsigned pixels[4][QUADS * PLANE];  // high of channels 0, 1 and 2, 3, and low
    uint4 weights[(STEPS + 1) * COLUMNS * 32];
    float stage[WARPS][8][STAGE_PITCH];
    int offsets[(STEPS + 2) * 4];     // of a unit from its pixel, in bytes
    float back_of_map[8 * COLUMNS];   // the inverse of each map's scale
    unsigned map_size[WARPS];
    unsigned sizes[IMAGES][WARPS];
};

__device__ unsigned size_of(float x) { return __float_as_uint(x) & 0x7fffffffu; }

// Scales numbers up to this size to at most 2^14 ... 2^15.
__device__ int shift_for(unsigned size) { return 141 - max((int)(size >> 23), 15); }
__device__ float power_of_two(int n) { return __uint_as_float((n + 127) << 23); }

__device__ void split(unsigned &high, unsigned &low, float a, float b)
{
    const __half2 near = __floats2half2_rn(a, b);
    const float2 rounded = __half22float2(near);
    const __half2 rest = __floats2half2_rn(a - rounded.x, b - rounded.y);
    high = *(const unsigned *)&near;
    low = *(const unsigned *)&rest;
}

__device__ uint4 split(const float (&x)[4], float scale)
{
    uint4 to;
    split(to.x, to.z, x[0] * scale, x[1] * scale);
    split(to.y, to.w, x[2] * scale, x[3] * scale);
    return to;
}

// The position of a tap of 4 channels in the depth. The four taps of a step are four rows,
// four columns, or the rest: the first two are read without bank conflicts.
__device__ int unit_of(int quad, int row, int column)
{
    constexpr int FOURS = K / 4, WHOLE = 4 * FOURS, LEFT = K - WHOLE;
    if (row < WHOLE)
        return ((quad * FOURS + row / 4) * K + column) * 4 + row % 4;
    if (column < WHOLE)
        return QUADS * WHOLE * K + (quad * LEFT + row - WHOLE) * WHOLE + column;
    return QUADS * WHOLE * (K + LEFT) +
           ((row - WHOLE) * LEFT + column - WHOLE) * QUADS + quad;
}

__device__ void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ uint4 load(unsigned from)
{
    uint4 to;
    asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to.x), "=r"(to.y), "=r"(to.z), "=r"(to.w)
                 : "r"(from));
    return to;
}

__device__ unsigned load_word(unsigned from)
{
    unsigned to;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(to) : "r"(from));
    return to;
}

// A fragment of 16 pixels, of which a thread has two, at a unit: high and low.
__device__ void load(unsigned (&a)[2][4], const unsigned (&from)[2], unsigned offset)
{
    constexpr int STRIDE = QUADS * PLANE * 4;
#pragma unroll
    for (int i = 0; i < 2; i++)
        asm volatile("ld.shared.b32 %0, [%4];\n ld.shared.b32 %1, [%4 + %5];\n"
                     "ld.shared.b32 %2, [%4 + %6];\n ld.shared.b32 %3, [%4 + %7];"
                     : "=&r"(a[0][i]), "=&r"(a[0][i + 2]), "=&r"(a[1][i]), "=&r"(a[1][i + 2])
                     : "r"(from[i] + offset), "n"(STRIDE), "n"(2 * STRIDE), "n"(3 * STRIDE));
}

// A block's output rows, their first row in an image, and the input rows that they need.
struct Band {
    int image, row, rows, slots;

    __device__ explicit Band(int B)
    {
        const int first = blockIdx.x * ROWS;
        image = first / H_OUT;
        row = first % H_OUT;
        rows = min(ROWS, B * H_OUT - first);
        slots = rows + (row + rows - 1) / H_OUT * (K - 1) + K - 1;
    }

    __device__ int image_of(int pixel) const { return (row * W_OUT + pixel) / PLANE_OUT; }

    // The index in y of an output of the band, for the first map.
    __device__ size_t place(int pixel) const
    {
        const int of = image_of(pixel);
        return (size_t)(image + of) * M * PLANE_OUT + row * W_OUT + pixel - of * PLANE_OUT;
    }
};

// An output by the formula.
__device__ float directly(const float *x, const float *k, int b, int m, int at)
{
    const float *from = x + (size_t)b * C * PLANE_IN + at / W_OUT * W + at % W_OUT;
    const float *weight = k + m * C * TAPS;
    float sum = 0;
#pragma unroll 1
    for (int c = 0; c < C; c++)
#pragma unroll 1
        for (int i = 0; i < TAPS; i++)
            sum += from[c * PLANE_IN + i / K * W + i % K] * weight[c * TAPS + i];
    return sum;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
conv_best_small(float *y, const float *x, const float *k, int B)
{
    extern __shared__ uint4 raw[];
    Shared &s = *(Shared *)raw;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int group = lane / 4, member = lane % 4;
    const Band band(B);

    // Issue all loads.
    float weights[MAPS_EACH][UNITS_EACH][4];
#pragma unroll
    for (int j = 0; j < UNITS_EACH; j++) {
        const int u = lane + 32 * j, channel = u / TAPS * 4;
        const float *const from = k + (warp * C + channel) * TAPS + u % TAPS;
#pragma unroll
        for (int i = 0; i < MAPS_EACH; i++)
#pragma unroll
            for (int c = 0; c < 4; c++) {
                const bool is = (M % WARPS == 0 || warp + i * WARPS < M) && u < UNITS &&
                                (C % 4 == 0 || channel + c < C);
                weights[i][j][c] = is ? __ldg(from + (i * WARPS * C + c) * TAPS) : 0;
            }
    }
    // A channel's rows are contiguous within an image.
    const float *const image = x + (size_t)band.image * C * PLANE_IN + band.row * W;
    float pixels[PIXELS_EACH][QUADS][4];
    int image_of[PIXELS_EACH];
#pragma unroll
    for (int i = 0; i < PIXELS_EACH; i++) {
        const int at = threadIdx.x + i * THREADS;
        image_of[i] = 0;
#pragma unroll
        for (int j = 1; j < IMAGES; j++)
            image_of[i] += at >= (j * H - band.row) * W;
        const float *from = image + at + image_of[i] * (C - 1) * PLANE_IN;
#pragma unroll
        for (int q = 0; q < QUADS; q++)
#pragma unroll
            for (int c = 0; c < 4; c++)
                pixels[i][q][c] = at < band.slots * W && (C % 4 == 0 || q * 4 + c < C)
                                      ? __ldg(from + (q * 4 + c) * PLANE_IN)
                                      : 0;
    }

    // A warp converts whole maps, so it knows their scales.
    unsigned map_size = 0;
    int scale_of[MAPS_EACH];
#pragma unroll
    for (int i = 0; i < MAPS_EACH; i++) {
        unsigned size = 0;
#pragma unroll
        for (int j = 0; j < UNITS_EACH; j++)
#pragma unroll
            for (int c = 0; c < 4; c++)
                size = max(size, size_of(weights[i][j][c]));
        size = __reduce_max_sync(~0u, size);
        map_size = max(map_size, size);
        scale_of[i] = shift_for(size);
        if (lane == 0 && warp + i * WARPS < 8 * COLUMNS)
            s.back_of_map[warp + i * WARPS] = power_of_two(-scale_of[i]);
    }
#pragma unroll
    for (int j = 0; j < UNITS_EACH; j++) {
        const int u = lane + 32 * j;
        const int quad = u / TAPS, row = u % TAPS / K, column = u % K;
        const int unit = u < UNITS ? unit_of(quad, row, column) : u;
        if (unit < 4 * STEPS) {
            uint4 *const to = s.weights + unit / 4 * COLUMNS * 32 + unit % 4;
#pragma unroll
            for (int i = 0; i < MAPS_EACH; i++) {
                const int m = warp + i * WARPS;
                if (8 * COLUMNS % WARPS == 0 || m < 8 * COLUMNS)
                    to[m / 8 * 32 + m % 8 * 4] =
                        split(weights[i][j], power_of_two(scale_of[i]));
            }
            if (warp == 0)
                s.offsets[unit] =
                    u < UNITS ? (quad * PLANE + row * PITCH + column) * 4 : 0;
        }
    }
    if (lane == 0)
        s.map_size[warp] = map_size;
    if (threadIdx.x < 8)
        s.offsets[4 * STEPS + threadIdx.x] = 0;
    unsigned sizes[IMAGES] = {};
#pragma unroll
    for (int i = 0; i < PIXELS_EACH; i++) {
        unsigned size = 0;
#pragma unroll
        for (int q = 0; q < QUADS; q++)
#pragma unroll
            for (int c = 0; c < 4; c++)
                size = max(size, size_of(pixels[i][q][c]));
#pragma unroll
        for (int j = 0; j < IMAGES; j++)
            sizes[j] = max(sizes[j], image_of[i] == j ? size : 0);
    }
#pragma unroll
    for (int j = 0; j < IMAGES; j++) {
        const unsigned size = __reduce_max_sync(~0u, sizes[j]);
        if (lane == 0)
            s.sizes[j][warp] = size;
    }
    __syncthreads();
    unsigned exotic = 0;
    int scales[IMAGES];
    map_size = __reduce_max_sync(~0u, lane < WARPS ? s.map_size[lane] : 0);
#pragma unroll
    for (int j = 0; j < IMAGES; j++) {
        const unsigned size = __reduce_max_sync(~0u, lane < WARPS ? s.sizes[j][lane] : 0);
        scales[j] = shift_for(size);
        // Inf or NaN, or products whose sum may overflow.
        if (max(size, map_size) >= 0x7f800000u ||
            (size >> 23) + (map_size >> 23) >= 254 + 127 - 13)
            exotic |= 1u << j;
    }
#pragma unroll
    for (int i = 0; i < PIXELS_EACH; i++) {
        const int at = threadIdx.x + i * THREADS;
        int n = scales[0];
#pragma unroll
        for (int j = 1; j < IMAGES; j++)
            n = image_of[i] == j ? scales[j] : n;
        const float scale = power_of_two(n);
        if (at < SLOTS * W) {
            const int to = at / W * PITCH + at % W;
#pragma unroll
            for (int q = 0; q < QUADS; q++) {
                const uint4 words = split(pixels[i][q], scale);
                s.pixels[0][q * PLANE + to] = words.x;
                s.pixels[1][q * PLANE + to] = words.y;
                s.pixels[2][q * PLANE + to] = words.z;
                s.pixels[3][q * PLANE + to] = words.w;
            }
        }
    }
    __syncthreads();

    // Multiply 16 TILES pixels by all maps.
    const int all = band.rows * W_OUT, left = warp * 16 * TILES;
    if (left < all) {
        unsigned from[TILES][2];
#pragma unroll
        for (int i = 0; i < 2 * TILES; i++) {
            const int pixel = min(left + 8 * i + group, all - 1);
            const int slot = pixel / W_OUT + band.image_of(pixel) * (K - 1);
            from[i / 2][i % 2] = shared_address(s.pixels[0] + slot * PITCH + pixel % W_OUT);
        }
        float sum[TILES][COLUMNS][4] = {}, rest[TILES][COLUMNS][4] = {};
        unsigned weight = shared_address(s.weights + lane);
        unsigned unit = shared_address(s.offsets + member);
        unsigned a[TILES][2][4];  // high and low
        uint4 b[COLUMNS];
        unsigned offset = load_word(unit);
#pragma unroll
        for (int i = 0; i < TILES; i++)
            load(a[i], from[i], offset);
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            b[j] = load(weight + j * 512);
        offset = load_word(unit + 16);
#pragma unroll 1
        for (int step = 0; step < STEPS; step++) {
            // Load the next step's operands as soon as registers are free; after the last
            // step these are unused.
            weight += COLUMNS * 512;
            unit += 16;
            uint4 next[COLUMNS];
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
                next[j] = load(weight + j * 512);
#pragma unroll
            for (int i = 0; i < TILES; i++) {
#pragma unroll
                for (int j = 0; j < COLUMNS; j++)
                    multiply(rest[i][j], a[i][1], b[j].x, b[j].y);
#pragma unroll
                for (int j = 0; j < COLUMNS; j++)
                    multiply(sum[i][j], a[i][0], b[j].x, b[j].y);
#pragma unroll
                for (int j = 0; j < COLUMNS; j++)
                    multiply(rest[i][j], a[i][0], b[j].z, b[j].w);
                load(a[i], from[i], offset);
            }
            offset = load_word(unit + 16);
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
                b[j] = next[j];
        }

        // Undo the scale, the smaller power first to avoid overflow; then pass sums through
        // shared memory, so that a warp's writes are coalesced.
        float back[2 * TILES];
#pragma unroll
        for (int i = 0; i < 2 * TILES; i++) {
            const int of = band.image_of(left + 8 * i + group);
            int n = scales[0];
#pragma unroll
            for (int j = 1; j < IMAGES; j++)
                n = of == j ? scales[j] : n;
            back[i] = power_of_two(-n);
        }
        float *to[STAGE_EACH];
        bool is[STAGE_EACH];
#pragma unroll
        for (int i = 0; i < STAGE_EACH; i++) {
            const int at = 32 * i + lane, pixel = left + at;
            to[i] = y + band.place(pixel);
            is[i] = at < 16 * TILES && pixel < all && !(exotic >> band.image_of(pixel) & 1);
        }
        float(*const stage)[STAGE_PITCH] = s.stage[warp];
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            const float2 of_map = *(const float2 *)(s.back_of_map + 8 * j + 2 * member);
#pragma unroll
            for (int i = 0; i < 2 * TILES; i++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int at = i % 2 * 2 + e;
                    const float map = e ? of_map.y : of_map.x;
                    stage[2 * member + e][8 * i + group] =
                        (sum[i / 2][j][at] + rest[i / 2][j][at]) * fminf(back[i], map) *
                        fmaxf(back[i], map);
                }
            __syncwarp();
#pragma unroll
            for (int i = 0; i < STAGE_EACH; i++)
                if (is[i]) {
#pragma unroll
                    for (int m = 0; m < 8; m++)
                        if (M % 8 == 0 || 8 * j + m < M)
                            to[i][(8 * j + m) * PLANE_OUT] = stage[m][32 * i + lane];
                }
            __syncwarp();
        }
    }
    if (exotic)
        for (int i = threadIdx.x; i < M * all; i += THREADS) {
            const int pixel = i % all, m = i / all, of = band.image_of(pixel);
            if (exotic >> of & 1)
                y[band.place(pixel) + m * PLANE_OUT] = directly(
                    x, k, band.image + of, m, band.row * W_OUT + pixel - of * PLANE_OUT);
        }
}
