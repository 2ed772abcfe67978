// Common code of best_single and best_wide: images and weights as halves in shared memory, with 4
// channels of 2 rows adjacent, each scaled to the range of halves by a power of two.

#pragma once

#include "parts/wgmma.cuh"

#if STORED_HALF
typedef unsigned short stored;  // x and k in memory
constexpr unsigned NOT_FINITE = 0x7c00;
#else
typedef float stored;
constexpr unsigned NOT_FINITE = 0x7f800000;
#endif

constexpr int larger(int a, int b) { return a > b ? a : b; }
constexpr int tiles(int length, int tile) { return (length + tile - 1) / tile; }
constexpr int bits(int n) { return n ? 1 + bits(n / 2) : 0; }

constexpr int C = SHAPE_C, M = SHAPE_M, K = SHAPE_K, H = SHAPE_H, W = SHAPE_W;
constexpr int H_OUT = H - K + 1, W_OUT = W - K + 1, PIXELS_OUT = H_OUT * W_OUT;
constexpr int FLOATS_IN = C * H * W, FLOATS_OUT = M * PIXELS_OUT;
constexpr int WEIGHTS = M * C * K * K, TERMS_BITS = bits(C * K * K);

// A unit is 4 channels of a pair of rows at a column.
constexpr int GROUPS = tiles(C, 4), PAIRS = tiles(H, 2), POSITIONS = PAIRS * W;

// --- words for instructions ------------------------------------------------------------------

__device__ __forceinline__ void sync(int name, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

// Make earlier writes visible to later bulk copies and tensor cores.
__device__ __forceinline__ void publish()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ unsigned pair(float low, float high)
{
    unsigned both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

__device__ __forceinline__ unsigned larger_of_pairs(unsigned a, unsigned b)
{
    asm("max.u16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    return a;
}

// --- powers of two ---------------------------------------------------------------------------

__device__ __forceinline__ float power(int e)  // 2^e, for -149 <= e <= 127
{
    return __uint_as_float(e < -126 ? 1u << (e + 149) : (unsigned)(e + 127) << 23);
}

// The absolute value of a number as ordered bits, and its exponent.
#if STORED_HALF
__device__ __forceinline__ float value(stored v)
{
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v));
    return f;
}
__device__ __forceinline__ unsigned size_of(stored v) { return v & 0x7fffu; }
__device__ __forceinline__ int exponent_of(unsigned size) { return (int)(size >> 10) - 15; }
#else
__device__ __forceinline__ float value(stored v) { return v; }
__device__ __forceinline__ unsigned size_of(stored v) { return __float_as_uint(v) & 0x7fffffffu; }
__device__ __forceinline__ int exponent_of(unsigned size) { return (int)(size >> 23) - 127; }
#endif

// --- reading and converting ------------------------------------------------------------------

struct Unit {  // 4 channels of 2 rows at one column
    stored v[8];
};

// The unit's halves as an operand: channels 0 and 1 of both rows, then channels 2 and 3.
__device__ __forceinline__ uint4 halves(const Unit &unit, float factor, unsigned &largest)
{
    const stored *v = unit.v;
#if STORED_HALF
    const uint4 q = make_uint4(v[0] | (unsigned)v[2] << 16, v[1] | (unsigned)v[3] << 16,
                               v[4] | (unsigned)v[6] << 16, v[5] | (unsigned)v[7] << 16);
#else
    const uint4 q =
        make_uint4(pair(v[0] * factor, v[2] * factor), pair(v[1] * factor, v[3] * factor),
                   pair(v[4] * factor, v[6] * factor), pair(v[5] * factor, v[7] * factor));
#endif
    largest = larger_of_pairs(largest, q.x & 0x7fff7fffu);
    largest = larger_of_pairs(largest, q.y & 0x7fff7fffu);
    largest = larger_of_pairs(largest, q.z & 0x7fff7fffu);
    largest = larger_of_pairs(largest, q.w & 0x7fff7fffu);
    return q;
}

__device__ __forceinline__ unsigned largest_of_warp(unsigned pairs)
{
    return __reduce_max_sync(~0u, max(pairs & 0xffffu, pairs >> 16));
}

// The largest value of all WARPS converting warps.
template <int WARPS>
__device__ __forceinline__ unsigned largest_of_all(unsigned *largest, unsigned mine, int me)
{
    if (me % 32 == 0)
        largest[me / 32] = mine;
    sync(1, 32 * WARPS);
    for (int i = 0; i < WARPS; i++)
        mine = max(mine, largest[i]);
    return mine;
}

// The largest value of one of WARPS warps' share of an image in memory.
template <int WARPS> __device__ __forceinline__ unsigned largest_stored(const stored *image, int me)
{
    unsigned largest = 0;
#pragma unroll 4
    for (int i = me; i < FLOATS_IN; i += 32 * WARPS)
        largest = max(largest, size_of(__ldg(image + i)));
    return __reduce_max_sync(~0u, largest);
}

// Load the weights to shared memory unconverted with WARPS warps; returns the largest.
template <int WARPS, int EACH = tiles(WEIGHTS, 32 * WARPS)>
__device__ __forceinline__ unsigned load_plain(stored *plain, unsigned *largest_weight,
                                               const stored *k)
{
    constexpr int THREADS = 32 * WARPS;
    const int me = threadIdx.x;
    unsigned largest = 0;
    stored mine[EACH];  // all loads are issued before the first use
#pragma unroll
    for (int i = 0; i < WEIGHTS; i += THREADS)
        mine[i / THREADS] = i + me < WEIGHTS ? __ldg(k + i + me) : stored(0);
#pragma unroll
    for (int i = 0; i < WEIGHTS; i += THREADS) {
        if (i + me < WEIGHTS)
            plain[i + me] = mine[i / THREADS];
        largest = max(largest, size_of(mine[i / THREADS]));
    }
    largest = __reduce_max_sync(~0u, largest);
    if (me % 32 == 0)
        largest_weight[me / 32] = largest;
    sync(2, THREADS);
    for (int i = 0; i < WARPS; i++)
        largest = max(largest, largest_weight[i]);
    return largest;
}

// The largest weight, as ordered bits, of that map of a warp's whose largest is the smallest; maps
// of zeros do not count.
template <int WARPS> __device__ __forceinline__ unsigned smallest_map(const stored *plain)
{
    unsigned least = ~0u;
#pragma unroll 1
    for (int m = threadIdx.x / 32; m < M; m += WARPS) {
        unsigned largest = 0;
#pragma unroll 1
        for (int i = threadIdx.x % 32; i < C * K * K; i += 32)
            largest = max(largest, size_of(plain[m * C * K * K + i]));
        largest = __reduce_max_sync(~0u, largest);
        least = largest ? min(least, largest) : least;
    }
    return least;
}

// Whether the scale of the largest weight leaves too few bits to the weights of a whole map.
constexpr int MOST_APART = 14;  // so that the map's largest is scaled to 2^-6 at least
__device__ __forceinline__ bool uneven(const unsigned *least, int warps, int exponent)
{
    bool found = false;
#pragma unroll 1
    for (int i = 0; i < warps; i++)
        found |= exponent_of(least[i]) < exponent - MOST_APART;
    return found && !STORED_HALF;  // stored halves are not scaled
}

// Prefetch the whole 16-byte pieces of an image to the L2 cache.
__device__ __forceinline__ void ask_for(const stored *x, int b, int B)
{
    const unsigned long long from = (unsigned long long)(x + (size_t)b * FLOATS_IN),
                             first = (from + 15) & ~15ull;
    const long long bytes = (long long)(from + FLOATS_IN * sizeof(stored) - first) & ~15ll;
    if (b < B && bytes > 0)
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(first), "r"((unsigned)bytes)
                     : "memory");
}

constexpr int DIRECT = 1 << 20;  // an exponent that means "compute this image directly"

// The i-th output of an image directly by the formula, if no scale is suitable.
__device__ __forceinline__ float direct_sum(const stored *x, const stored *k, int i)
{
    const int m = i / PIXELS_OUT, h = i % PIXELS_OUT / W_OUT, w = i % W_OUT;
    float sum = 0;
#pragma unroll 1
    for (int c = 0; c < C; c++)
#pragma unroll 1
        for (int p = 0; p < K; p++)
#pragma unroll 1
            for (int q = 0; q < K; q++)
                sum += value(__ldg(x + (c * H + h + p) * W + w + q)) *
                       value(__ldg(k + ((m * C + c) * K + p) * K + q));
    return sum;
}
