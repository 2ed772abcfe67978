// best_split: fp32's accuracy on Hopper's tensor cores, with operands split into two halves
//
// After tensor_split: wgmma instead of mma, and a ring buffer of output rows. x and k are pairs of
// halves (halves.cuh), each image and map with its scale; high high and high low + low high have an
// accumulator each.
// An input row of two images side by side is 64 rows of a product; its depth is (column of
// the filter, channel); its columns are the maps of all K output rows that depend on the input
// row, so a row is read once for all of them.
// warps 0-3, 4-7: multiply, for a pair of images each; 8-11: convert the rows of an image to fp16;
// 12-15: store the outputs of an image by bulk copies; all: images that halves do not hold, at last
// Per output: 3 C K K products on tensor cores, 4 bytes out, 4 C H W / (M H_out W_out) in.

#if !defined SHAPE_C || !defined SHAPE_M || !defined SHAPE_K || !defined SHAPE_H || \
    !defined SHAPE_W || !defined ROWS_IN || !defined ROWS_AHEAD
#error "SHAPE_*, ROWS_* are set by project/plans/best_split.py"
#endif

#include "parts/direct.cuh"
#include "parts/halves.cuh"
#include "parts/mbarrier.cuh"

#pragma nv_diag_suppress 177  // a shape needs but some of the products

typedef unsigned long long u64;

namespace
{

using namespace halves;

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
constexpr int HALF_RING = 5 * WO / 8 * 8, RING = 2 * HALF_RING;
// To avoid bank conflicts among the maps 0, 1, 4, 5 that a warp writes at a time (if an image of a
// map has an odd size), padding separates map 0 from 4 by 16 banks.
constexpr int PAD = (48 - 4 * PLANE % 8) % 32;
constexpr int IMAGE_FLOATS = M * RING + M / 4 * PAD, OUT_FLOATS = 2 * IMAGE_FLOATS;  // of a pair
__host__ __device__ constexpr int map_at(int m) { return m * RING + m / 4 * PAD; }
__host__ __device__ constexpr int map_phase(int m) { return m * PLANE % 8; }  // in a sector
constexpr int REACH = WO + 7;  // of a row, whatever the phase
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
#define PRODUCT(n, A0, A1, A2, A3, A4)                                                        \
    template <> struct Product<n> {                                                           \
        static __device__ __forceinline__ void run(float *d, const unsigned *a, u64 b)        \
        {                                                                                     \
            asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, 1, 1;\n"                           \
                         "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {" N##n      \
                         "}, "                                                                \
                         "{%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #A4 ", p, 1, 1, 0;\n}" \
                         : D##n                                                               \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));               \
        }                                                                                     \
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
struct Fragments {
    unsigned eight[8], four[8];  // by column, of channels 0-7 and 8-11; four[0, 1] in eight[6, 7]

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
struct Part {
    int pair, top, periods, rows, outputs;  // rows: input rows; outputs: output rows
};
struct Plan {
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

// ---- products

__device__ __forceinline__ void zero(float &f)
{
    asm volatile("mov.f32 %0, 0f00000000;" : "=f"(f));
}

struct Math {
    float one[K * SLOT], two[K * SLOT];  // high high; the other products
    float done[SLOT];                    // a complete output row
    unsigned low[STEPS][4];              // of the next input row
    unsigned weights, rows, full, empty, out_full, out_empty;
    unsigned lane_at, later_at, none;  // of fragments; zero
    float *out;                        // the ring of this thread's image and first map
    int column;                        // of its first pixel
    int next, taken, due;  // floats: the next row in the ring; the ends of free and of full halves
    int left;              // input rows left
    float back[M / 8][2];  // undoes the scales of an image and of each map
    Place in, put, take;   // put and take are of halves of the ring
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
    __device__ __forceinline__ void load_low()  // after waiting for the row
    {
        wait(full + in.at * 8, in.turn);
        load(low, HALF_BYTES);
    }

    // Copy a complete output row, and clear its accumulators.
    template <int INDEX> __device__ __forceinline__ void finish()
    {
#pragma unroll
        for (int i = 0; i < SLOT; i++) {
            done[i] =
                fmaf(two[INDEX * SLOT + i], 1 / LOW, one[INDEX * SLOT + i]) * back[i / 4][i % 2];
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
                float *to = out + map_at(2 * e) + min(i, i - RING);  // whichever is in the ring
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

    __device__ __forceinline__ void run(const Part &part)  // starts and ends with zeroed sums
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

// Two numbers of a warp's sample of an image, and the shift for all.
__device__ __forceinline__ float2 sample_of(const float *image)
{
    const int lane = threadIdx.x % 32;
    constexpr int STEP = C * H * W / 64;
    return {__ldg(image + 2 * lane * STEP), __ldg(image + (2 * lane + 1) * STEP)};
}
__device__ __forceinline__ int shift_of(float2 sampled)
{
    return Range{largest_of_warp(larger(sampled.x, sampled.y))}.shift(IMAGE_TO);
}

struct Reader  // reads the rows of all images that a warp converts
{
    const float *x;
    Plan plan;
    int item, image, y, end;
    const float *from;  // null for a missing image

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
        if (item < plan.items && from && y < H) {
            const float *there = from + y * W + lane;
            asm volatile("" : "+l"(there));  // one address for all channels
#pragma unroll
            for (int c = 0; c < C; c++)
                v[c] = W >= 32 || lane < W ? __ldg(there + c * H * W) : 0;
            extra = W > 32 && lane < C ? __ldg(there + lane * (H * W - 1) + 32) : 0;
        } else {
#pragma unroll
            for (int c = 0; c < C; c++)
                v[c] = 0;
            extra = 0;
        }
        if (item < plan.items && ++y == end) {
            item += plan.step;
            open();
        }
    }
    __device__ __forceinline__ float2 sample(int i)
    {
        const int b = i < plan.items ? 2 * plan.part(i).pair + image : plan.B;
        return b < plan.B ? sample_of(x + (size_t)b * C * H * W) : float2{};
    }
};

// What a lane has seen of an image.
struct Seen {
    float largest = 0;
    unsigned weakest = nonzero(0), extra = nonzero(0);

    __device__ __forceinline__ void row(const float *v, float other)
    {
        float most[4] = {};
#pragma unroll
        for (int c = 0; c < C; c++)
            most[c % 4] = larger(most[c % 4], v[c]);
        const float of_pixel = larger(larger(most[0], most[1]), larger(most[2], most[3]));
        weakest = min(weakest, nonzero(of_pixel));
        largest = larger(largest, larger(of_pixel, other));
        extra = min(extra, nonzero(other));  // beside the pixels of the last lane
    }
    __device__ __forceinline__ unsigned weakest_of(float scale) const  // of the whole warp
    {
        const bool held = largest * scale < 65504 && extra >= nonzero(power_of_two(LEAST) / scale);
        return __all_sync(~0u, held) ? __reduce_min_sync(~0u, weakest) : 0;
    }
};

__device__ __forceinline__ void convert_row(char *row, const float *v, float extra, float scale,
                                            int image)
{
    const int lane = threadIdx.x % 32, pixel = image * APART + lane;
    if (W > 32 && lane < C) {
        const __half2 both = split(extra * scale);
        const __half high = both.x, low = both.y;
        const int p = image * APART + 32, c = lane;
        char *to = row + (c < 8 ? p / 2 * 16 + 2 * c : GROUP_BYTES + p * 8 + 2 * (c - 8));
        *(__half *)to = high;
        *(__half *)(to + HALF_BYTES) = low;
        if (c >= 8) {
            to += ODD_BYTES - 8;
            *(__half *)to = high;
            *(__half *)(to + HALF_BYTES) = low;
        }
    }
    unsigned h[GROUPS == 2 ? 6 : 4], l[GROUPS == 2 ? 6 : 4];
#pragma unroll
    for (int i = 0; i < (GROUPS == 2 ? 6 : 4); i++) {
        const float a = 2 * i < C ? v[2 * i] : 0, b = 2 * i + 1 < C ? v[2 * i + 1] : 0;
        const Pair pair = split(a, b, scale);
        h[i] = pair.high;
        l[i] = pair.low;
    }
    if (lane < W) {
        char *to = row + lane % 2 * ODD_BYTES + pixel / 2 * 16;
        *(uint4 *)to = make_uint4(h[0], h[1], h[2], h[3]);
        *(uint4 *)(to + HALF_BYTES) = make_uint4(l[0], l[1], l[2], l[3]);
        if constexpr (GROUPS == 2) {
            to = row + GROUP_BYTES + pixel * 8;  // units starting at pixel 0, and at pixel 1
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
    float2 sampled = r.sample(item);
    int shift = 0;
    Seen seen;
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
                shift = shift_of(sampled);
                seen = Seen();
                if (lane == 0)
                    notes->shift[group][memo][r.image] = shift;
                sampled = r.sample(item + r.plan.step);
            }
            const float scale = power_of_two(shift);
            wait(empty + put.at * 8, put.turn ^ 1);
            convert_row(rows + put.at * ROW_BYTES, v[i], extra[i], scale, r.image);
            seen.row(v[i], extra[i]);
            if (++y == end) {
                const unsigned weakest = seen.weakest_of(scale);
                if (lane == 0)
                    notes->weakest[group][memo][r.image] = weakest;
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

__device__ __forceinline__ void store(float *y, const float *out, unsigned out_full,
                                      unsigned out_empty, Notes *notes, const Plan &plan, int group,
                                      int image)
{
    const int lane = threadIdx.x % 32;
    const float weak = weak_pixel(notes);
    const int lowest = lowest_map(notes), highest = highest_map(notes);
    Place get;  // of halves of the ring
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
                            "r"(shared_address(ring + map_at(lane) + from)), "r"((until - from) * 4)
                            : "memory");
                }
                asm volatile("cp.async.bulk.commit_group;" ::: "memory");
                if (i == 0 || right >= first + length)  // sectors shared by two maps
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
        const int shift = notes->shift[group][memo][image];
        if (lane == 0 && b < plan.B &&
            (notes->weakest[group][memo][image] < nonzero(weak / power_of_two(shift)) ||
             !fits<C * K * K>(shift + lowest, shift + highest))) {
            const int at = atomicAdd(&notes->doubtful, 1);
            if (at < LIST)
                notes->list[at] = b;
        }
        memo = (memo + 1) % MEMO;
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");  // before others write there
}

// Look at the doubtful images, and compute those that halves do not hold.
__device__ __forceinline__ void look_again(float *y, const float *x, const float *k,
                                           const Notes *notes, const Plan &plan)
{
    const auto compute = [&](int b) {
        if (b < plan.B)
            Direct<C, M, H, W, K>::compute(y + (size_t)b * M * PLANE, x + (size_t)b * C * H * W, k,
                                           M, threadIdx.x, 512);
    };
    if (notes->doubtful > LIST) {
        for (int item = blockIdx.x; item < plan.items; item += gridDim.x) {
            compute(2 * plan.part(item).pair);
            compute(2 * plan.part(item).pair + 1);
        }
        return;
    }
    const float weak = weak_pixel(notes);
    const int lowest = lowest_map(notes), highest = highest_map(notes);
    for (int i = 0; i < notes->doubtful; i++) {
        const int b = notes->list[i];
        const float *const image = x + (size_t)b * C * H * W;
        const int shift = shift_of(sample_of(image));
        const float scale = power_of_two(shift);
        bool lost = !fits<C * K * K>(shift + lowest, shift + highest);
        float largest = 0;
        for (int at = threadIdx.x; at < H * W; at += 512) {
            Range pixel;
#pragma unroll
            for (int c = 0; c < C; c++)
                pixel.add(__ldg(image + at + c * H * W));
            largest = larger(largest, pixel.largest);
            lost |=
                pixel.largest * scale < weak && pixel.least < nonzero(power_of_two(LEAST) / scale);
        }
        const bool overflows = __syncthreads_or(!(largest * scale < 65504));
        if (__syncthreads_or(lost) || overflows)
            compute(b);
        if (overflows)
            compute(b ^ 1);  // which reads Inf and NaN with zero weights
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

__device__ __forceinline__ void prepare_weights(char *weights, float *room, const float *w,
                                                Notes *notes, int t)
{
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int at = i * THREADS + t;
        if (at < WEIGHTS)
            room[at + at / OF_MAP * (MAP_ROOM - OF_MAP)] = w[i];
    }
    meet<1, THREADS>();
#pragma unroll 1
    for (int m = t / 32; m < M; m += THREADS / 32) {
        Range range;
        bool zeros = false;
        for (int i = t % 32; i < OF_MAP; i += 32) {
            range.add(room[m * MAP_ROOM + i]);
            zeros |= room[m * MAP_ROOM + i] == 0;
        }
        range.reduce();
        zeros = __any_sync(~0u, zeros);
        const int shift = range.shift();
        if (t % 32 == 0) {
            notes->map[m] = range.held(shift) ? shift : NEVER;
            const float contrast = zeros ? INFINITY : range.contrast();
            atomicMax(&notes->contrast, __float_as_uint(contrast));
        }
    }
    meet<1, THREADS>();
    for (int i = t; i < 2 * STEPS * K * M; i += THREADS) {
        const int column = i % M, m = column_map(column);
        const int turn = i / M % K, u = i / M / K, ky = K - 1 - turn;
        const float scale = power_of_two(notes->map[m]);
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
            const Pair both = split(pair[0], pair[1], scale);
            h[j] = both.high;
            l[j] = both.low;
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

}  // namespace

extern "C" __global__ void __launch_bounds__(512, 1)
    conv_best_split(float *__restrict__ y, const float *__restrict__ x, const float *__restrict__ k,
                    int B, int periods)
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
    float w[EACH];  // loaded while the rest is initialised
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
        notes->doubtful = notes->contrast = 0;
        expected();
    }
    for (int i = threadIdx.x * 16; i < 2 * ROWS_IN * ROW_BYTES; i += 512 * 16)
        *(uint4 *)(memory + AT_ROWS + i) = make_uint4(0, 0, 0, 0);
    __syncthreads();

    if (role < 2) {
        prepare_weights(memory, out, w, notes, t);
        asm volatile("setmaxnreg.inc.sync.aligned.u32 184;");
        const int second = threadIdx.x % 128 / 64;  // of a pair's images
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
            const int shift = notes->shift[group][memo][second];
#pragma unroll
            for (int i = 0; i < M / 4; i++)
                math.back[i / 2][i % 2] =
                    power_of_two(-shift - notes->map[Math::first_map() + i / 2 * 8 + i % 2 * 2]);
            memo = (memo + 1) % MEMO;
            math.run(plan.part(item));
        }
    } else if (role == 2) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 96;");
        Reader reader{x, plan, first, image};
        convert(reader, memory + AT_ROWS + group * ROWS_IN * ROW_BYTES, full, empty, notes, group);
    } else {
        prepare_weights(memory, out, w, notes, t);
        asm volatile("setmaxnreg.dec.sync.aligned.u32 48;");
        store(y, out + group * OUT_FLOATS, out_full, out_empty, notes, plan, group, image);
    }
    __syncthreads();
    if (notes->doubtful == 0)
        return;
    if (role < 2)
        asm volatile("setmaxnreg.dec.sync.aligned.u32 128;");
    else
        asm volatile("setmaxnreg.inc.sync.aligned.u32 128;");
    look_again(y, x, k, notes, plan);
}
