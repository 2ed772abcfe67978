// best_wide: one product of halves, with maps as rows and pixels as columns.
//
// After best_single: weights are the left operand and pixels the right one, both in shared memory,
// so that no thread loads an operand. The product of 24 maps at both rows of a pair by the pixels
// of 5 pairs has 168 columns; those of best_single have 24, which use only half of the tensor
// cores' rate. Images are loaded by bulk copies of 4 channels. Warpgroups take turns at the tensor
// cores, while the others store their sums.
// block b -> images b, b + gridDim.x, ...   warpgroup -> 5 pairs of rows x all maps
// Per output: 64 / 48 * 168 / 145 * 16 ceil(K (K / 2 + 1) C / 8) multiply-adds of tensor cores.

#if !defined(SHAPE_C) || !defined(SHAPE_M) || !defined(SHAPE_K) || !defined(SHAPE_H) || \
    !defined(SHAPE_W)
#error "SHAPE_C, SHAPE_M, SHAPE_K, SHAPE_H and SHAPE_W are set by project/plans/best_single.py"
#endif
#ifndef STORED_HALF
#error "STORED_HALF is set by project/plans/best_single.py"
#endif

#include "parts/mbarrier.cuh"
#include "parts/single.cuh"

// A pair of output rows depends on PLACES input pairs, each K units for every 4 channels. A step
// of the product is two units; the last one may have zero weights.
constexpr int PLACES = K / 2 + 1, UNITS = GROUPS * PLACES * K, STEPS = tiles(UNITS, 2);

// A band is 5 pairs of output rows, for one warpgroup; its columns continue from pair to pair.
constexpr int BANDS = 3, BAND = tiles(H_OUT, 2) / BANDS, COLUMNS = 168, SUMS = COLUMNS / 2;
static_assert(8 * tiles(BAND * W, 8) == COLUMNS && 2 * BAND * BANDS >= H_OUT, "other bands");
static_assert(M == 24 && C % 4 == 0 && K % 2 == 1, "not served");

constexpr int WARPS = 16, MULTIPLIERS = 4 * BANDS, CONVERTERS = 3;
constexpr int MULTIPLYING = 32 * MULTIPLIERS, CONVERTING = 32 * CONVERTERS;
constexpr int UNITS_EACH = tiles(POSITIONS, CONVERTING);  // of a group, per converting thread
constexpr int AHEAD = 2;                                  // images prefetched before they are read

// Shared memory, in bytes: 4/3 output images, two input images, some groups of 4 channels as loaded
// with the rest of their 16-byte pieces, and the weights, which are loaded through the space of the
// output images.
constexpr int THIRD_BYTES = 4 * 8 * PIXELS_OUT, THIRDS = 4;
constexpr int GROUP_BYTES = 4 * H * W * (int)sizeof(stored), GROUPS_AHEAD = STORED_HALF ? 4 : 2;
constexpr int PLACE_BYTES = 16 * tiles(GROUP_BYTES + 15, 16);
constexpr int IN_BYTES = 16 * POSITIONS * GROUPS, UNIT_BYTES = 2 * M * 16;
constexpr int IN_AT = larger(THIRDS * THIRD_BYTES, 16 * tiles(4 * WEIGHTS, 16));
constexpr int COME_AT = IN_AT + 2 * IN_BYTES;
constexpr int PACKED_AT = 128 * tiles(COME_AT + GROUPS_AHEAD * PLACE_BYTES, 128);
constexpr int SMALL_AT = PACKED_AT + 2 * STEPS * UNIT_BYTES;

struct Range {             // of an image in shared memory
    int scale;             // exponent that undoes the image's scale, or DIRECT
    int exponent;          // of the largest value
    unsigned largest[15];  // of each converting warp
};

struct Small {
    Barrier filled[2], emptied[2];             // of the input images
    Barrier computed[THIRDS], copied[THIRDS];  // of the thirds of output images
    Barrier come[GROUPS_AHEAD];                // of the groups being loaded
    Range range[2];                            // of the input images
    unsigned largest_weight[16];               // of each warp that multiplies
    unsigned smallest_map[16];                 // likewise
};
// A product reads 64 rows, of which 48 are used: with the last weights up to 512 bytes beyond
// them, which the launch allocates.
static_assert(sizeof(Small) <= 512 && 2 * UNIT_BYTES + 512 == 64 * 32, "the last rows");

// --- the warps that read and convert ---------------------------------------------------------

// Whether all 16-byte pieces that contain an element of the image are within x.
__device__ __forceinline__ bool whole(const stored *x, int b, int B)
{
    const unsigned long long from = (unsigned long long)x,
                             to = (unsigned long long)(x + (size_t)B * FLOATS_IN);
    return (b > 0 || from % 16 == 0) && (b + 1 < B || to % 16 == 0);
}

struct Turn {  // the index and buffer of a group of 4 channels being loaded
    int b, group, place, phase;
};

__device__ __forceinline__ void next_place(Turn &turn)
{
    if (++turn.place == GROUPS_AHEAD) {
        turn.place = 0;
        turn.phase ^= 1;
    }
}

// Start loading the next group to its buffer, which is free.
__device__ __forceinline__ void ask(Turn &turn, unsigned char *shared, Small &small,
                                    const stored *x, int B)
{
    while (turn.b < B && !whole(x, turn.b, B))
        turn.b += gridDim.x;
    if (turn.b >= B)
        return;
    const unsigned long long from =
        (unsigned long long)(x + (size_t)turn.b * FLOATS_IN + turn.group * 4 * H * W);
    const unsigned long long first = from & ~15ull, last = from + GROUP_BYTES + 15 & ~15ull;
    const unsigned come = shared_address(&small.come[turn.place]);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n"
                 "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%2], [%3], %1, [%0];" ::"r"(come),
                 "r"((unsigned)(last - first)),
                 "r"(shared_address(shared + COME_AT + turn.place * PLACE_BYTES)), "l"(first)
                 : "memory");
    next_place(turn);
    if (++turn.group == GROUPS) {
        turn.group = 0;
        turn.b += gridDim.x;
    }
}

__device__ __forceinline__ void convert_group(unsigned char *in, const stored *group, float factor,
                                              int me, unsigned &largest)
{
    Unit units[UNITS_EACH];
#pragma unroll
    for (int i = 0; i < UNITS_EACH; i++) {
        const int position = min(me + i * CONVERTING, POSITIONS - 1), pair = position / W;
        const stored *first = group + position + pair * W;
        // If the second row is beyond the image, only outputs that are not stored depend on it.
        const int next = H % 2 == 0 || 2 * pair + 1 < H ? W : 0;
#pragma unroll
        for (int c = 0; c < 4; c++) {
            units[i].v[2 * c] = first[c * H * W];
            units[i].v[2 * c + 1] = first[c * H * W + next];
        }
    }
#pragma unroll
    for (int i = 0; i < UNITS_EACH; i++) {
        const uint4 q = halves(units[i], factor, largest);
        if (me + i * CONVERTING < POSITIONS)
            *(uint4 *)(in + 16 * (me + i * CONVERTING)) = q;
    }
}

// Returns the absolute value of the warp's largest half.
__device__ __forceinline__ unsigned convert_as_it_comes(unsigned char *shared, Small &small,
                                                        unsigned char *in, const stored *image,
                                                        float factor, int me, Turn &come,
                                                        Turn &asked, const stored *x, int B)
{
    unsigned largest = 0;
#pragma unroll 1
    for (int group = 0; group < GROUPS; group++) {
        const unsigned char *there = shared + COME_AT + come.place * PLACE_BYTES;
        const int ahead = (int)(unsigned long long)(image + group * 4 * H * W) & 15;
        wait(&small.come[come.place], come.phase);
        convert_group(in + 16 * group * POSITIONS, (const stored *)(there + ahead), factor, me,
                      largest);
        next_place(come);
        sync(1, CONVERTING);
        if (me == 0)
            ask(asked, shared, small, x, B);
        __syncwarp();
    }
    return largest_of_warp(largest);
}

// The same from global memory, for an image with incomplete pieces or one that is converted again.
__device__ __noinline__ unsigned convert_image(unsigned char *in, const stored *image, float factor,
                                               int me)
{
    unsigned largest = 0;
#pragma unroll 1
    for (int group = 0; group < GROUPS; group++)
        convert_group(in + 16 * group * POSITIONS, image + group * 4 * H * W, factor, me, largest);
    return largest_of_warp(largest);
}

// Stores the range of a converted image by its largest half; if that does not fit, converts it
// again, with a scale that is kept for the next image.
__device__ __forceinline__ void settle(Range &range, unsigned largest, int &scale,
                                       unsigned char *in, const stored *image, int me)
{
    largest = largest_of_all<CONVERTERS>(range.largest, largest, me);
#if STORED_HALF
    int exponent = exponent_of(largest);
#else
    // Halves keep 11 bits of floats if the largest is in 2^-2 ... 2^15.
    int exponent = (int)(largest >> 10) - 15 - scale;
    if (largest < 13 << 10 || largest >= 30 << 10) {
        largest = largest_stored<CONVERTERS>(image, me);
        sync(1, CONVERTING);  // all have read `largest`
        largest = largest_of_all<CONVERTERS>(range.largest, largest, me);
        exponent = exponent_of(largest);
        if (largest && largest < NOT_FINITE) {
            scale = min(8 - exponent, 127);
            convert_image(in, image, power(scale), me);
        }
    }
#endif
    if (me == 0) {
        range.scale = largest >= NOT_FINITE ? DIRECT : -scale;
        range.exponent = exponent;
    }
}

__device__ __forceinline__ void convert_images(unsigned char *shared, Small &small, const stored *x,
                                               int B, int me)
{
    Turn come = {}, asked = {(int)blockIdx.x, 0, 0, 0};
    if (me == 0)
        for (int i = 0; i < GROUPS_AHEAD; i++)
            ask(asked, shared, small, x, B);
    __syncwarp();
    int scale = 0;  // exponent of the factor, initially that of the last image
    for (int b = blockIdx.x, n = 0; b < B; b += gridDim.x, n++) {
        const int side = n & 1;
        const stored *image = x + (size_t)b * FLOATS_IN;
        unsigned char *in = shared + IN_AT + side * IN_BYTES;
        wait(&small.emptied[side], (n >> 1 & 1) ^ 1);
        const unsigned largest =
            whole(x, b, B)
                ? convert_as_it_comes(shared, small, in, image, power(scale), me, come, asked, x, B)
                : convert_image(in, image, power(scale), me);
        settle(small.range[side], largest, scale, in, image, me);
        publish();
        __syncwarp();
        if (me % 32 == 0)
            arrive(&small.filled[side]);
    }
}

// --- the warps that multiply -----------------------------------------------------------------

// The map and the row of its pair for a row of the product: a warp has a third of the maps.
__device__ __forceinline__ int map_of(int row) { return row / 16 * 8 + row % 8; }
__device__ __forceinline__ int second_of(int row) { return row / 8 % 2; }

// Converts the weights to the operand's layout: for each unit 6 x 8 rows of halves. Returns the
// exponents of their scale and their largest value.
__device__ __forceinline__ int2 load_weights(unsigned char *shared, Small &small, const stored *k)
{
    const int me = threadIdx.x;
    stored *plain = (stored *)shared;
    unsigned *packed = (unsigned *)(shared + PACKED_AT);
    const unsigned largest = load_plain<MULTIPLIERS>(plain, small.largest_weight, k);
    const unsigned least = smallest_map<MULTIPLIERS>(plain);
    if (me % 32 == 0)
        small.smallest_map[me / 32] = least;
    const int exponent = exponent_of(largest), scale = STORED_HALF ? 0 : min(8 - exponent, 127);

#pragma unroll 4
    for (int i = me; i < 2 * STEPS * UNIT_BYTES / 4; i += MULTIPLYING) {
        const int quarter = i % 4, row = i / 4 % (2 * M), unit = i / (8 * M);
        const int tap = 2 * (unit / K % PLACES) + quarter % 2 - second_of(row);
        const int c = unit / (PLACES * K) * 4 + quarter / 2 * 2;
        const int from = ((map_of(row) * C + c) * K + tap) * K + unit % K;
        const bool there = unit < UNITS && tap >= 0 && tap < K;
        const stored low = there ? plain[from] : stored(0);
        const stored high = there ? plain[from + K * K] : stored(0);
#if STORED_HALF
        packed[i] = low | (unsigned)high << 16;
#else
        packed[i] = pair(low * power(scale), high * power(scale));
#endif
    }
    publish();
    sync(2, MULTIPLYING);
    const bool direct = largest >= NOT_FINITE || uneven(small.smallest_map, MULTIPLIERS, exponent);
    return make_int2(scale, direct ? DIRECT : exponent);
}

// Whether no scale brings sums to the range of floats; weights: the exponents of their scale and
// their largest value.
__device__ __forceinline__ bool beyond(const Range &range, int2 weights)
{
    const int scale = range.scale - weights.x;
    return scale < -149 || scale > 127 || range.exponent + weights.y + 2 + TERMS_BITS > 126;
}

// The offset of a unit of the band's first pixel, in units.
__host__ __device__ constexpr int unit_at(int unit)
{
    return unit / (PLACES * K) * POSITIONS + unit / K % PLACES * W + unit % K;
}

__device__ __forceinline__ void multiply_band(float (&sums)[SUMS], unsigned long long weights,
                                              unsigned long long pixels)
{
    wgmma::fence();
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        const int one = unit_at(2 * step);
        const int other = 2 * step + 1 < UNITS ? unit_at(2 * step + 1) : one;
        wgmma::Product<COLUMNS>::run(sums, weights + step * (2 * UNIT_BYTES / 16),
                                     pixels + one + ((unsigned long long)(other - one) << 16),
                                     step > 0);
    }
    wgmma::commit();
}

// Waits until the buffer of the block's next third has been stored.
__device__ __forceinline__ void wait_for_place(Small &small, int third)
{
    wait(&small.copied[third % THIRDS], third / THIRDS & 1 ^ 1);
}

__device__ __forceinline__ void store_if(bool wanted, unsigned to, float v)  // without a branch
{
    asm volatile("{\n .reg .pred wanted;\n setp.ne.u32 wanted, %0, 0;\n"
                 " @wanted st.shared.f32 [%1], %2;\n}" ::"r"((unsigned)wanted),
                 "r"(to), "f"(v)
                 : "memory");
}

// to: the address of the thread's first sum; even: whether the band's last pair has a second row.
__device__ __forceinline__ void store_sums(const float (&sums)[SUMS], unsigned to, bool even,
                                           float factor)
{
    const int quarter = 2 * (threadIdx.x % 4);
#pragma unroll
    for (int i = 0; i < SUMS; i++) {
        const int first = i / 4 * 8 + i % 2, second = i / 2 % 2, pair = first / W;
        // A thread's columns extend up to 6 beyond the first: past the output, or to the next pair.
        const bool inside = first % W + 6 < W_OUT;
        const bool next = !inside && first + quarter >= (pair + 1) * W;
        const int column = first + quarter - (pair + next) * W;
        const bool there = inside || (column < W_OUT && pair + next < BAND);
        const bool last = second && H_OUT % 2 && pair + next + 1 == BAND;
        const unsigned place = to + 4 * (first + (pair + next) * (2 * W_OUT - W) + second * W_OUT);
        store_if(there && (!last || even), place,
                 STORED_HALF ? sums[i] : sums[i] * factor);  // stored halves are not scaled
    }
}

__device__ __forceinline__ void multiply_images(unsigned char *shared, Small &small,
                                                const stored *x, const stored *k, int B)
{
    const int band = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const bool stores = 16 * warp < 2 * M;
    const int2 exponents = load_weights(shared, small, k);
    // Operands' descriptors: 128 bytes to the next 8 rows or columns, UNIT_BYTES to the other unit.
    const unsigned long long by_8 = (unsigned long long)(128 / 16) << 32;
    const unsigned long long weights =
        (unsigned long long)(shared_address(shared + PACKED_AT) >> 4) |
        (unsigned long long)(UNIT_BYTES / 16) << 16 | by_8;
    for (int b = blockIdx.x, n = 0; b < B; b += gridDim.x, n++) {
        const int side = n & 1;
        wait(&small.filled[side], n >> 1 & 1);
        const bool direct = beyond(small.range[side], exponents);
        const float factor = power(direct ? 0 : small.range[side].scale - exponents.x);
        const unsigned in = shared_address(shared + IN_AT + side * IN_BYTES);
        float sums[SUMS];
        // Warpgroups take turns at the tensor cores.
        if (n || band)
            sync(3 + band, 256);
        if (!direct)
            multiply_band(sums, weights, (unsigned long long)((in >> 4) + band * BAND * W) | by_8);
        if (band + 1 < BANDS || b + gridDim.x < B)
            asm volatile("bar.arrive %0, 256;" ::"r"(3 + (band + 1) % BANDS) : "memory");
        wgmma::wait<0>();
#pragma unroll
        for (int i = 0; i < SUMS; i++)
            asm volatile("" : "+f"(sums[i])::"memory");  // prevents earlier use of the sums
        if (lane == 0)
            arrive(&small.emptied[side]);
        const int third = n * (M / 8) + warp;
        if (direct) {
            for (int i = 0; i < M / 8; i++)
                wait_for_place(small, n * (M / 8) + i);
#pragma unroll 1
            for (int i = threadIdx.x; i < FLOATS_OUT; i += MULTIPLYING) {
                const int place = (n * (M / 8) + i / (8 * PIXELS_OUT)) % THIRDS;
                *(float *)(shared + place * THIRD_BYTES + 4 * (i % (8 * PIXELS_OUT))) =
                    direct_sum(x + (size_t)b * FLOATS_IN, k, i);
            }
            publish();
            sync(2, MULTIPLYING);
        } else if (stores) {
            wait_for_place(small, third);
            const int top = 2 * band * BAND, place = lane / 4 * PIXELS_OUT + top * W_OUT;
            const unsigned to = shared_address(shared + third % THIRDS * THIRD_BYTES) +
                                4 * (place + 2 * (lane % 4));
            store_sums(sums, to, top + 2 * BAND <= H_OUT, factor);
            publish();
        }
        __syncwarp();
        if (lane == 0 && stores)
            arrive(&small.computed[third % THIRDS]);
    }
}

// --- the thread that stores ------------------------------------------------------------------

__device__ __forceinline__ void store_images(unsigned char *shared, Small &small, float *y,
                                             const stored *x, int B)
{
    for (int i = 1; i < AHEAD; i++)  // the first is loaded directly
        ask_for(x, blockIdx.x + i * gridDim.x, B);
    int third = 0;
    for (int b = blockIdx.x; b < B; b += gridDim.x) {
        ask_for(x, b + AHEAD * gridDim.x, B);
#pragma unroll 1
        for (int i = 0; i < M / 8; i++, third++) {
            wait(&small.computed[third % THIRDS], third / THIRDS & 1);
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
                         "cp.async.bulk.commit_group;\n"
                         "cp.async.bulk.wait_group.read 1;" ::"l"(y + (size_t)b * FLOATS_OUT +
                                                                  i * 8 * PIXELS_OUT),
                         "r"(shared_address(shared + third % THIRDS * THIRD_BYTES)),
                         "n"(THIRD_BYTES)
                         : "memory");
            if (third)  // has been read but this one
                arrive(&small.copied[(third - 1) % THIRDS]);
        }
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 1)
    conv_best_wide(float *__restrict__ y, const stored *__restrict__ x,
                   const stored *__restrict__ k, int B)
{
    extern __shared__ __align__(128) unsigned char shared[];
    Small &small = *(Small *)(shared + SMALL_AT);
    const int warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) {
            expect(&small.filled[i], CONVERTERS);
            expect(&small.emptied[i], MULTIPLIERS);
        }
        for (int i = 0; i < THIRDS; i++) {
            expect(&small.computed[i], BANDS);
            expect(&small.copied[i], 1);
        }
        for (int i = 0; i < GROUPS_AHEAD; i++)
            expect(&small.come[i], 1);
        expected();
    }
    __syncthreads();
    if (warp < MULTIPLIERS)
        multiply_images(shared, small, x, k, B);
    else if (warp < WARPS - 1)
        convert_images(shared, small, x, B, threadIdx.x - MULTIPLYING);
    else if (threadIdx.x % 32 == 0)
        store_images(shared, small, y, x, B);
}
