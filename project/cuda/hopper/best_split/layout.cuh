// best_split: the sizes of its parts, their places in shared memory, and the parts of the work

#pragma once

#include "parts/halves.cuh"

namespace
{

using namespace halves;

constexpr int C = SHAPE_C, M = SHAPE_M, K = SHAPE_K, H = SHAPE_H, W = SHAPE_W;
constexpr int H_OUT = H - K + 1, W_OUT = W - K + 1, PLANE = H_OUT * W_OUT;
// The distance between the pixels of a pair's two images: even, and large enough that an image's
// outputs are the rows of two warps.
constexpr int APART = W > 32 ? W + W % 2 : 32;
static_assert(APART + W_OUT <= 64 && W <= 33 && (M == 24 || M == 16) && (C <= 8 || C == 12),
              "refused");

// A row in fp16: even pixels, then odd ones, so that every other pixel is contiguous.
// Channels 0-7 of a pixel are a unit of 16 bytes; of 12 channels the other four share a unit
// with those of the next pixel, so that no part of a product is wasted.
constexpr int GROUPS = C > 8 ? 2 : 1;
constexpr int EACH_BYTES = (32 + (K + 1) / 2) * 16;
constexpr int ODD_BYTES = (EACH_BYTES + 63) / 128 * 128 + 64;  // the other 16 banks
constexpr int GROUP_BYTES = 2 * ODD_BYTES + 32, HALF_BYTES = GROUPS * GROUP_BYTES;
constexpr int ROW_BYTES = 2 * HALF_BYTES;  // high, low
constexpr int UNITS = GROUPS == 1 ? K : K + (K + 1) / 2, STEPS = (UNITS + 1) / 2;

// The first step is of columns 0 and 2, which one load of four fragments contains.
__host__ __device__ constexpr int unit_group(int u) { return u >= K && GROUPS == 2; }
__host__ __device__ constexpr int unit_column(int u)
{
    return u >= UNITS      ? unit_column(UNITS - 1)
           : unit_group(u) ? 2 * (u - K)
           : u == 1        ? 2
           : u == 2        ? 1
                           : u;
}

// Weights: the order in which rows of the output ring use the filter's rows rotates with the
// input row; the weights are stored twice, so that each order is a contiguous window.
constexpr int TURNS = 2 * K - 1, COLUMNS = TURNS * M, UNIT_BYTES = COLUMNS * 16;
constexpr int WEIGHT_BYTES = 2 * STEPS * UNIT_BYTES;  // of one half

// Output rows in shared memory: a ring per image and map, with the same alignment to sectors (8
// floats) as in y, so that half a ring at a time, about five rows, is stored by a bulk copy.
constexpr int HALF_RING = 5 * W_OUT / 8 * 8, RING = 2 * HALF_RING;
// To avoid bank conflicts among the maps 0, 1, 4, 5 that a warp writes at a time (if an image of a
// map has an odd size), padding separates map 0 from 4 by 16 banks.
constexpr int PAD = (48 - 4 * PLANE % 8) % 32;
constexpr int IMAGE_FLOATS = M * RING + M / 4 * PAD, OUT_FLOATS = 2 * IMAGE_FLOATS;  // of a pair
__host__ __device__ constexpr int map_at(int m) { return m * RING + m / 4 * PAD; }
__host__ __device__ constexpr int map_phase(int m) { return m * PLANE % 8; }  // in a sector
constexpr int REACH = W_OUT + 7;  // of a row, whatever the phase
static_assert(REACH + 7 <= HALF_RING, "a row lies in two halves at most");

constexpr int SLOT = M / 2;  // registers of an output row

// The scale brings the largest of a sample of an image to 2^10, so fp16 overflows only if others are
// 2^5 times larger.
constexpr int IMAGE_TO = 10;
constexpr int LIST = 1024;  // if more images are doubtful, all are computed directly

// Layout of shared memory
constexpr int AT_ROWS = 2 * WEIGHT_BYTES, AT_OUT = AT_ROWS + 2 * ROWS_IN * ROW_BYTES;
// The weights are loaded through the outputs' space, with an odd stride between maps to avoid
// bank conflicts.
constexpr int OF_MAP = C * K * K, WEIGHTS = M * OF_MAP, MAP_ROOM = OF_MAP | 1;
constexpr int ROOM = 2 * OUT_FLOATS > M *MAP_ROOM ? 2 * OUT_FLOATS : M *MAP_ROOM;
constexpr int AT_BARRIERS = AT_OUT + (ROOM + 1) / 2 * 8;
constexpr int BARRIERS = 2 * (2 * ROWS_IN + 4);
constexpr int AT_NOTES = AT_BARRIERS + BARRIERS * 8;
constexpr int MEMO = 8;  // parts whose ranges are kept

struct Notes {
    int shift[2][MEMO][2];         // per group, pair, image: of the scale
    int map[M];                    // the shifts of the maps' scales
    unsigned contrast;             // the most of a map's largest weight to its smallest, as bits
    unsigned weakest[2][MEMO][2];  // the largest of a pixel whose largest is the least but zero
    int doubtful;                  // images that halves may not hold, computed directly at last
    int list[LIST];
};

// Halves are off by 2^-36 at most. Where weights are alike, that does not count beside the product
// of a pixel's largest number, unless that is less than this, scaled.
__device__ __forceinline__ float weak_pixel(const Notes *notes)
{
    return __uint_as_float(notes->contrast) * C * power_of_two(LEAST);
}

__device__ __forceinline__ int lowest_map(const Notes *notes)  // of the shifts, by a warp
{
    return __reduce_min_sync(~0u, notes->map[min((int)threadIdx.x % 32, M - 1)]);
}
__device__ __forceinline__ int highest_map(const Notes *notes)
{
    return __reduce_max_sync(~0u, notes->map[min((int)threadIdx.x % 32, M - 1)]);
}

template <int ID, int THREADS> __device__ __forceinline__ void meet()
{
    asm volatile("bar.sync %0, %1;" ::"n"(ID), "n"(THREADS) : "memory");
}
__device__ __forceinline__ void publish()  // make stores visible to tensor cores and bulk copies
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// A part of the work: some output rows of a pair of images.
struct Part {
    int pair, top, periods, rows, outputs;  // rows: input rows; outputs: output rows
};
struct Plan {
    int B, periods, parts, items, step;
    unsigned inverse;  // 2^32 / parts

    __device__ __forceinline__ Plan(int B, int periods) : B(B), periods(periods)
    {
        parts = (H_OUT + periods * K + K - 2) / (periods * K + K - 1);
        items = (B + 1) / 2 * parts;
        step = 2 * gridDim.x;
        inverse = 0xffffffffu / parts + 1;
    }
    __device__ __forceinline__ Part part(int item) const
    {
        Part p;
        p.pair = parts == 1 ? item : __umulhi(item, inverse);
        p.top = (item - p.pair * parts) * (periods * K + K - 1);
        p.periods = min(periods, (max(H_OUT - p.top - (K - 1), 0) + K - 1) / K);
        p.rows = p.periods * K + 2 * (K - 1);
        p.outputs = min(p.periods * K + K - 1, H_OUT - p.top);
        return p;
    }
    __device__ __forceinline__ int rows(int first) const  // input rows of every step-th part
    {
        int n = 0;
        for (int item = first; item < items; item += step)
            n += part(item).rows;
        return n;
    }
};

struct Place  // in a ring
{
    int at = 0;
    unsigned turn = 0;
    __device__ __forceinline__ void next(int size)
    {
        if (++at == size) {
            at = 0;
            turn ^= 1;
        }
    }
};

}  // namespace
