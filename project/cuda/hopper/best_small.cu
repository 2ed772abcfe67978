// best_small: few images, divided into bands, in three products of halves on tensor cores.
//
// With no more images than multiprocessors, latency is the limit. Therefore the output rows
// of all images are divided evenly, ROWS per block, which issues the loads of its pixels and
// weights all at once. Operands are pairs of halves (halves.cuh), with a scale for each map and
// each image of a band. A unit of depth is 4 channels of one tap, so that a thread reads a
// fragment at the sum of a pixel's and a unit's address. Images that halves do not hold are
// computed by the formula.
// a warp of a block -> 16 TILES pixels of its band, all maps
// Per output: 3 C K K products, 2048 per instruction.

#include "parts/direct.cuh"
#include "parts/halves.cuh"
#include "parts/mbarrier.cuh"

#if !defined(SHAPE_M) || !defined(SHAPE_C) || !defined(SHAPE_H) || !defined(SHAPE_W) || \
    !defined(SHAPE_K)
#error "the shape but its images is set by project/plans/best_small.py"
#endif
#if !defined(ROWS) || !defined(WARPS) || !defined(TILES)
#error "ROWS, WARPS and TILES are set by project/plans/best_small.py"
#endif

namespace
{

using namespace halves;

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
    int offsets[(STEPS + 2) * 4];  // of a unit from its pixel, in bytes
    int maps[8 * COLUMNS];         // the shift of each map's scale
    Range ranges[IMAGES][WARPS];
};

__device__ uint4 split_four(const float (&x)[4], float scale)
{
    const Pair a = split(x[0], x[1], scale), b = split(x[2], x[3], scale);
    return {a.high, b.high, a.low, b.low};
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
    return QUADS * WHOLE * (K + LEFT) + ((row - WHOLE) * LEFT + column - WHOLE) * QUADS + quad;
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
    int shift_of[MAPS_EACH];
#pragma unroll
    for (int i = 0; i < MAPS_EACH; i++) {
        Range range;
#pragma unroll
        for (int j = 0; j < UNITS_EACH; j++)
#pragma unroll
            for (int c = 0; c < 4; c++)
                range.add(weights[i][j][c]);
        range.reduce();
        shift_of[i] = range.shift();
        if (lane == 0 && warp + i * WARPS < 8 * COLUMNS)
            s.maps[warp + i * WARPS] = range.held(shift_of[i]) ? shift_of[i] : NEVER;
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
                        split_four(weights[i][j], power_of_two(shift_of[i]));
            }
            if (warp == 0)
                s.offsets[unit] = u < UNITS ? (quad * PLANE + row * PITCH + column) * 4 : 0;
        }
    }
    if (threadIdx.x < 8)
        s.offsets[4 * STEPS + threadIdx.x] = 0;
    Range ranges[IMAGES];
#pragma unroll
    for (int i = 0; i < PIXELS_EACH; i++) {
        Range range;
#pragma unroll
        for (int q = 0; q < QUADS; q++)
#pragma unroll
            for (int c = 0; c < 4; c++)
                range.add(pixels[i][q][c]);
#pragma unroll
        for (int j = 0; j < IMAGES; j++)
            if (image_of[i] == j)
                ranges[j].add(range);
    }
#pragma unroll
    for (int j = 0; j < IMAGES; j++) {
        ranges[j].reduce();
        if (lane == 0)
            s.ranges[j][warp] = ranges[j];
    }
    __syncthreads();
    int lowest = NEVER, highest = -NEVER;
    for (int m = lane; m < M; m += 32) {
        lowest = min(lowest, s.maps[m]);
        highest = max(highest, s.maps[m]);
    }
    lowest = __reduce_min_sync(~0u, lowest);
    highest = __reduce_max_sync(~0u, highest);
    unsigned left_out = 0;  // images, computed by the formula
    int shifts[IMAGES];
#pragma unroll
    for (int j = 0; j < IMAGES; j++) {
        Range range;
        if (lane < WARPS)
            range = s.ranges[j][lane];
        range.reduce();
        shifts[j] = range.shift();
        if (!range.held(shifts[j]) || !fits<C * TAPS>(shifts[j] + lowest, shifts[j] + highest))
            left_out |= 1u << j;
    }
#pragma unroll
    for (int i = 0; i < PIXELS_EACH; i++) {
        const int at = threadIdx.x + i * THREADS;
        int n = shifts[0];
#pragma unroll
        for (int j = 1; j < IMAGES; j++)
            n = image_of[i] == j ? shifts[j] : n;
        const float scale = power_of_two(n);
        if (at < SLOTS * W) {
            const int to = at / W * PITCH + at % W;
#pragma unroll
            for (int q = 0; q < QUADS; q++) {
                const uint4 words = split_four(pixels[i][q], scale);
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

        // Undo the scales; then pass sums through shared memory, so that a warp's writes are
        // coalesced.
        int shift[2 * TILES];
#pragma unroll
        for (int i = 0; i < 2 * TILES; i++) {
            const int of = band.image_of(left + 8 * i + group);
            shift[i] = shifts[0];
#pragma unroll
            for (int j = 1; j < IMAGES; j++)
                shift[i] = of == j ? shifts[j] : shift[i];
        }
        float *to[STAGE_EACH];
        bool is[STAGE_EACH];
#pragma unroll
        for (int i = 0; i < STAGE_EACH; i++) {
            const int at = 32 * i + lane, pixel = left + at;
            to[i] = y + band.place(pixel);
            is[i] = at < 16 * TILES && pixel < all && !(left_out >> band.image_of(pixel) & 1);
        }
        float(*const stage)[STAGE_PITCH] = s.stage[warp];
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            const int2 of_map = *(const int2 *)(s.maps + 8 * j + 2 * member);
#pragma unroll
            for (int i = 0; i < 2 * TILES; i++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int at = i % 2 * 2 + e;
                    const int by = shift[i] + (e ? of_map.y : of_map.x);
                    stage[2 * member + e][8 * i + group] =
                        fmaf(rest[i / 2][j][at], 1 / LOW, sum[i / 2][j][at]) * power_of_two(-by);
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
    if (left_out)
        for (int i = threadIdx.x; i < M * all; i += THREADS) {
            const int pixel = i % all, m = i / all, of = band.image_of(pixel);
            const int at = band.row * W_OUT + pixel - of * PLANE_OUT;  // in its image's plane
            const float *const of_image = x + (size_t)(band.image + of) * C * PLANE_IN;
            if (left_out >> of & 1)
                y[band.place(pixel) + m * PLANE_OUT] = Direct<C, M, H, W, K>::output(
                    of_image + at / W_OUT * W + at % W_OUT, k + m * C * TAPS);
        }
}
