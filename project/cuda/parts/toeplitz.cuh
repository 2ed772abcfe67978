// Convolution of one input channel as a Toeplitz product on tensor cores.
//
// A product is 16 x 16 by 16 x 8. Its 16 rows are 4 maps x 4 horizontal shifts, its 8
// columns are pixels at a distance of 4. So the other operand is the image itself: 8 pixels
// of a row are 8 values of depth, and no window is copied. fp32 operands are scaled by a
// power of two and split into halves, x = high + low; PRODUCTS is 3 (high high, high low,
// low high) or 1. With STORED_HALF they are halves in memory.

#include <cuda_fp16.h>

#if STORED_HALF
using Number = __half;
#else
using Number = float;
#endif

namespace
{

constexpr int over(int a, int b) { return (a + b - 1) / b; }
constexpr int larger(int a, int b) { return a > b ? a : b; }

constexpr int H = SHAPE_H, W = SHAPE_W, M = SHAPE_M, K = SHAPE_K;
constexpr int H_OUT = H - K + 1, W_OUT = W - K + 1;
constexpr int PIXELS = H * W, PLANE = H_OUT * W_OUT;
constexpr int MAPS = 4, SHIFTS = 4, GROUPS = over(M, MAPS);
constexpr int PRECISIONS = PRODUCTS == 1 ? 1 : 2;

// The depth in parts of 8 values, two per step. A row of the window is one part, its pixels
// 0 to 7. Its other pixels, EXTRA pairs, are gathered from four rows at a time.
constexpr int EXTRA = larger(0, over(K + SHIFTS - 1, 2) - 4);
constexpr int QUADS = over(K, 4);
constexpr int PARTS = K + EXTRA * QUADS;
constexpr int STEPS = over(PARTS, 2);

// An anchor is 4 pixels of an output row, a unit is an anchor in ROWS rows, and a tile is 8
// units. A warp computes a tile row after row, and loads each pair of pixels once.
constexpr int ANCHORS = over(W_OUT, SHIFTS);
constexpr int BANDS = over(H_OUT, ROWS);
constexpr int UNITS = ANCHORS * BANDS;
constexpr int TILES = over(UNITS, 8);

// An image in shared memory: rows of PITCH pairs of pixels, high halves before low ones,
// followed by zeros, since reads extend beyond the end.
constexpr int PITCH = over(W, 2);
constexpr int PAIR = 4 * PRECISIONS;
constexpr int DEEP = BANDS * ROWS + K - 1 + (EXTRA ? QUADS * 4 - K : 0);
constexpr int BEHIND = 8;
constexpr int SLOT = over((DEEP * PITCH + BEHIND) * PAIR, 16) * 16;

__device__ void multiply(float (&sum)[4], const uint4 &a, unsigned b0, unsigned b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

__device__ void multiply(float (&sum)[4], const uint4 &a, unsigned b0)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a.x), "r"(a.y), "r"(b0));
}

// The absolute value of a number as ordered bits, and its biased exponent: 255 if it is not
// finite. Halves are not scaled, so their exponent is not used.
#if STORED_HALF
__device__ unsigned size_of(Number x) { return __half_as_ushort(x) & 0x7fffu; }
__device__ int exponent_of(unsigned size) { return size < 0x7c00u ? 127 : 255; }
#else
__device__ unsigned size_of(Number x) { return __float_as_uint(x) & 0x7fffffffu; }
__device__ int exponent_of(unsigned size) { return size >> 23; }
#endif

// Scales numbers of biased exponent e to 2^14 ... 2^15; subnormal ones stay smaller.
__device__ int shift_for(int e) { return STORED_HALF ? 0 : 141 - max(e, 14); }
__device__ float power_of_two(int n) { return __uint_as_float((n + 127) << 23); }

struct Pair {
    unsigned high, low;
};

__device__ unsigned word_of(__half2 both) { return *(const unsigned *)&both; }

__device__ Pair split(float a, float b)
{
    const __half2 high = __floats2half2_rn(a, b);
    const float2 rounded = __half22float2(high);
    return {word_of(high), word_of(__floats2half2_rn(a - rounded.x, b - rounded.y))};
}

#if STORED_HALF
__device__ Pair split(__half a, __half b, float)
{
    return {word_of(__halves2half2(a, b)), 0};
}
#else
__device__ Pair split(float a, float b, float scale)
{
    return split(a * scale, b * scale);
}
#endif

// The two weights of lane t for part p of the window, for outputs at a shift.
__device__ Pair weights_at(const Number *k, int shift, int p, int t, float scale)
{
    const int row = p < K ? p : (p - K) % QUADS * 4 + t;
    const int column = (p < K ? 2 * t : 8 + (p - K) / QUADS * 2) - shift;
    const bool inside = p < PARTS && row < K;
    const Number zero = (Number)0.0f;
    const Number *const at = k + row * K + column;
    const Number a = inside && column >= 0 && column < K ? at[0] : zero;
    const Number b = inside && column >= -1 && column < K - 1 ? at[1] : zero;
    return split(a, b, scale);
}

// Pack groups of 4 maps as operands, [group][step][precision][lane], with the exponent of
// each map's largest weight, -1 if all are zero. Rows g and g + 8 of the product are
// neighbouring shifts of a map, so that a lane's sums are neighbours in the output.
__device__ void pack_weights(uint4 *operands, int *exponents, const Number *k, int groups)
{
    for (int i = threadIdx.x; i < groups * STEPS * 32; i += blockDim.x) {
        const int lane = i % 32, p = i / 32 % STEPS * 2;
        const int m = i / 32 / STEPS * MAPS + lane / 8;
        const int t = lane % 4, shift = lane / 4 % 2 * 2;
        const Number *const map = k + m * K * K;
        unsigned size = 0;
#pragma unroll 5
        for (int j = 0; j < K * K; j++)
            size = max(size, size_of(map[j]));
        const int exponent = size ? exponent_of(size) : -1;
        if (p == 0 && lane % 8 == 0)
            exponents[m] = exponent;
        const float scale = power_of_two(shift_for(exponent));
        const Pair x = weights_at(map, shift, p, t, scale);
        const Pair y = weights_at(map, shift + 1, p, t, scale);
        const Pair z = weights_at(map, shift, p + 1, t, scale);
        const Pair w = weights_at(map, shift + 1, p + 1, t, scale);
        uint4 *const to = operands + i / 32 * PRECISIONS * 32 + lane;
        to[0] = {x.high, y.high, z.high, w.high};
        if (PRECISIONS == 2)
            to[32] = {x.low, y.low, z.low, w.low};
    }
}

struct Unit {
    int row, anchor;
    __device__ explicit Unit(int i)
        : row(min(i, UNITS - 1) / ANCHORS * ROWS), anchor(min(i, UNITS - 1) % ANCHORS)
    {
    }
};

// The pixels that a lane multiplies, for ROWS rows of outputs.
struct Window {
    unsigned row[ROWS + K - 1][PRECISIONS];
    unsigned extra[larger(EXTRA, 1)][ROWS + 4 * (QUADS - 1)][PRECISIONS];

    static __device__ void read(unsigned (&to)[PRECISIONS], const char *from)
    {
        if (PRECISIONS == 2) {
            const uint2 both = *(const uint2 *)from;
            to[0] = both.x;
            to[PRECISIONS - 1] = both.y;
        } else {
            to[0] = *(const unsigned *)from;
        }
    }

    __device__ Window(const char *image, int t)
    {
#pragma unroll
        for (int r = 0; r < ROWS + K - 1; r++)
            read(row[r], image + (r * PITCH + t) * PAIR);
#pragma unroll
        for (int e = 0; e < EXTRA; e++)
#pragma unroll
            for (int r = 0; r < ROWS + 4 * (QUADS - 1); r++)
                read(extra[e][r], image + ((r + t) * PITCH + 4 + e) * PAIR);
    }

    __device__ unsigned part(int precision, int r, int p) const
    {
        return p < K ? row[r + p][precision]
                     : extra[(p - K) / QUADS][r + (p - K) % QUADS * 4][precision];
    }
};

// The outputs of one of a lane's two columns: two neighbours in each of ROWS rows.
struct Target {
    float *at;
    int rows, width;

    __device__ Target(float *planes, int i, int shift)
    {
        const Unit unit(i);
        at = planes + unit.row * W_OUT + unit.anchor * SHIFTS + shift;
        rows = H_OUT - unit.row;
        width = i < UNITS ? W_OUT - unit.anchor * SHIFTS - shift : 0;
    }

    __device__ void put(int r, float a, float b) const
    {
        if (H_OUT % ROWS && r >= rows)
            return;
        if (W_OUT % 2 == 0) {
            if (width > 0)
                *(float2 *)(at + r * W_OUT) = {a, b};
        } else {
            if (width > 0)
                at[r * W_OUT] = a;
            if (width > 1)
                at[r * W_OUT + 1] = b;
        }
    }
};

// Compute tile i of the planes of 4 maps.
__device__ void multiply_tile(float *planes, const char *image,
                              const uint4 (&a)[STEPS][PRECISIONS], int i, float scale)
{
    const int lane = threadIdx.x % 32, t = lane % 4, shift = lane / 4 % 2 * 2;
    const Unit from(i * 8 + lane / 4);
    const Window x(image + (from.row * PITCH + from.anchor * 2) * PAIR, t);
    float *const map = planes + lane / 8 * PLANE;
    const Target left(map, i * 8 + t * 2, shift), right(map, i * 8 + t * 2 + 1, shift);
    constexpr int LOW = PRECISIONS - 1;

#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float sum[4] = {}, rest[4] = {};  // of high high, and of the other products
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            const int p = 2 * s, q = p + 1;
            if (q < PARTS) {
                multiply(sum, a[s][0], x.part(0, r, p), x.part(0, r, q));
                if (LOW) {
                    multiply(rest, a[s][LOW], x.part(0, r, p), x.part(0, r, q));
                    multiply(rest, a[s][0], x.part(LOW, r, p), x.part(LOW, r, q));
                }
            } else {
                multiply(sum, a[s][0], x.part(0, r, p));
                if (LOW) {
                    multiply(rest, a[s][LOW], x.part(0, r, p));
                    multiply(rest, a[s][0], x.part(LOW, r, p));
                }
            }
        }
#pragma unroll
        for (int j = 0; j < 4; j++)
            sum[j] = STORED_HALF ? sum[j] : (LOW ? sum[j] + rest[j] : sum[j]) * scale;
        left.put(r, sum[0], sum[2]);
        right.put(r, sum[1], sum[3]);
    }
}

}  // namespace
