// best_split: fp32's accuracy on Hopper's tensor cores, with operands split into two halves
//
// After tensor_split: wgmma instead of mma, and a ring buffer of output rows. x = high + low and
// k = high + low, both fp16 after scaling by a power of two; high high + (high low + low high) in
// two accumulators has an error of 2^-22.
// An input row of two images side by side is 64 rows of a product; its depth is (column of
// the filter, channel); its columns are the maps of all K output rows that depend on the input
// row, so a row is read once for all of them.
// warps 0-3, 4-7: multiply, for a pair of images each; 8-11: convert the rows of an image to fp16;
// 12-15: store the outputs of an image by bulk copies, and compute an exotic image directly
// Per output: 3 C K K products on tensor cores, 4 bytes out, 4 C H W / (M H_out W_out) in.

#if !defined SHAPE_C || !defined SHAPE_M || !defined SHAPE_K || !defined SHAPE_H ||             \
    !defined SHAPE_W || !defined ROWS_IN || !defined ROWS_AHEAD
#error "SHAPE_*, ROWS_* are set by project/plans/best_split.py"
#endif

#include "parts/mbarrier.cuh"
#include <cuda_fp16.h>

#pragma nv_diag_suppress 177 // a shape needs but some of the products

typedef unsigned long long u64;

namespace
{

constexpr int C = SHAPE_C, M = SHAPE_M, K = SHAPE_K, H = SHAPE_H, W = SHAPE_W;
constexpr int HO = H - K + 1, WO = W - K + 1, PLANE = HO * WO;
// The distance between the pixels of a pair's two images: even, and large enough that an image's
// outputs are the rows of two warps.
constexpr int APART = W > 32 ? W + W % 2 : 32;
static_assert(APART + WO <= 64 && W <= 33 && (M == 24 || M == 16) && (C <= 8 || C == 12),
              "refused");

// A row in fp16: even pixels, then odd ones, so that every other pixel is contiguous.
// Channels 0-7 of a pixel are a unit of 16 bytes; of 12 channels the other four share a unit
// with those of the next pixel, so that no part of a product is wasted.
constexpr int GROUPS = C > 8 ? 2 : 1;
constexpr int EACH_BYTES = (32 + (K + 1) / 2) * 16;
constexpr int ODD_BYTES = (EACH_BYTES + 63) / 128 * 128 + 64; // the other 16 banks
constexpr int GROUP_BYTES = 2 * ODD_BYTES + 32, HALF_BYTES = GROUPS * GROUP_BYTES;
constexpr int ROW_BYTES = 2 * HALF_BYTES; // high, low
constexpr int UNITS = GROUPS == 1 ? K : K + (K + 1) / 2, STEPS = (UNITS + 1) / 2;

// The first step is of columns 0 and 2, which one load of four fragments contains.
__host__ __device__ constexpr int unit_group(int u) { return u >= K && GROUPS == 2; }
__host__ __device__ constexpr int unit_column(int u)
{
    return u >= UNITS     ? unit_column(UNITS - 1)
           : unit_group(u) ? 2 * (u - K)
           : u == 1        ? 2
           : u == 2        ? 1
                           : u;
}

// Weights: the order in which rows of the output ring use the filter's rows rotates with the
// input row; the weights are stored twice, so that each order is a contiguous window.
constexpr int TURNS = 2 * K - 1, COLUMNS = TURNS * M, UNIT_BYTES = COLUMNS * 16;
constexpr int WEIGHT_BYTES = 2 * STEPS * UNIT_BYTES; // of one half

// Output rows in shared memory: a ring per image and map, with the same alignment to sectors (8
// floats) as in y, so that half a ring at a time, about five rows, is stored by a bulk copy.
constexpr int HALF_RING = 5 * WO / 8 * 8, RING = 2 * HALF_RING;
// To avoid bank conflicts among the maps 0, 1, 4, 5 that a warp writes at a time (if an image of a
// map has an odd size), padding separates map 0 from 4 by 16 banks.
constexpr int PAD = (48 - 4 * PLANE % 8) % 32;
constexpr int IMAGE_FLOATS = M * RING + M / 4 * PAD, OUT_FLOATS = 2 * IMAGE_FLOATS; // of a pair
__host__ __device__ constexpr int map_at(int m) { return m * RING + m / 4 * PAD; }
__host__ __device__ constexpr int map_phase(int m) { return m * PLANE % 8; } // in a sector
constexpr int REACH = WO + 7; // of a row, whatever the phase
static_assert(REACH + 7 <= HALF_RING, "a row lies in two halves at most");

constexpr int SLOT = M / 2; // registers of an output row

// The scale brings the largest of a sample of an image to 2^6, so fp16 overflows only if others
// are 2^9 times larger, or if the sample is all zeros.
constexpr int IMAGE_TO = 6, WEIGHT_TO = 10;
constexpr unsigned MOST_APART = 10; // exponents of the largest weight and of a map's largest
constexpr float LARGEST = 60000, SMALLEST = 8;

// Layout of shared memory
constexpr int AT_ROWS = 2 * WEIGHT_BYTES, AT_OUT = AT_ROWS + 2 * ROWS_IN * ROW_BYTES;
// The weights are loaded through the outputs' space, with an odd stride between maps to avoid
// bank conflicts.
constexpr int OF_MAP = C * K * K, WEIGHTS = M * OF_MAP, MAP_ROOM = OF_MAP | 1;
constexpr int ROOM = 2 * OUT_FLOATS > M * MAP_ROOM ? 2 * OUT_FLOATS : M * MAP_ROOM;
constexpr int AT_BARRIERS = AT_OUT + (ROOM + 1) / 2 * 8;
constexpr int BARRIERS = 2 * (2 * ROWS_IN + 4);
constexpr int AT_NOTES = AT_BARRIERS + BARRIERS * 8;
constexpr int MEMO = 8; // parts whose ranges are kept

struct Notes
{
    float scale[2][MEMO][2]; // per group, pair, image: the power of two
    float most[2][MEMO][2];  // the largest |x|, scaled
    unsigned weight;           // the largest |k|
    unsigned uneven;           // whether its scale leaves too few bits to a map of smaller ones
};

template <int ID, int THREADS> __device__ __forceinline__ void meet()
{
    asm volatile("bar.sync %0, %1;" ::"n"(ID), "n"(THREADS) : "memory");
}
__device__ __forceinline__ void publish() // make stores visible to tensor cores and bulk copies
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
// 64 x 16 by 16 x N: A is in registers, whose operand numbers follow D's.
#define PRODUCT(n, A0, A1, A2, A3, A4)                                                             \
    template <> struct Product<n> {                                                                \
        static __device__ __forceinline__ void run(float *d, const unsigned *a, u64 b)             \
        {                                                                                          \
            asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, 1, 1;\n"                                \
                         "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {" N##n "}, "     \
                         "{%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #A4 ", p, 1, 1, 0;\n}"      \
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

// Not swizzled, K-major: core matrices of 8 rows x 16 bytes; the next 8 rows follow after 128
// bytes, the other half of k16 after UNIT_BYTES.
__device__ __forceinline__ u64 descriptor(unsigned address, int further)
{
    return (u64)(128 >> 4) << 32 |
           ((address >> 4 | (unsigned)(UNIT_BYTES >> 4) << 16) + (further >> 4));
}

// The fragments of A for all columns of the filter. A warp's rows of a product are pixels 0,
// 2, .., 14, then 1, 3, .., 15 of its 16, so that odd pixels are reused as the even ones of the
// next column: of 16 fragments (8 pixels by 16 bytes), 12 are loaded.
struct Fragments
{
    unsigned eight[8], four[8]; // by column, of channels 0-7 and 8-11; four[0, 1] in eight[6, 7]

    static __device__ __forceinline__ void load(unsigned *a, unsigned address)
    {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                     : "r"(address)
                     : "memory");
    }
    // The addresses from which this lane reads columns 0-3, and 4, 5 with two of channels 8-11.
    static __device__ __forceinline__ unsigned lane_at()
    {
        const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
        return lane / 8 % 2 * ODD_BYTES + (8 * warp + lane % 8 + lane / 16) * 16;
    }
    static __device__ __forceinline__ unsigned later_at()
    {
        const bool second = threadIdx.x % 32 / 16;
        return lane_at() + (!second ? 32 : GROUPS == 2 ? GROUP_BYTES - 16 : 16);
    }
    __device__ __forceinline__ void load(unsigned row, unsigned lane_at, unsigned later_at)
    {
        load(eight, row + lane_at);
        if constexpr (K == 5)
            load(eight + 4, row + later_at);
        if constexpr (GROUPS == 2)
            load(four + (K == 5 ? 2 : 0), row + lane_at + GROUP_BYTES + (K == 5 ? 16 : 0));
    }
    __device__ __forceinline__ unsigned operator()(int unit, int odd) const
    {
        const int column = unit_column(unit) + odd;
        if (!unit_group(unit < UNITS ? unit : UNITS - 1))
            return eight[column];
        return K == 5 && column < 2 ? eight[6 + column] : four[column];
    }
    // The fragments of a step. Those not in adjacent registers are copied by an OR with ZERO,
    // which the compiler does not recognise as a copy: it would copy again for each product.
    __device__ __forceinline__ void take(unsigned *a, int step, unsigned zero) const
    {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            a[i] = (*this)(2 * step + i / 2, i % 2);
            if (step == 1 || (K == 3 && step > 0))
                asm volatile("or.b32 %0, %1, %2;" : "=r"(a[i]) : "r"(a[i]), "r"(zero));
        }
    }
};

// A part of the work: some output rows of a pair of images.
struct Part
{
    int pair, top, periods, rows, outputs; // rows: input rows; outputs: output rows
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

// The power of two that scales a number to [2^to, 2^(to + 1)); the largest for zero.
__device__ __forceinline__ float scale_for(unsigned bits, int to)
{
    return power_of_two(min(max(127 + to - (int)(bits >> 23), -126), 126));
}

__device__ __forceinline__ float inverse(float power) // of two
{
    return __int_as_float(0x7f000000 - __float_as_int(power));
}

__device__ __forceinline__ float weight_scale(const Notes *notes)
{
    return scale_for(notes->weight, WEIGHT_TO);
}

// ---- products

__device__ __forceinline__ void zero(float &f)
{
    asm volatile("mov.f32 %0, 0f00000000;" : "=f"(f));
}

struct Math
{
    float one[K * SLOT], two[K * SLOT]; // high high; the other products
    float done[SLOT];                   // a complete output row
    unsigned low[STEPS][4];             // of the next input row
    unsigned weights, rows, full, empty, out_full, out_empty;
    unsigned lane_at, later_at, none; // of fragments; zero
    float *out;                       // the ring of this thread's image and first map
    int column;                       // of its first pixel
    int next, taken, due; // floats: the next row in the ring; the ends of free and of full halves
    int left;             // input rows left
    float factor;
    Place in, put, take; // put and take are of halves of the ring
    bool waiting;

    // Add an input row to COUNT output rows starting at FIRST; ROTATION is the row's number mod K.
    // Low halves come first, so that the high ones, and then the next row's low ones, are
    // loaded during the products. The row's buffer is released as soon as it is in registers.
    template <int ROTATION, int FIRST, int COUNT> __device__ __forceinline__ void row()
    {
        const unsigned b = weights + (K - 1 - ROTATION + FIRST) * M * 16, freed = empty + in.at * 8;
        unsigned high[STEPS][4];
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int s = 0; s < STEPS; s++)
            Product<COUNT * M>::run(two, low[s], descriptor(b, 2 * s * UNIT_BYTES));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        load(high, 0);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int s = 0; s < STEPS; s++)
            Product<COUNT * M>::run(two, high[s], descriptor(b, 2 * s * UNIT_BYTES + WEIGHT_BYTES));
#pragma unroll
        for (int s = 0; s < STEPS; s++)
            Product<COUNT * M>::run(one, high[s], descriptor(b, 2 * s * UNIT_BYTES));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        arrive(freed);
        in.next(ROWS_IN);
        if (waiting)
            hand_out();
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (--left)
            load_low();
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    __device__ __forceinline__ void load(unsigned (*a)[4], int half)
    {
        Fragments of_row;
        of_row.load(rows + in.at * ROW_BYTES + half, lane_at, later_at);
#pragma unroll
        for (int s = 0; s < STEPS; s++)
            of_row.take(a[s], s, none);
    }
    __device__ __forceinline__ void load_low() // after waiting for the row
    {
        wait(full + in.at * 8, in.turn);
        load(low, HALF_BYTES);
    }

    // Copy a complete output row, and clear its accumulators.
    template <int INDEX> __device__ __forceinline__ void finish()
    {
#pragma unroll
        for (int i = 0; i < SLOT; i++) {
            done[i] = (one[INDEX * SLOT + i] + two[INDEX * SLOT + i]) * factor;
            // Force the copy here, so that the next products do not wait for it.
            asm volatile("" : "+f"(done[i]));
            zero(one[INDEX * SLOT + i]);
            zero(two[INDEX * SLOT + i]);
        }
        waiting = true;
    }

    // The first of COUNT output rows in progress is complete: move the others down.
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

    // A thread has maps 0 and 2, 8 and 10, .. relative to this one.
    static __device__ __forceinline__ int first_map()
    {
        return threadIdx.x % 2 + threadIdx.x / 2 % 2 * 4;
    }
    __device__ __forceinline__ void give_half()
    {
        arrive(out_full + put.at * 8);
        put.next(2);
        due += HALF_RING;
    }
    __device__ __forceinline__ void hand_out()
    {
        if (taken < REACH) {
            wait(out_empty + take.at * 8, take.turn ^ 1);
            take.next(2);
            taken += HALF_RING;
        }
        const int m = first_map();
#pragma unroll
        for (int e = 0; e < 2; e++)
#pragma unroll
            for (int odd = 0; odd < 2; odd++) {
                const unsigned i = next + map_phase(m + 2 * e) + column + odd;
                float *to = out + map_at(2 * e) + min(i, i - RING); // whichever is in the ring
                if ((unsigned)(column + odd) < WO) {
#pragma unroll
                    for (int n = 0; n < M / 8; n++)
                        to[map_at(8 * n)] = done[4 * n + 2 * odd + e];
                }
            }
        next += next + WO < RING ? WO : WO - RING;
        taken -= WO;
        due -= WO;
        if (due <= 0)
            give_half();
        waiting = false;
    }

    template <int I> __device__ __forceinline__ void head()
    {
        if constexpr (I < K - 1) {
            row<I, 0, I + 1>();
            head<I + 1>();
        }
    }
    // One loop for everything: the compiler copies registers for products after a loop.
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

    __device__ __forceinline__ void run(const Part &part) // starts and ends with zeroed sums
    {
        const int phase = part.top * WO & 7;
        next = put.at * HALF_RING + phase, taken = -phase, due = HALF_RING - phase;
        head<0>();
#pragma unroll 1
        for (int y = 0; y <= part.periods * K; y += K)
            body<0>(part, y);
        if (waiting)
            hand_out();
        while (due <= taken)
            give_half();
    }
};

// ---- rows of an image to fp16

// Ordered by |f|, with NaN above all.
__device__ __forceinline__ unsigned magnitude(float f) { return __float_as_uint(f) << 1 >> 1; }

struct Reader // reads the rows of all images that a warp converts
{
    const float *x;
    Plan plan;
    int item, image, y, end;
    const float *from; // null for a missing image

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
    __device__ __forceinline__ void load(float *v, float &extra)
    {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int c = 0; c < C; c++)
            v[c] = 0;
        extra = 0;
        if (item >= plan.items)
            return;
        if (from && y < H) {
            const float *there = from + y * W + lane;
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
    // The largest of a sample of an image.
    __device__ __forceinline__ unsigned sample(int i)
    {
        const int lane = threadIdx.x % 32;
        if (i >= plan.items)
            return 0;
        const int b = 2 * plan.part(i).pair + image;
        if (b >= plan.B)
            return 0;
        const float *from = x + (size_t)b * C * H * W;
        constexpr int STEP = C * H * W / 64;
        return max(magnitude(__ldg(from + 2 * lane * STEP)),
                   magnitude(__ldg(from + (2 * lane + 1) * STEP)));
    }
};

__device__ __forceinline__ unsigned bits(__half2 pair) { return *(const unsigned *)&pair; }

// Two numbers as fp16, and their remainders.
__device__ __forceinline__ unsigned split(float a, float b, float scale, unsigned &low)
{
    a *= scale;
    b *= scale;
    const __half2 high = __floats2half2_rn(a, b);
    const float2 back = __half22float2(high);
    low = bits(__floats2half2_rn(a - back.x, b - back.y));
    return bits(high);
}

// The larger absolute value of each half; NaN propagates.
__device__ __forceinline__ unsigned larger(unsigned a, unsigned b)
{
    unsigned r;
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b & 0x7fff7fff));
    return r;
}

__device__ __forceinline__ void convert_row(char *row, const float *v, float extra,
                                            float scale, int image, unsigned &most)
{
    const int lane = threadIdx.x % 32, pixel = image * APART + lane;
    if (W > 32 && lane < C) {
        unsigned low;
        const unsigned high = split(extra, 0, scale, low);
        most = larger(most, high);
        const int p = image * APART + 32, c = lane;
        char *to = row + (c < 8 ? p / 2 * 16 + 2 * c : GROUP_BYTES + p * 8 + 2 * (c - 8));
        *(unsigned short *)to = high;
        *(unsigned short *)(to + HALF_BYTES) = low;
        if (c >= 8) {
            to += ODD_BYTES - 8;
            *(unsigned short *)to = high;
            *(unsigned short *)(to + HALF_BYTES) = low;
        }
    }
    unsigned h[GROUPS == 2 ? 6 : 4], l[GROUPS == 2 ? 6 : 4];
#pragma unroll
    for (int i = 0; i < (GROUPS == 2 ? 6 : 4); i++) {
        h[i] = split(2 * i < C ? v[2 * i] : 0, 2 * i + 1 < C ? v[2 * i + 1] : 0, scale, l[i]);
        most = larger(most, h[i]);
    }
    if (lane < W) {
        char *to = row + lane % 2 * ODD_BYTES + pixel / 2 * 16;
        *(uint4 *)to = make_uint4(h[0], h[1], h[2], h[3]);
        *(uint4 *)(to + HALF_BYTES) = make_uint4(l[0], l[1], l[2], l[3]);
        if constexpr (GROUPS == 2) {
            to = row + GROUP_BYTES + pixel * 8; // units starting at pixel 0, and at pixel 1
#pragma unroll
            for (int odd = 0; odd < 2; odd++, to += ODD_BYTES - 8) {
                *(uint2 *)to = make_uint2(h[4], h[5]);
                *(uint2 *)(to + HALF_BYTES) = make_uint2(l[4], l[5]);
            }
        }
    }
}

__device__ __forceinline__ void convert(Reader r, char *rows, unsigned full, unsigned empty,
                                        Notes *notes, int group)
{
    const int lane = threadIdx.x % 32;
    float v[ROWS_AHEAD][C], extra[ROWS_AHEAD];
    Place put;
    int item = r.item, y = 0, end = 0, memo = 0;
    unsigned most = 0;
    unsigned sampled = r.sample(item);
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
                scale = scale_for(__reduce_max_sync(~0u, sampled), IMAGE_TO);
                if (lane == 0)
                    notes->scale[group][memo][r.image] = scale;
                sampled = r.sample(item + r.plan.step);
                most = 0;
            }
            wait(empty + put.at * 8, put.turn ^ 1);
            convert_row(rows + put.at * ROW_BYTES, v[i], extra[i], scale, r.image, most);
            if (++y == end) {
                // Absolute values of halves are ordered as integers, with NaN above all.
                const unsigned all = __reduce_max_sync(~0u, max(most & 0xffff, most >> 16));
                if (lane == 0)
                    notes->most[group][memo][r.image] = __half2float(__ushort_as_half(all));
                memo = (memo + 1) % MEMO;
                item += r.plan.step;
                y = 0;
            }
            arrive(full + put.at * 8);
            put.next(ROWS_IN);
            r.load(v[i], extra[i]);
        }
    }
}

// ---- outputs to y

// Compute the outputs of an image directly if fp16 cannot represent it; Inf and NaN propagate.
__device__ __forceinline__ void directly(float *y, const float *x, const float *k, int top,
                                         int rows)
{
#pragma unroll 1
    for (int o = threadIdx.x % 32; o < M * rows * WO; o += 32) {
        const int m = o / (rows * WO), p = o - m * rows * WO + top * WO;
        const float *from = x + p / WO * W + p % WO, *weight = k + m * C * K * K;
        float sum = 0;
#pragma unroll 1
        for (int c = 0; c < C; c++, from += H * W)
#pragma unroll 1
            for (int u = 0; u < K; u++)
#pragma unroll
                for (int v = 0; v < K; v++)
                    sum = fmaf(from[u * W + v], *weight++, sum);
        y[m * PLANE + p] = sum;
    }
}

__device__ __forceinline__ void store(float *y, const float *x, const float *k, const float *out,
                                      unsigned out_full, unsigned out_empty, const Notes *notes,
                                      const Plan &plan, int group, int image)
{
    const int lane = threadIdx.x % 32;
    const float back = notes->uneven ? 0 : inverse(weight_scale(notes)); // 0: all directly
    Place get; // of halves of the ring
    int memo = 0;
    out += image * IMAGE_FLOATS;
    for (int item = blockIdx.x + group * gridDim.x; item < plan.items; item += plan.step) {
        const Part part = plan.part(item);
        const int b = 2 * part.pair + image, handed = part.rows - (K - 1);
        float *to = y + (size_t)b * M * PLANE + part.top * WO;
        // Positions relative to the start of the first half; that of map 0's first output.
        const int first = part.top * WO & 7, length = part.outputs * WO;
        const int halves = (first + (handed - 1) * WO + REACH + HALF_RING - 1) / HALF_RING;
#pragma unroll 1
        for (int i = 0; i < halves; i++) {
            const int left = i * HALF_RING, right = left + HALF_RING;
            const float *ring = out + get.at * HALF_RING - left;
            wait(out_full + get.at * 8, get.turn);
            publish();
            if (b < plan.B) {
                if (lane < M) {
                    const int begin = first + map_phase(lane), end = begin + length;
                    const int from = max(left, begin + 7 & ~7), until = min(right, end & ~7);
                    if (from < until)
                        asm volatile(
                            "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                                to + lane * PLANE + from - begin),
                            "r"(shared_address(ring + map_at(lane) + from)),
                            "r"((until - from) * 4)
                            : "memory");
                }
                asm volatile("cp.async.bulk.commit_group;" ::: "memory");
                if (i == 0 || right >= first + length) // sectors shared by two maps
#pragma unroll 1
                    for (int m = lane / 8; m < M; m += 4) {
                        const int begin = first + map_phase(m), end = begin + length;
                        const int head = begin + lane % 8, tail = (end & ~7) + lane % 8;
                        float *of_map = to + m * PLANE - begin;
                        const float *of_ring = ring + map_at(m);
                        if (i == 0 && head < min(begin + 7 & ~7, end))
                            of_map[head] = of_ring[head];
                        if (tail >= max(left, begin + 7 & ~7) && tail < min(right, end))
                            of_map[tail] = of_ring[tail];
                    }
                asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
            }
            arrive(out_empty + get.at * 8);
            get.next(2);
        }
        const float factor = inverse(notes->scale[group][memo][image]) * back;
        bool exotic = notes->weight >= 0x7f800000 || factor == 0;
        for (int j = 0; j < 2; j++) {
            const float most = notes->most[group][memo][j]; // Inf or NaN if fp16 overflowed
            const float product =
                most / notes->scale[group][memo][j] * __uint_as_float(notes->weight);
            exotic |= !(most <= LARGEST) || (most && most < SMALLEST) ||
                      (product > 1e35f);
        }
        if (exotic && b < plan.B) {
            asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
            __syncwarp();
            directly(y + (size_t)b * M * PLANE, x + (size_t)b * C * H * W, k, part.top,
                     part.outputs);
        }
        memo = (memo + 1) % MEMO;
    }
}

// ---- weights

// The map of a column of a product, in the order of Math::hand_out.
__device__ __forceinline__ int column_map(int n)
{
    return n / 8 * 8 + n % 2 * 2 + n / 2 % 2 + n / 4 % 2 * 4;
}

constexpr int THREADS = 384, EACH = (WEIGHTS + THREADS - 1) / THREADS;

__device__ __forceinline__ void load_weights(float *w, const float *k, int t)
{
#pragma unroll
    for (int i = 0; i < EACH; i++)
        w[i] = i * THREADS + t < WEIGHTS ? __ldg(k + i * THREADS + t) : 0;
}

// Note whether the weights of a map are so small that the scale leaves them too few bits. This is
// done by the four warps that store, which have registers to spare.
__device__ __forceinline__ void compare_maps(const float *room, Notes *notes)
{
    const int lane = threadIdx.x % 32;
#pragma unroll 1
    for (int m = threadIdx.x / 32 % 4; m < M; m += 4) {
        unsigned largest = 0;
#pragma unroll 1
        for (int i = lane; i < OF_MAP; i += 32)
            largest = max(largest, magnitude(room[m * MAP_ROOM + i]));
        largest = __reduce_max_sync(~0u, largest);
        if (lane == 0 && largest && (notes->weight >> 23) - (largest >> 23) > MOST_APART)
            atomicOr(&notes->uneven, 1);
    }
}

template <bool COMPARES>
__device__ __forceinline__ void prepare_weights(char *weights, float *room, const float *w,
                                                Notes *notes, int t)
{
    unsigned most = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int at = i * THREADS + t;
        if (at < WEIGHTS)
            room[at + at / OF_MAP * (MAP_ROOM - OF_MAP)] = w[i];
        most = max(most, magnitude(w[i]));
    }
    most = __reduce_max_sync(~0u, most);
    if (t % 32 == 0)
        atomicMax(&notes->weight, most);
    meet<1, THREADS>();
    if constexpr (COMPARES)
        compare_maps(room, notes);
    const float scale = weight_scale(notes);
    for (int i = t; i < 2 * STEPS * K * M; i += THREADS) {
        const int column = i % M, m = column_map(column);
        const int turn = i / M % K, u = i / M / K, ky = K - 1 - turn;
        unsigned h[4], l[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float pair[2];
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int n = 2 * j + e, c = unit_group(u) ? 8 + n % 4 : n;
                const int kx = unit_column(u) + (unit_group(u) ? n / 4 : 0);
                const bool there = u < UNITS && c < C && kx < K;
                pair[e] = there ? room[m * MAP_ROOM + (c * K + ky) * K + kx] : 0;
            }
            h[j] = split(pair[0], pair[1], scale, l[j]);
        }
        char *to = weights + u * UNIT_BYTES + (turn * M + column) * 16;
        for (int again = 0; again < (turn < K - 1 ? 2 : 1); again++, to += K * M * 16) {
            *(uint4 *)to = make_uint4(h[0], h[1], h[2], h[3]);
            *(uint4 *)(to + WEIGHT_BYTES) = make_uint4(l[0], l[1], l[2], l[3]);
        }
    }
    publish();
    meet<1, THREADS>();
}

} // namespace

extern "C" __global__ void __launch_bounds__(512, 1)
    conv_best_split(float *__restrict__ y, const float *__restrict__ x,
                    const float *__restrict__ k, int B, int periods)
{
    extern __shared__ __align__(128) char memory[];
    Notes *notes = (Notes *)(memory + AT_NOTES);
    float *out = (float *)(memory + AT_OUT);
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), role = warp / 4;
    const int group = role < 2 ? role : warp / 2 % 2, image = warp % 2;
    constexpr int OF_GROUP = 16 * (ROWS_IN + 2);
    const unsigned barriers = shared_address(memory + AT_BARRIERS) + group * OF_GROUP;
    const unsigned full = barriers, empty = full + 8 * ROWS_IN, out_full = empty + 8 * ROWS_IN,
                   out_empty = out_full + 8 * 2;
    const Plan plan(B, periods);
    const int first = blockIdx.x + group * gridDim.x;
    float w[EACH]; // loaded while the rest is initialised
    const int t = threadIdx.x - (role == 3) * 128;
    if (role != 2)
        load_weights(w, k, t);
    if (role < 2 && threadIdx.x % 128 == 0) {
        // Every thread arrives: racecheck does not understand one arrival for a whole warp.
        for (int i = 0; i < ROWS_IN; i++) {
            expect(full + 8 * i, 64);
            expect(empty + 8 * i, 128);
        }
        for (int i = 0; i < 2; i++) {
            expect(out_full + 8 * i, 128);
            expect(out_empty + 8 * i, 64);
        }
        if (group == 0)
            notes->weight = notes->uneven = 0;
        expected();
    }
    for (int i = threadIdx.x * 16; i < 2 * ROWS_IN * ROW_BYTES; i += 512 * 16)
        *(uint4 *)(memory + AT_ROWS + i) = make_uint4(0, 0, 0, 0);
    __syncthreads();

    if (role < 2) {
        prepare_weights<false>(memory, out, w, notes, t);
        asm volatile("setmaxnreg.inc.sync.aligned.u32 184;");
        const int second = threadIdx.x % 128 / 64; // of a pair's images
        const float back = inverse(weight_scale(notes));
        int memo = 0;
        Math math;
        math.weights = shared_address(memory);
        math.rows = shared_address(memory + AT_ROWS) + group * ROWS_IN * ROW_BYTES;
        math.full = full, math.empty = empty, math.out_full = out_full, math.out_empty = out_empty;
        math.lane_at = Fragments::lane_at(), math.later_at = Fragments::later_at();
        math.none = B >> 31;
        math.out = out + group * OUT_FLOATS + second * IMAGE_FLOATS + map_at(Math::first_map());
        math.column = threadIdx.x % 128 / 4 * 2 - second * APART;
        math.begin();
        math.left = 0;
        for (int item = first; item < plan.items; item += plan.step)
            math.left += plan.part(item).rows;
        if (math.left)
            math.load_low();
        for (int item = first; item < plan.items; item += plan.step) {
            // The scale is known, since the first row has been converted.
            math.factor = inverse(notes->scale[group][memo][second]) * back;
            memo = (memo + 1) % MEMO;
            math.run(plan.part(item));
        }
    } else if (role == 2) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 96;");
        Reader reader{x, plan, first, image};
        convert(reader, memory + AT_ROWS + group * ROWS_IN * ROW_BYTES, full, empty, notes, group);
    } else {
        prepare_weights<true>(memory, out, w, notes, t);
        asm volatile("setmaxnreg.dec.sync.aligned.u32 48;");
        store(y, x, k, out + group * OUT_FLOATS, out_full, out_empty, notes, plan, group, image);
    }
}
