// best_split: fp32 accuracy on Hopper's tensor cores, from operands split into fp16 halves
//
// After tensor_split: wgmma instead of mma, and a ring of output rows. x = high + low and
// k = high + low, both fp16 behind a power of two; high high + (high low + low high) in two
// accumulators misses fp32's product by 2^-22 (PRODUCTS 1: high high alone, tf32's accuracy).
// An input row of two images side by side is 64 rows of a product; its depth is (column of
// the filter, channel); its columns are the maps of all K output rows that the input row
// serves, so a row is read once for all of them. A row lies as [channels / 8][pixel][16
// bytes]: a column of the filter is an offset of 16 bytes.
// warps 0-3, 4-7: the products of a pair of images each; 8-11: the rows of an image to fp16;
// 12-15: the outputs of an image to y in whole sectors, and those of an exotic image anew
// Per output: 3 C K K products on tensor cores, 4 bytes out, 4 C H W / (M H_out W_out) in.

#if !defined SHAPE_C || !defined SHAPE_M || !defined SHAPE_K || !defined SHAPE_H ||        \
    !defined SHAPE_W || !defined PRODUCTS || !defined STORED_HALF || !defined ROWS_IN ||  \
    !defined ROWS_OUT || !defined ROWS_AHEAD
#error "SHAPE_*, PRODUCTS, STORED_HALF, ROWS_* are set by project/best_split.py"
#endif

#include "mbarrier.cuh"
#include <cuda_fp16.h>

#pragma nv_diag_suppress 177 // a shape needs but some of the products

typedef unsigned long long u64;
#if STORED_HALF
typedef __half Stored;
#else
typedef float Stored;
#endif

namespace
{

constexpr int C = SHAPE_C, M = SHAPE_M, K = SHAPE_K, H = SHAPE_H, W = SHAPE_W;
constexpr int HO = H - K + 1, WO = W - K + 1, PLANE = HO * WO;
static_assert(W + WO <= 64 && W <= 33 && (M == 24 || M == 16) && (C <= 8 || C == 12), "refused");

// A row in fp16: channels 0-7 of each pixel are a unit of 16 bytes; of 12 channels the other
// four share a unit with those of the next pixel, so that no half of a product is wasted.
constexpr int GROUPS = C > 8 ? 2 : 1;
constexpr int PIXELS = 64 + K - 1, GROUP_BYTES = PIXELS * 16, HALF_BYTES = GROUPS * GROUP_BYTES;
constexpr int PARTS = PRODUCTS == 3 ? 2 : 1; // high, low
constexpr int ROW_BYTES = PARTS * HALF_BYTES;
constexpr int UNITS = GROUPS == 1 ? K : K + (K + 1) / 2, STEPS = (UNITS + 1) / 2;

__host__ __device__ constexpr int unit_group(int u) { return u >= K && GROUPS == 2; }
__host__ __device__ constexpr int unit_column(int u)
{
    return unit_group(u) ? 2 * ((u < UNITS ? u : UNITS - 1) - K) : u < K ? u : K - 1;
}
__host__ __device__ constexpr int unit_bytes(int u)
{
    return unit_group(u) * GROUP_BYTES + unit_column(u) * 16;
}

// Weights: a row of the ring of outputs sees the filter's rows in an order that turns with
// the input row; twice round in memory, each order is a window.
constexpr int TURNS = 2 * K - 1, COLUMNS = TURNS * M, UNIT_BYTES = COLUMNS * 16;
constexpr int WEIGHT_BYTES = 2 * STEPS * UNIT_BYTES; // of one half

// Output rows in shared memory: per image and map a ring of ROWS_OUT rows. The stride of a
// map, 4 or 12 floats after a multiple of 16, spreads a fragment over all banks.
constexpr int RING = ROWS_OUT * WO;
constexpr int QUADS = (RING + 3) / 4, STRIDE = 4 * (QUADS % 2 ? QUADS : QUADS + 1);
constexpr int OUT_FLOATS = 2 * M * STRIDE; // of a pair

constexpr int SLOT = M / 2; // registers of an output row

// Scaled, the largest number of a sample of an image reaches 2^6, so that only an image with
// others 2^9 times larger, or of which just zeros were seen, may have no place in fp16.
constexpr int IMAGE_TO = 6, WEIGHT_TO = 10;
constexpr float LARGEST = STORED_HALF ? 65504 : 60000, SMALLEST = STORED_HALF ? 0 : 8;

// Shared memory, from its start
constexpr int AT_ROWS = PARTS * WEIGHT_BYTES, AT_OUT = AT_ROWS + 2 * ROWS_IN * ROW_BYTES;
constexpr int WEIGHTS = C * M * K * K, ROOM = 2 * OUT_FLOATS > WEIGHTS ? 2 * OUT_FLOATS : WEIGHTS;
constexpr int AT_BARRIERS = AT_OUT + (ROOM + 1) / 2 * 8; // the weights pass through there
constexpr int BARRIERS = 2 * (2 * ROWS_IN + 2 * ROWS_OUT) + 2;
constexpr int AT_NOTES = AT_BARRIERS + BARRIERS * 8;
constexpr int MEMO = 8; // parts whose notes are kept

struct Notes
{
    float scale[2][MEMO][2]; // per group, pair, image: the power of two
    float most[2][MEMO][2];  // the largest |x|, scaled
    unsigned weight;           // the largest |k|
};

template <int ID, int THREADS> __device__ __forceinline__ void meet()
{
    asm volatile("bar.sync %0, %1;" ::"n"(ID), "n"(THREADS) : "memory");
}
__device__ __forceinline__ void publish() // stores, to the tensor cores' reads
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

#define N8 "%0,%1,%2,%3"
#define N16 N8 ",%4,%5,%6,%7"
#define N24 N16 ",%8,%9,%10,%11"
#define N32 N24 ",%12,%13,%14,%15"
#define N40 N32 ",%16,%17,%18,%19"
#define N48 N40 ",%20,%21,%22,%23"
#define N56 N48 ",%24,%25,%26,%27"
#define N64 N56 ",%28,%29,%30,%31"
#define N72 N64 ",%32,%33,%34,%35"
#define N80 N72 ",%36,%37,%38,%39"
#define N88 N80 ",%40,%41,%42,%43"
#define N96 N88 ",%44,%45,%46,%47"
#define N104 N96 ",%48,%49,%50,%51"
#define N112 N104 ",%52,%53,%54,%55"
#define N120 N112 ",%56,%57,%58,%59"
#define D8 D4(0)
#define D16 D8, D4(4)
#define D24 D16, D4(8)
#define D32 D24, D4(12)
#define D40 D32, D4(16)
#define D48 D40, D4(20)
#define D56 D48, D4(24)
#define D64 D56, D4(28)
#define D72 D64, D4(32)
#define D80 D72, D4(36)
#define D88 D80, D4(40)
#define D96 D88, D4(44)
#define D104 D96, D4(48)
#define D112 D104, D4(52)
#define D120 D112, D4(56)
#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])

template <int N> struct Product;
// 64 x 16 by 16 x N: A by descriptor or from registers, whose operand numbers follow D's.
#define PRODUCT(n, A0, A1, A2, A3, A4)                                                             \
    template <> struct Product<n> {                                                                \
        static __device__ __forceinline__ void run(float *d, u64 a, u64 b)                         \
        {                                                                                          \
            asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, 1, 1;\n"                                \
                         "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {" N##n "}, "      \
                         "%" #A0 ", %" #A1 ", p, 1, 1, 0, 0;\n}"                                   \
                         : D##n : "l"(a), "l"(b));                                                 \
        }                                                                                          \
        static __device__ __forceinline__ void run(float *d, const unsigned *a, u64 b)             \
        {                                                                                          \
            asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, 1, 1;\n"                                \
                         "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {" N##n "}, "      \
                         "{%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #A4 ", p, 1, 1, 0;\n}"               \
                         : D##n : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));             \
        }                                                                                          \
    };
#if SHAPE_M % 24 == 0
PRODUCT(24, 12, 13, 14, 15, 16)
PRODUCT(48, 24, 25, 26, 27, 28)
PRODUCT(72, 36, 37, 38, 39, 40)
PRODUCT(96, 48, 49, 50, 51, 52)
PRODUCT(120, 60, 61, 62, 63, 64)
#else
PRODUCT(16, 8, 9, 10, 11, 12)
PRODUCT(32, 16, 17, 18, 19, 20)
PRODUCT(48, 24, 25, 26, 27, 28)
PRODUCT(64, 32, 33, 34, 35, 36)
PRODUCT(80, 40, 41, 42, 43, 44)
#endif

// Unswizzled, K innermost: 8 rows of 16 bytes lie together; `next` is the way to the other
// half of k16, 128 bytes the way to the next 8 rows.
__device__ __forceinline__ u64 descriptor(unsigned address, unsigned next)
{
    return (u64)((address & 0x3ffff) >> 4) | (u64)(next >> 4) << 16 | (u64)(128 >> 4) << 32;
}

__device__ __forceinline__ void load_fragment(unsigned *a, unsigned address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(address) : "memory");
}

// A piece of work: some output rows of a pair of images.
struct Part
{
    int pair, top, periods, rows, outputs; // input rows read, output rows that there are
};
struct Plan
{
    int B, periods, parts, items, step;

    __device__ __forceinline__ Plan(int B, int periods) : B(B), periods(periods)
    {
        parts = (HO + periods * K + K - 2) / (periods * K + K - 1);
        items = (B + 1) / 2 * parts;
        step = 2 * gridDim.x;
    }
    __device__ __forceinline__ Part part(int item) const
    {
        Part p;
        p.pair = item / parts;
        p.top = (item - p.pair * parts) * (periods * K + K - 1);
        p.periods = min(periods, (max(HO - p.top - (K - 1), 0) + K - 1) / K);
        p.rows = p.periods * K + 2 * (K - 1);
        p.outputs = min(p.periods * K + K - 1, HO - p.top);
        return p;
    }
};

struct Place // in a ring
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

__device__ __forceinline__ float power_of_two(int e) { return __int_as_float((e + 127) << 23); }

// The power of two that takes a number to [2^to, 2^(to + 1)); the largest for zero.
__device__ __forceinline__ float scale_for(unsigned bits, int to)
{
    return power_of_two(min(max(127 + to - (int)(bits >> 23), -126), 126));
}

__device__ __forceinline__ float weight_scale(const Notes *notes)
{
    return STORED_HALF ? 1 : scale_for(notes->weight, WEIGHT_TO);
}

// ---- products

__device__ __forceinline__ void zero(float &f)
{
    asm volatile("mov.f32 %0, 0f00000000;" : "=f"(f));
}

struct Math
{
    float one[K * SLOT], two[K * SLOT]; // high high; the rest, or every other high high
    float done[SLOT];                   // an output row on its way out
    unsigned weights, rows, full, empty, out_full, out_empty, turn_mine, turn_other;
    float *out;
    Place in, put;
    int lane_row; // of the fragment of A
    bool waiting, paired;
    unsigned turn_phase;

    // One input row into COUNT output rows from FIRST on; ROTATION is the row's number mod K.
    template <int ROTATION, int FIRST, int COUNT> __device__ __forceinline__ void row()
    {
        wait(full + in.at * 8, in.turn);
        publish(); // here, for where the rows are written it would wait for reads in flight
        const unsigned a = rows + in.at * ROW_BYTES;
        const unsigned b = weights + (K - 1 - ROTATION + FIRST) * M * 16;
        unsigned high[STEPS][4];
#pragma unroll
        for (int s = 0; s < STEPS; s++)
            load_fragment(high[s], a + lane_row +
                                       unit_bytes(threadIdx.x % 32 / 16 ? 2 * s + 1 : 2 * s));
        if (paired) {
            wait(turn_mine, turn_phase);
            turn_phase ^= 1;
        }
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            const unsigned left = unit_bytes(2 * s), way = unit_bytes(2 * s + 1) - left;
            const u64 bh = descriptor(b + 2 * s * UNIT_BYTES, UNIT_BYTES);
            Product<COUNT * M>::run(PRODUCTS == 1 && s % 2 ? two : one, high[s], bh);
            if constexpr (PRODUCTS == 3) {
                const u64 bl = descriptor(b + 2 * s * UNIT_BYTES + WEIGHT_BYTES, UNIT_BYTES);
                Product<COUNT * M>::run(two, high[s], bl);
                Product<COUNT * M>::run(two, descriptor(a + left + HALF_BYTES, way), bh);
            }
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        if (paired && threadIdx.x % 128 == 0)
            arrive(turn_other);
        if (waiting)
            hand_out();
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        if (threadIdx.x % 32 == 0)
            arrive(empty + in.at * 8);
        in.next(ROWS_IN);
    }

    // An output row is complete: keep it, and make its room fresh.
    template <int INDEX> __device__ __forceinline__ void finish()
    {
#pragma unroll
        for (int i = 0; i < SLOT; i++) {
            done[i] = one[INDEX * SLOT + i] + two[INDEX * SLOT + i];
            // Here and now, lest the next products wait for what could have been done before.
            asm volatile("" : "+f"(done[i]));
            zero(one[INDEX * SLOT + i]);
            zero(two[INDEX * SLOT + i]);
        }
        waiting = true;
    }

    // Of COUNT output rows in progress the first is done: move the others down.
    template <int COUNT> __device__ __forceinline__ void shift()
    {
#pragma unroll
        for (int i = 0; i < (COUNT - 1) * SLOT; i++) {
            asm volatile("mov.f32 %0, %1;" : "=f"(one[i]) : "f"(one[i + SLOT]));
            asm volatile("mov.f32 %0, %1;" : "=f"(two[i]) : "f"(two[i + SLOT]));
        }
#pragma unroll
        for (int i = (COUNT - 1) * SLOT; COUNT > 1 && i < COUNT * SLOT; i++) {
            zero(one[i]);
            zero(two[i]);
        }
    }

    __device__ __forceinline__ void hand_out()
    {
        wait(out_empty + put.at * 8, put.turn ^ 1);
        const int lane = threadIdx.x % 32, top = threadIdx.x % 128 / 32 * 16 + lane / 4;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int r = top + 8 * half, image = r >= W, column = image ? r - W : r;
            float *to = out + image * M * STRIDE + lane % 4 * 2 * STRIDE + put.at * WO + column;
            if (column < WO) {
#pragma unroll
                for (int i = 0; i < M / 8; i++) {
                    to[(8 * i) * STRIDE] = done[4 * i + 2 * half];
                    to[(8 * i + 1) * STRIDE] = done[4 * i + 2 * half + 1];
                }
            }
        }
        __syncwarp();
        if (lane == 0)
            arrive(out_full + put.at * 8);
        put.next(ROWS_OUT);
        waiting = false;
    }

    template <int I> __device__ __forceinline__ void head()
    {
        if constexpr (I < K - 1) {
            row<I, 0, I + 1>();
            head<I + 1>();
        }
    }
    // All in one loop: of products after a loop the compiler makes copies of the registers.
    template <int I> __device__ __forceinline__ void body(const Part &part, int y)
    {
        if constexpr (I < K) {
            if (y < part.periods * K) {
                row<(I + K - 1) % K, 0, K>();
                finish<I>();
            } else if constexpr (I < K - 1) {
                row<(I + K - 1) % K, I, K - 1 - I>();
                finish<0>();
                shift<K - 1 - I>();
            }
            body<I + 1>(part, y);
        }
    }

    __device__ __forceinline__ void begin()
    {
#pragma unroll
        for (int i = 0; i < K * SLOT; i++) {
            zero(one[i]);
            zero(two[i]);
        }
        waiting = false;
    }

    __device__ __forceinline__ void run(const Part &part) // which leaves zeros as it found them
    {
        head<0>();
#pragma unroll 1
        for (int y = 0; y <= part.periods * K; y += K)
            body<0>(part, y);
        if (waiting)
            hand_out();
    }
};

// ---- rows of an image to fp16

struct Reader // of the rows of all images that a warp converts
{
    const Stored *x;
    Plan plan;
    int item, image, y, end;
    const Stored *from; // null for an image that is not there

    __device__ __forceinline__ void open()
    {
        if (item < plan.items) {
            const Part p = plan.part(item);
            const int b = 2 * p.pair + image;
            y = p.top;
            end = p.top + p.rows;
            from = b < plan.B ? x + (size_t)b * C * H * W : nullptr;
        }
    }
    __device__ __forceinline__ void load(Stored *v, Stored &extra)
    {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int c = 0; c < C; c++)
            v[c] = Stored(0);
        extra = Stored(0);
        if (item >= plan.items)
            return;
        if (from && y < H) {
            const Stored *there = from + y * W + lane;
            asm volatile("" : "+l"(there)); // one address for all channels
            if (W >= 32 || lane < W) {
#pragma unroll
                for (int c = 0; c < C; c++)
                    v[c] = __ldg(there + c * H * W);
            }
            if (W > 32 && lane < C)
                extra = __ldg(there + lane * (H * W - 1) + 32);
        }
        if (++y == end) {
            item += plan.step;
            open();
        }
    }
    // The largest of numbers from all over an image.
    __device__ __forceinline__ unsigned sample(int i)
    {
        const int lane = threadIdx.x % 32;
        if (STORED_HALF || i >= plan.items)
            return 0;
        const int b = 2 * plan.part(i).pair + image;
        if (b >= plan.B)
            return 0;
        const Stored *from = x + (size_t)b * C * H * W;
        constexpr int APART = C * H * W / 64;
        const float u = __ldg(from + 2 * lane * APART), v = __ldg(from + (2 * lane + 1) * APART);
        return max(__float_as_uint(u) << 1, __float_as_uint(v) << 1) >> 1;
    }
};

__device__ __forceinline__ unsigned bits(__half2 pair) { return *(const unsigned *)&pair; }

// Two numbers in fp16, and what is left of them.
__device__ __forceinline__ unsigned split(Stored a, Stored b, float scale, unsigned &low)
{
#if STORED_HALF
    low = 0;
    return bits(__halves2half2(a, b));
#else
    a *= scale;
    b *= scale;
    const __half2 high = __floats2half2_rn(a, b);
    const float2 back = __half22float2(high);
    low = bits(__floats2half2_rn(a - back.x, b - back.y));
    return bits(high);
#endif
}

// The larger of each half, in absolute value; NaN if one is.
__device__ __forceinline__ unsigned larger(unsigned a, unsigned b)
{
    unsigned r;
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b & 0x7fff7fff));
    return r;
}

__device__ __forceinline__ void convert_row(char *row, const Stored *v, Stored extra,
                                            float scale, int image, unsigned &most)
{
    const int lane = threadIdx.x % 32, pixel = image * W + lane;
    unsigned h[GROUPS == 2 ? 6 : 4], l[GROUPS == 2 ? 6 : 4];
#pragma unroll
    for (int i = 0; i < (GROUPS == 2 ? 6 : 4); i++) {
        const Stored none = Stored(0);
        h[i] = split(2 * i < C ? v[2 * i] : none, 2 * i + 1 < C ? v[2 * i + 1] : none, scale, l[i]);
        most = larger(most, h[i]);
    }
    if (lane < W) {
        char *to = row + pixel * 16;
        *(uint4 *)to = make_uint4(h[0], h[1], h[2], h[3]);
        if constexpr (PARTS == 2)
            *(uint4 *)(to + HALF_BYTES) = make_uint4(l[0], l[1], l[2], l[3]);
        if constexpr (GROUPS == 2) {
            to += GROUP_BYTES;
            *(uint2 *)to = make_uint2(h[4], h[5]);
            if constexpr (PARTS == 2)
                *(uint2 *)(to + HALF_BYTES) = make_uint2(l[4], l[5]);
            if (pixel > 0) {
                *(uint2 *)(to - 8) = make_uint2(h[4], h[5]);
                if constexpr (PARTS == 2)
                    *(uint2 *)(to - 8 + HALF_BYTES) = make_uint2(l[4], l[5]);
            }
        }
    }
    if (W > 32 && lane < C) {
        unsigned low;
        const unsigned high = split(extra, Stored(0), scale, low);
        most = larger(most, high);
        const int p = image * W + 32, c = lane;
        char *to = row + (c < 8 ? p * 16 + 2 * c : GROUP_BYTES + p * 16 + 2 * (c - 8));
        *(unsigned short *)to = high;
        if constexpr (PARTS == 2)
            *(unsigned short *)(to + HALF_BYTES) = low;
        if (c >= 8) {
            *(unsigned short *)(to - 8) = high;
            if constexpr (PARTS == 2)
                *(unsigned short *)(to - 8 + HALF_BYTES) = low;
        }
    }
}

__device__ __forceinline__ void convert(Reader r, char *rows, unsigned full, unsigned empty,
                                        Notes *notes, int group)
{
    const int lane = threadIdx.x % 32;
    Stored v[ROWS_AHEAD][C], extra[ROWS_AHEAD];
    Place put;
    int item = r.item, y = 0, end = 0, memo = 0;
    unsigned most = 0, sampled = r.sample(item);
    float scale = 1;
    r.open();
#pragma unroll
    for (int i = 0; i < ROWS_AHEAD; i++)
        r.load(v[i], extra[i]);
    while (item < r.plan.items) {
#pragma unroll
        for (int i = 0; i < ROWS_AHEAD; i++) {
            if (item >= r.plan.items)
                break;
            if (y == 0) {
                end = r.plan.part(item).rows;
                if constexpr (!STORED_HALF)
                    scale = scale_for(__reduce_max_sync(~0u, sampled), IMAGE_TO);
                if (lane == 0)
                    notes->scale[group][memo][r.image] = scale;
                sampled = r.sample(item + r.plan.step);
                most = 0;
            }
            wait(empty + put.at * 8, put.turn ^ 1);
            convert_row(rows + put.at * ROW_BYTES, v[i], extra[i], scale, r.image, most);
            if (++y == end) {
                // As whole numbers, halves are in order, and NaN above all.
                const unsigned all = __reduce_max_sync(~0u, max(most & 0xffff, most >> 16));
                if (lane == 0)
                    notes->most[group][memo][r.image] = __half2float(__ushort_as_half(all));
                memo = (memo + 1) % MEMO;
                item += r.plan.step;
                y = 0;
            }
            __syncwarp();
            if (lane == 0)
                arrive(full + put.at * 8);
            put.next(ROWS_IN);
            r.load(v[i], extra[i]);
        }
    }
}

// ---- outputs to y

// Outputs of an image that has no place in fp16: Inf and NaN spread as in any sum.
__device__ __forceinline__ void directly(float *y, const Stored *x, const Stored *k, int top,
                                         int rows)
{
#pragma unroll 1
    for (int o = threadIdx.x % 32; o < M * rows * WO; o += 32) {
        const int m = o / (rows * WO), p = o - m * rows * WO + top * WO;
        const Stored *from = x + p / WO * W + p % WO, *weight = k + m * C * K * K;
        float sum = 0;
#pragma unroll 1
        for (int c = 0; c < C; c++, from += H * W)
#pragma unroll 1
            for (int u = 0; u < K; u++)
#pragma unroll
                for (int v = 0; v < K; v++)
                    sum = fmaf((float)from[u * W + v], (float)*weight++, sum);
        y[m * PLANE + p] = sum;
    }
}

// Writes what is complete of the sectors (of 8 floats) that a row of each map reaches, with
// the last floats of the row before; EDGE: from the first float, or to the last.
template <bool EDGE>
__device__ __forceinline__ void store_row(float *to, const float *out, int row, bool first,
                                          bool last, int slot, float factor)
{
    const int lane = threadIdx.x % 32, from = row * WO + (int)((size_t)to >> 2 & 7);
    first &= EDGE;
    last &= EDGE;
    to += row * WO + lane;
    out += slot * WO + lane;
    float v[8][M / 8];
    bool mine[8];
#pragma unroll
    for (int i = 0; i < 8; i++) { // and all maps that begin at the same place of a sector
        const int before = from + i * PLANE & 7, end = last ? before + WO : before + WO & ~7;
        const float *at = out + i * STRIDE - before + (slot * WO + lane < before ? RING : 0);
        mine[i] = lane < end && (!first || lane >= before);
#pragma unroll
        for (int j = 0; j < M / 8; j++)
            v[i][j] = mine[i] ? at[8 * j * STRIDE] : 0;
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float *there = to + i * PLANE - (from + i * PLANE & 7);
        if (mine[i]) {
#pragma unroll
            for (int j = 0; j < M / 8; j++)
                there[8 * j * PLANE] = v[i][j] * factor;
        }
    }
    if (EDGE && WO > 25 && last) // more than 32 floats
        for (int m = lane / 8; m < M; m += 4) {
            const int i = 32 - (from + m * PLANE & 7) + lane % 8;
            if (i < WO)
                to[m * PLANE + i - lane] = out[m * STRIDE + i - lane] * factor;
        }
}

__device__ __forceinline__ void store(float *y, const Stored *x, const Stored *k, const float *out,
                                      unsigned out_full, unsigned out_empty, const Notes *notes,
                                      const Plan &plan, int group, int image)
{
    const int lane = threadIdx.x % 32;
    const float back = 1 / weight_scale(notes);
    Place get;
    int memo = 0;
    out += image * M * STRIDE;
    for (int item = blockIdx.x + group * gridDim.x; item < plan.items; item += plan.step) {
        const Part part = plan.part(item);
        const int b = 2 * part.pair + image, bottom = part.top + part.outputs - 1;
        float *to = y + (size_t)b * M * PLANE;
        float factor = 0;
        unsigned before = 0;
#pragma unroll 1
        for (int row = part.top; row < part.top + part.rows - (K - 1); row++) {
            const bool first = row == part.top, last = row == bottom;
            wait(out_full + get.at * 8, get.turn);
            if (first)
                factor = STORED_HALF ? 1 : 1 / notes->scale[group][memo][image] * back;
            if (b < plan.B && row <= bottom) {
                if (first || last)
                    store_row<true>(to, out, row, first, last, get.at, factor);
                else
                    store_row<false>(to, out, row, false, false, get.at, factor);
            }
            __syncwarp();
            if (lane == 0) {
                if (!first)
                    arrive(before);
                if (row == part.top + part.rows - K)
                    arrive(out_empty + get.at * 8);
            }
            before = out_empty + get.at * 8;
            get.next(ROWS_OUT);
        }
        bool exotic = notes->weight >= 0x7f800000 || factor == 0;
        for (int j = 0; j < 2; j++) {
            const float most = notes->most[group][memo][j]; // Inf or NaN if it was too large
            const float product =
                most / notes->scale[group][memo][j] * __uint_as_float(notes->weight);
            exotic |= !(most <= LARGEST) || (most && most < SMALLEST) ||
                      (!STORED_HALF && product > 1e35f);
        }
        if (exotic && b < plan.B) {
            __syncwarp();
            directly(to, x + (size_t)b * C * H * W, k, part.top, part.outputs);
        }
        memo = (memo + 1) % MEMO;
    }
}

// ---- weights

__device__ __forceinline__ void prepare_weights(char *weights, Stored *room, const Stored *k,
                                                Notes *notes, int t)
{
    constexpr int THREADS = 384, EACH = (WEIGHTS + THREADS - 1) / THREADS;
    Stored w[EACH];
    unsigned most = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++)
        w[i] = i * THREADS + t < WEIGHTS ? __ldg(k + i * THREADS + t) : Stored(0);
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        if (i * THREADS + t < WEIGHTS)
            room[i * THREADS + t] = w[i];
        most = max(most, __float_as_uint((float)w[i]) << 1);
    }
    most = __reduce_max_sync(~0u, most >> 1);
    if (t % 32 == 0)
        atomicMax(&notes->weight, most);
    meet<1, THREADS>();
    const float scale = weight_scale(notes);
    for (int i = t; i < 2 * STEPS * K * M; i += THREADS) {
        const int m = i % M, turn = i / M % K, u = i / M / K, ky = K - 1 - turn;
        unsigned h[4], l[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            Stored w[2];
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int n = 2 * j + e, c = unit_group(u) ? 8 + n % 4 : n;
                const int kx = unit_column(u) + (unit_group(u) ? n / 4 : 0);
                const bool there = u < UNITS && c < C && kx < K;
                w[e] = there ? room[((m * C + c) * K + ky) * K + kx] : Stored(0);
            }
            h[j] = split(w[0], w[1], scale, l[j]);
        }
        char *to = weights + u * UNIT_BYTES + (turn * M + m) * 16;
        for (int again = 0; again < (turn < K - 1 ? 2 : 1); again++, to += K * M * 16) {
            *(uint4 *)to = make_uint4(h[0], h[1], h[2], h[3]);
            if constexpr (PARTS == 2)
                *(uint4 *)(to + WEIGHT_BYTES) = make_uint4(l[0], l[1], l[2], l[3]);
        }
    }
    publish();
    meet<1, THREADS>();
}


} // namespace

extern "C" __global__ void __launch_bounds__(512, 1)
    conv_best_split(float *__restrict__ y, const Stored *__restrict__ x,
                    const Stored *__restrict__ k, int B, int periods)
{
    extern __shared__ __align__(128) char memory[];
    Notes *notes = (Notes *)(memory + AT_NOTES);
    float *out = (float *)(memory + AT_OUT);
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), role = warp / 4;
    const int group = role < 2 ? role : warp / 2 % 2, image = warp % 2;
    constexpr int OF_GROUP = 16 * (ROWS_IN + ROWS_OUT);
    const unsigned barriers = shared_address(memory + AT_BARRIERS) + group * OF_GROUP;
    const unsigned full = barriers, empty = full + 8 * ROWS_IN, out_full = empty + 8 * ROWS_IN,
                   out_empty = out_full + 8 * ROWS_OUT,
                   turns = shared_address(memory + AT_BARRIERS) + 2 * OF_GROUP;
    const Plan plan(B, periods);
    const int first = blockIdx.x + group * gridDim.x;
    if (role < 2 && threadIdx.x % 128 == 0) {
        for (int i = 0; i < ROWS_IN; i++) {
            expect(full + 8 * i, 2);
            expect(empty + 8 * i, 4);
        }
        for (int i = 0; i < ROWS_OUT; i++) {
            expect(out_full + 8 * i, 4);
            expect(out_empty + 8 * i, 2);
        }
        expect(turns + 8 * group, 1);
        if (group == 0) {
            notes->weight = 0;
        }
        expected();
    }
    for (int i = threadIdx.x * 16; i < 2 * ROWS_IN * ROW_BYTES; i += 512 * 16)
        *(uint4 *)(memory + AT_ROWS + i) = make_uint4(0, 0, 0, 0);
    __syncthreads();

    if (role < 2) {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 168;");
        prepare_weights(memory, (Stored *)out, k, notes, threadIdx.x);
        Math math;
        math.weights = shared_address(memory);
        math.rows = shared_address(memory + AT_ROWS) + group * ROWS_IN * ROW_BYTES;
        math.full = full, math.empty = empty, math.out_full = out_full, math.out_empty = out_empty;
        math.out = out + group * OUT_FLOATS;
        math.lane_row = (threadIdx.x % 128 / 32 * 16 + threadIdx.x % 16) * 16;
        math.begin();
        math.turn_mine = turns + 8 * group, math.turn_other = turns + 8 - 8 * group;
        math.turn_phase = group == 0;
        for (int item = first; item < plan.items; item += plan.step) {
            const int of_second = item - group * (int)gridDim.x + (int)gridDim.x;
            math.paired = plan.parts == 1 && of_second < plan.items;
            math.run(plan.part(item));
        }
    } else if (role == 2) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 96;");
        Reader reader{x, plan, first, image};
        convert(reader, memory + AT_ROWS + group * ROWS_IN * ROW_BYTES, full, empty, notes, group);
    } else {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 80;");
        prepare_weights(memory, (Stored *)out, k, notes, threadIdx.x - 128);
        store(y, x, k, out + group * OUT_FLOATS, out_full, out_empty, notes, plan, group, image);
    }
}
