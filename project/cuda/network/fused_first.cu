// fused_first: convolution of byte images, 2 x 2 max pooling and tanh, on tensor cores
//
// tanh is monotonic, so pooling comes first, and only a quarter of tanh is computed. A
// product's 16 rows of weights are 4 maps x 4 columns, shifted copies of one map. Its columns
// are 8 places of four output columns each, its depth the pixels that a place needs; the pixels
// of the next row give a window's other row. So one thread has all four sums of a window.
// Bytes are exact in half precision; weights are split into two halves: two products.
// warp -> 4 maps of 8 * AT_ONCE places at a time of image blockIdx.x, + gridDim.x, ...
// Per output: 4 bytes written, whole images in one bulk copy; pixels are read once.

#if !defined(SHAPE_H) || !defined(SHAPE_W) || !defined(SHAPE_M) || !defined(SHAPE_K)
#error "SHAPE_H, SHAPE_W, SHAPE_M and SHAPE_K are set by project/gpu/forward.py"
#endif
#if !defined(WARPS_PER_GROUP) || !defined(BLOCKS) || !defined(AT_ONCE)
#error "WARPS_PER_GROUP, BLOCKS and AT_ONCE are set by project/gpu/forward.py"
#endif

#include "parts/mbarrier.cuh"
#include <cuda_fp16.h>

namespace
{

constexpr int ROWS = (SHAPE_H - SHAPE_K + 1) / 2, COLUMNS = (SHAPE_W - SHAPE_K + 1) / 2;
constexpr int FOURS = (COLUMNS + 1) / 2;  // places of four output columns in a row
constexpr int PLACES = ROWS * FOURS;
constexpr int GROUPS = (SHAPE_M + 3) / 4;
constexpr int THREADS = 32 * GROUPS * WARPS_PER_GROUP;
constexpr int PAIRS = (SHAPE_K + 3) / 2;  // pairs of pixels in a row that a place needs
constexpr int DEPTH = SHAPE_K * PAIRS;
constexpr int STEPS = (DEPTH + 7) / 8;
constexpr bool HALF_STEP = DEPTH % 8 > 0 && DEPTH % 8 <= 4;  // the last step is half
constexpr int PIXELS = SHAPE_H * SHAPE_W, WORDS = (PIXELS + 3) / 4;
constexpr int HELD = (WORDS + THREADS - 1) / THREADS;
constexpr int IMAGE = 2 * ((PIXELS + 16 + 15) / 16 * 16);  // bytes, with zeros at the end
constexpr int TURNS = (PLACES + 8 * AT_ONCE - 1) / (8 * AT_ONCE);
constexpr int LISTED = 8 * AT_ONCE * TURNS;
constexpr int MAP = ROWS * COLUMNS, OUTPUTS = SHAPE_M * MAP;
constexpr unsigned NONE = 0xFFFF;
static_assert(MAP < NONE && PIXELS % 4 == 0 && OUTPUTS % 4 == 0);
static_assert(SHAPE_K % 2 == 1 && SHAPE_W % 2 == 0);

// tanh with an absolute error of 2e-7; near zero a polynomial with an error of two ulp.
__device__ float hyperbolic_tangent(float sum, float down)
{
    const float x = sum * down, s = x * x;
    float power, share;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(sum * (down * 2.885390082f)));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(share) : "f"(power + 1));
    float p = fmaf(-0.05036624148f, s, 0.1331483275f);
    p = fmaf(p, s, -0.3333306015f);
    return fabsf(x) < 0.3f ? fmaf(p * s, x, x) : fmaf(-2, share, 1);
}

__device__ float power_of_two(int exponent) { return __int_as_float((exponent + 127) << 23); }

__device__ unsigned packed(float a, float b)
{
    const __half2 both = __floats2half2_rn(a, b);
    return *reinterpret_cast<const unsigned *>(&both);
}

__device__ void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ void multiply_half(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}

// The power of two that scales the largest weight to just below 2^15.
__device__ int exponent_of(const float *k)
{
    __shared__ float largest[THREADS / 32];
    float most = 0;
    for (int i = threadIdx.x; i < SHAPE_M * SHAPE_K * SHAPE_K; i += THREADS)
        most = fmaxf(most, fabsf(k[i]));
    for (int i = 16; i; i /= 2)
        most = fmaxf(most, __shfl_xor_sync(~0u, most, i));
    if (threadIdx.x % 32 == 0)
        largest[threadIdx.x / 32] = most;
    __syncthreads();
    for (int i = 0; i < THREADS / 32; i++)
        most = fmaxf(most, largest[i]);
    return max(-126, min(126, 14 + 127 - (__float_as_int(most) >> 23)));
}

// Tabulate each place's first pixel, in bytes, and its two outputs in a map.
__device__ void list_places(int *sources, unsigned *targets)
{
    for (int place = threadIdx.x; place < LISTED; place += THREADS) {
        const int row = min(place, PLACES - 1) / FOURS, four = min(place, PLACES - 1) % FOURS;
        const unsigned left = row * COLUMNS + 2 * four;
        const unsigned right = 2 * four + 1 < COLUMNS ? left + 1 : NONE;
        sources[place] = 2 * (2 * row * SHAPE_W + 4 * four);
        targets[place] = place < PLACES ? right << 16 | left : NONE << 16 | NONE;
    }
}

struct Weights {  // a thread's: rows g and g + 8 are of neighbouring outputs
    unsigned high[STEPS][4], low[STEPS][4];
    int at[STEPS][2];  // offsets of their pixels, in bytes

    // The weight of a pair's first or second pixel, for output column `right` of the place.
    static __device__ float weight(const float *k, int map, int right, int pair, int second)
    {
        const int row = pair / PAIRS, column = pair % PAIRS * 2 + second - right;
        const bool inside = pair < DEPTH && map < SHAPE_M && column >= 0 && column < SHAPE_K;
        return inside ? k[(map * SHAPE_K + row) * SHAPE_K + column] : 0;
    }

    __device__ void split(const float *k, int map, int column, int t, float up)
    {
#pragma unroll
        for (int s = 0; s < STEPS; s++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int pair = 8 * s + 4 * half + t;
                at[s][half] = pair < DEPTH ? 2 * (pair / PAIRS * SHAPE_W + pair % PAIRS * 2) : 0;
#pragma unroll
                for (int next = 0; next < 2; next++) {
                    const float a = weight(k, map, column + next, pair, 0) * up;
                    const float b = weight(k, map, column + next, pair, 1) * up;
                    const float a_high = __half2float(__float2half_rn(a));
                    const float b_high = __half2float(__float2half_rn(b));
                    high[s][2 * half + next] = packed(a, b);
                    low[s][2 * half + next] = packed(a - a_high, b - b_high);
                }
            }
    }

    // Add step s of 8 places, with pixels at `seen`, to an output row's sums.
    __device__ void add(float (&sums)[4], int s, const char *seen) const
    {
        const bool half = HALF_STEP && s == STEPS - 1;
        const unsigned b[2] = {*reinterpret_cast<const unsigned *>(seen + at[s][0]),
                               half ? 0 : *reinterpret_cast<const unsigned *>(seen + at[s][1])};
        if (half) {
            multiply_half(sums, low[s], b);
            multiply_half(sums, high[s], b);
        } else {
            multiply(sums, low[s], b);
            multiply(sums, high[s], b);
        }
    }
};

struct Pixels {  // a thread's share of an image being loaded
    unsigned held[HELD];

    __device__ void fetch(const unsigned char *x, int image, int images)
    {
        const unsigned *words = reinterpret_cast<const unsigned *>(x) + (size_t)image * WORDS;
#pragma unroll
        for (int i = 0; i < HELD; i++)
            if (const int word = threadIdx.x + THREADS * i; word < WORDS && image < images)
                held[i] = words[word];
    }

    // Convert to halves: 0x6400 + byte is the half 1024 + byte.
    __device__ void store(char *to) const
    {
        const __half2 base = __half2half2(__ushort_as_half(0x6400));
#pragma unroll
        for (int i = 0; i < HELD; i++)
            if (const int word = threadIdx.x + THREADS * i; word < WORDS) {
                const unsigned low = __byte_perm(held[i], 0x64646464, 0x4140);
                const unsigned high = __byte_perm(held[i], 0x64646464, 0x4342);
                __half2 *four = reinterpret_cast<__half2 *>(to + 8 * word);
                four[0] = __hsub2(reinterpret_cast<const __half2 &>(low), base);
                four[1] = __hsub2(reinterpret_cast<const __half2 &>(high), base);
            }
    }
};

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    fused_first(float *__restrict__ y, const unsigned char *__restrict__ x,
                const float *__restrict__ k, int images)
{
    extern __shared__ __align__(128) float pooled[];  // of two images, followed by their pixels
    __shared__ int sources[LISTED];
    __shared__ __align__(8) unsigned targets[LISTED];
    char *const image = reinterpret_cast<char *>(pooled + 2 * OUTPUTS);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int g = lane / 4, t = lane % 4;
    const int group = warp % GROUPS, first = warp / GROUPS, map = 4 * group + g / 2;

    for (int i = 2 * PIXELS + threadIdx.x; i < IMAGE; i += THREADS)
        image[i] = image[IMAGE + i] = 0;
    list_places(sources, targets);
    const int exponent = exponent_of(k);
    const float down = power_of_two(-exponent);
    Weights weights;
    weights.split(k, map, g % 2 * 2, t, power_of_two(exponent));
    unsigned mine = shared_address(pooled + map * MAP);
    asm("" : "+r"(mine));  // otherwise the compiler computes it again for every store
    const unsigned limit = map < SHAPE_M ? NONE : 0, which = g % 2 ? 0x4432 : 0x4410;

    Pixels next;
    next.fetch(x, blockIdx.x, images);
    next.store(image);
    next.fetch(x, blockIdx.x + gridDim.x, images);
    __syncthreads();
    bool odd = false;
    for (int n = blockIdx.x; n < images; n += gridDim.x) {
        const unsigned ahead = odd ? 4 * OUTPUTS : 0;
        const char *pixels = image + (odd ? IMAGE : 0);
        next.store(image + (odd ? 0 : IMAGE));
        next.fetch(x, n + 2 * gridDim.x, images);
        for (int turn = first; turn < TURNS; turn += WARPS_PER_GROUP) {
            float sums[AT_ONCE][2][4] = {};
#pragma unroll
            for (int s = 0; s < STEPS; s++)
#pragma unroll
                for (int i = 0; i < AT_ONCE; i++) {
                    const char *seen = pixels + sources[8 * (AT_ONCE * turn + i) + g];
                    weights.add(sums[i][0], s, seen);
                    weights.add(sums[i][1], s, seen + 2 * SHAPE_W);
                }
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                const uint2 two =
                    reinterpret_cast<const uint2 *>(targets)[4 * (AT_ONCE * turn + i) + t];
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    const unsigned to = __byte_perm(j ? two.y : two.x, 0, which);
                    const float most = fmaxf(fmaxf(sums[i][0][j], sums[i][0][j + 2]),
                                             fmaxf(sums[i][1][j], sums[i][1][j + 2]));
                    const float value = hyperbolic_tangent(most, down);
                    if (to < limit)
                        asm volatile("st.shared.f32 [%0], %1;" ::"r"(mine + ahead + 4 * to),
                                     "f"(value)
                                     : "memory");
                }
            }
        }
        // Wait until the other buffer is stored before it is written again.
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        if (threadIdx.x == 0)
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                             y + (size_t)n * OUTPUTS),
                         "r"(shared_address(pooled) + ahead), "n"(OUTPUTS * 4)
                         : "memory");
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        }
        odd = !odd;
    }
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
