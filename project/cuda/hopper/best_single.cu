// best_single: one product of halves on tensor cores, with all stages overlapped.
//
// After tensor_tf32 and tensor_half: no operand is assembled. An image is in shared memory as
// [pair of rows][column][4 channels of 2 rows], so that one 16-byte load is the operand of two
// output rows at a tap, and halves of two such loads are that of the tap below; the weights are in
// shared memory too. Warps are specialised: load and convert the next image, multiply, or store the
// last one by a bulk copy. A power of two scales each image to the range of halves; images without
// a suitable scale (Inf, NaN, sums beyond floats) are computed directly.
// block b -> images b, b + gridDim.x, ...   warp -> 8 columns x 4 rows x all maps, and so on
// Per output: 4 K ceil(K ceil(C / 4) / 4) * 4 multiply-adds of the tensor cores.

#if !defined(SHAPE_C) || !defined(SHAPE_M) || !defined(SHAPE_K) || !defined(SHAPE_H) || \
    !defined(SHAPE_W)
#error "SHAPE_C, SHAPE_M, SHAPE_K, SHAPE_H and SHAPE_W are set by project/plans/best_single.py"
#endif
#ifndef STORED_HALF
#error "STORED_HALF is set by project/plans/best_single.py"
#endif

#include "parts/mbarrier.cuh"
#include "parts/single.cuh"

// The sum over channels and taps is divided into units of 4 channels of one tap, and steps of 4
// units along a row of taps; the last step is padded by units with zero weights.
constexpr int STEPS = tiles(K * GROUPS, 4);
constexpr int IDLE_UNITS = 4 * STEPS - K * GROUPS;

// A tile is 8 columns x 4 rows; columns continue in the next group of rows.
constexpr int ROW_GROUPS = tiles(H_OUT, 4), TILES = tiles(ROW_GROUPS * W_OUT, 8);
constexpr int PAIRS_READ = K / 2 + 2;  // pairs of rows for a tile
constexpr int UNITS = POSITIONS * GROUPS;
constexpr int MAP_TILES = tiles(M, 8), SUMS = 4 * MAP_TILES;  // per thread, for two rows
constexpr int TILES_ROUNDED = 4 * tiles(TILES, 4);            // whole warpgroups
static_assert(MAP_TILES <= 4, "more than 32 maps");

// Two warpgroups multiply, seven warps convert, one stores.
constexpr int WARPS = 16, MULTIPLIERS = 8, CONVERTERS = 7;
constexpr int MULTIPLYING = 32 * MULTIPLIERS, CONVERTING = 32 * CONVERTERS;
constexpr int AT_ONCE = 2;  // units that a thread loads at a time
constexpr int AHEAD = 2;    // images prefetched before they are read

// Shared memory, in bytes: two output images, two input images, the weights, which are loaded
// through the space of the output images.
constexpr int OUT_BYTES = 4 * FLOATS_OUT, IN_BYTES = 16 * UNITS;
constexpr int STEP_BYTES = 256 * MAP_TILES;
constexpr int PACKED_BYTES = STEP_BYTES * K * STEPS;
constexpr int IN_AT = larger(2 * OUT_BYTES, 128 * tiles(4 * WEIGHTS, 128));
constexpr int PACKED_AT = 128 * tiles(IN_AT + 2 * IN_BYTES, 128);
constexpr int SMALL_AT = PACKED_AT + PACKED_BYTES;
static_assert(OUT_BYTES % 16 == 0, "the outputs of an image are not a multiple of 16 bytes");

struct Small {
    Barrier filled[2], emptied[2];   // barriers of the input images
    Barrier computed[2], copied[2];  // barriers of the output images
    int scale[2];                    // exponent that undoes the image's scale, or DIRECT
    unsigned largest[2][16];         // of each converting warp; the last is the image's exponent
    unsigned largest_weight[16];     // of each warp that multiplies
    unsigned smallest_map[16];       // likewise
};

// --- words for instructions ------------------------------------------------------------------

__device__ __forceinline__ void store_if(bool wanted, unsigned to, float v)  // without a branch
{
    asm volatile("{\n .reg .pred wanted;\n setp.ne.u32 wanted, %0, 0;\n"
                 " @wanted st.shared.f32 [%1], %2;\n}" ::"r"((unsigned)wanted),
                 "r"(to), "f"(v)
                 : "memory");
}

// sums (+)= the warpgroup's 64 rows of a * the weights at b
__device__ __forceinline__ void multiply(float (&s)[SUMS], const uint4 &a, unsigned long long b,
                                         int add)
{
    const unsigned left[4] = {a.x, a.y, a.z, a.w};
    wgmma::Product<8 * MAP_TILES>::run(s, left, b, add);
}

// --- the warps that read and convert ---------------------------------------------------------

__device__ __forceinline__ void read(Unit &unit, const stored *image, int u)
{
    u = min(u, UNITS - 1);
    const int group = u / POSITIONS, position = u % POSITIONS, top = 2 * (position / W);
    const stored *first = image + group * 4 * H * W + position + top / 2 * W;
    // If the second row is beyond the image, only outputs that are not stored depend on it.
    const stored *second = H % 2 == 0 || top + 1 < H ? first + W : first;
#pragma unroll
    for (int c = 0; c < 4; c++) {
        const bool there = C % 4 == 0 || group * 4 + c < C;
        unit.v[2 * c] = there ? __ldg(first + c * H * W) : stored(0);
        unit.v[2 * c + 1] = there ? __ldg(second + c * H * W) : stored(0);
    }
}

__device__ __forceinline__ void convert(unsigned char *in, const Unit &unit, int u, float factor,
                                        unsigned &largest)
{
    const uint4 q = halves(unit, factor, largest);
    if (u < UNITS)
        *(uint4 *)(in + 16 * (u % POSITIONS * GROUPS + u / POSITIONS)) = q;
}

// Returns the absolute value of the warp's largest half. Loads before waiting for the buffer.
__device__ __forceinline__ unsigned convert_image(unsigned char *in, const stored *image,
                                                  float factor, int me, Barrier *emptied,
                                                  int parity)
{
    unsigned largest = 0;
#pragma unroll 1
    for (int first = me; first < UNITS; first += AT_ONCE * CONVERTING) {
        Unit units[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            read(units[i], image, first + i * CONVERTING);
        wait(emptied, parity);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            convert(in, units[i], first + i * CONVERTING, factor, largest);
    }
    return largest_of_warp(largest);
}

__device__ __forceinline__ void convert_images(unsigned char *shared, Small &small, const stored *x,
                                               int B, int me)
{
    int scale = 0;  // exponent of the factor, initially that of the last image
    for (int b = blockIdx.x, n = 0; b < B; b += gridDim.x, n++) {
        const int side = n & 1, parity = (n >> 1 & 1) ^ 1;
        const stored *image = x + (size_t)b * FLOATS_IN;
        unsigned char *in = shared + IN_AT + side * IN_BYTES;
        Barrier *emptied = &small.emptied[side];
        unsigned largest = convert_image(in, image, power(scale), me, emptied, parity);
        largest = largest_of_all<CONVERTERS>(small.largest[side], largest, me);
#if STORED_HALF
        int exponent = exponent_of(largest);
#else
        // Halves keep 11 bits of floats if the largest is in 2^-2 ... 2^15.
        int exponent = (int)(largest >> 10) - 15 - scale;
        if (largest < 13 << 10 || largest >= 30 << 10) {
            largest = largest_stored<CONVERTERS>(image, me);
            sync(1, CONVERTING);  // all have read `largest`
            largest = largest_of_all<CONVERTERS>(small.largest[side], largest, me);
            exponent = exponent_of(largest);
            if (largest && largest < NOT_FINITE) {
                scale = min(8 - exponent, 127);
                convert_image(in, image, power(scale), me, emptied, parity);
            }
        }
#endif
        if (me == 0) {
            small.scale[side] = largest >= NOT_FINITE ? DIRECT : -scale;
            small.largest[side][15] = (unsigned)exponent;
        }
        __syncwarp();
        if (me % 32 == 0)
            arrive(&small.filled[side]);
    }
}

// --- the warps that multiply -----------------------------------------------------------------

// Converts the weights to the operands' layout: for a row of taps and a step, 2 x 8 products of 8
// maps each, as 8 x 8 halves. Returns the exponents of their scale and their largest value.
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
    const float factor = power(scale);

#pragma unroll 5
    for (int i = me; i < PACKED_BYTES / 4; i += MULTIPLYING) {
        const int step = i / (STEP_BYTES / 4), row = step / STEPS;
        const int m = i / 4 % (8 * MAP_TILES), unit = 4 * (step % STEPS) + i % 4;
        const int column = unit / GROUPS;
        const int c = unit % GROUPS * 4 + 2 * (i / (32 * MAP_TILES) % 2);
        const int from = ((m * C + c) * K + row) * K + column;
        const bool there = m < M && column < K;
        const stored low = there && c < C ? plain[from] : stored(0);
        const stored high = there && c + 1 < C ? plain[from + K * K] : stored(0);
#if STORED_HALF
        packed[i] = low | (unsigned)high << 16;
#else
        packed[i] = pair(low * factor, high * factor);
#endif
    }
    publish();
    sync(2, MULTIPLYING);
    const bool direct = largest >= NOT_FINITE || uneven(small.smallest_map, MULTIPLIERS, exponent);
    return make_int2(scale, direct ? DIRECT : exponent);
}

struct Rows {  // operands of a step: pairs of rows, or a pair's second row with the next's first
    uint4 of[PAIRS_READ];
};

struct Window {  // addresses of a thread's pairs of rows
    unsigned pair[PAIRS_READ];
};

// Rows beyond the image affect only outputs that are not stored, and units with zero weights must
// not read Inf or NaN: both read valid data instead.
__device__ __forceinline__ Window window_of(unsigned in, int position)
{
    const int here = min(position, ROW_GROUPS * W_OUT - 1), quarter = threadIdx.x % 4;
    Window window;
#pragma unroll
    for (int i = 0; i < PAIRS_READ; i++) {
        const int pair = min(here / W_OUT * 2 + i, PAIRS - 1);
        window.pair[i] = in + 16 * ((pair * W + here % W_OUT) * GROUPS + quarter);
    }
    return window;
}

__device__ __forceinline__ void read_rows(Rows &rows, const Window &window, int step)
{
    const bool idle = step == STEPS - 1 && (int)threadIdx.x % 4 >= 4 - IDLE_UNITS;
    // The address that a padding unit reads.
    const int other = STEPS > 1 ? 0 : -16 * ((int)threadIdx.x % 4);
#pragma unroll
    for (int i = 0; i < PAIRS_READ; i++) {
        uint4 &r = rows.of[i];
        asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
                     : "r"(window.pair[i] + (idle ? other : 64 * step)));
    }
}

__device__ __forceinline__ void multiply_tile(float *out, unsigned in, unsigned long long weights,
                                              int tile, float factor)
{
    const int quarter = threadIdx.x % 4, position = tile * 8 + threadIdx.x % 32 / 4;
    const Window window = window_of(in, position);

    // A copy by xor uses a different pipe than a move, which tensor cores do not need.
    const unsigned zero = gridDim.y - 1;
    // The loads of a step overlap with the products of the step before.
    float upper[SUMS] = {}, lower[SUMS] = {};
    Rows even[2], odd[2];
    read_rows(even[0], window, 0);
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        const int side = step % 2;
#pragma unroll
        for (int i = 0; i + 1 < PAIRS_READ; i++) {
            const uint4 &a = even[side].of[i], &b = even[side].of[i + 1];
            odd[side].of[i] = make_uint4(a.y ^ zero, b.x ^ zero, a.w ^ zero, b.z ^ zero);
        }
        wgmma::fence();
#pragma unroll
        for (int row = 0; row < K; row++) {
            const Rows &rows = row % 2 ? odd[side] : even[side];
            const unsigned long long there = weights + (row * STEPS + step) * (STEP_BYTES / 16);
            multiply(upper, rows.of[row / 2], there, step + row > 0);
            multiply(lower, rows.of[row / 2 + 1], there, step + row > 0);
        }
        wgmma::commit();
        if (step + 1 < STEPS) {
            if (step > 0)
                wgmma::wait<1>();
            read_rows(even[1 - side], window, step + 1);
        }
    }
    wgmma::wait<0>();

    const int top = position / W_OUT * 4, column = position % W_OUT;
    const unsigned to = shared_address(out + top * W_OUT + column + 2 * quarter * PIXELS_OUT);
    bool there[4];
#pragma unroll
    for (int row = 0; row < 4; row++)
        there[row] = position < ROW_GROUPS * W_OUT && (H_OUT % 4 == 0 || top + row < H_OUT);
#pragma unroll
    for (int i = 0; i < MAP_TILES; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const bool mine = M % 8 == 0 || 8 * i + 2 * quarter + j < M;
            const unsigned map = to + 4 * (8 * i + j) * PIXELS_OUT;
            store_if(there[0] && mine, map, upper[4 * i + j] * factor);
            store_if(there[1] && mine, map + 4 * W_OUT, upper[4 * i + 2 + j] * factor);
            store_if(there[2] && mine, map + 8 * W_OUT, lower[4 * i + j] * factor);
            store_if(there[3] && mine, map + 12 * W_OUT, lower[4 * i + 2 + j] * factor);
        }
}

__device__ __forceinline__ void sum_directly(float *out, const stored *x, const stored *k)
{
#pragma unroll 1
    for (int i = threadIdx.x; i < FLOATS_OUT; i += MULTIPLYING)
        out[i] = direct_sum(x, k, i);
}

__device__ __forceinline__ void multiply_images(unsigned char *shared, Small &small,
                                                const stored *x, const stored *k, int B)
{
    const int warp = threadIdx.x / 32;
    const unsigned long long weights =
        wgmma::descriptor(shared_address(shared + PACKED_AT), STEP_BYTES / 2);
    const int2 exponents = load_weights(shared, small, k);
    for (int b = blockIdx.x, n = 0; b < B; b += gridDim.x, n++) {
        const int side = n & 1, parity = n >> 1 & 1;
        float *out = (float *)(shared + side * OUT_BYTES);
        wait(&small.filled[side], parity);
        wait(&small.copied[side], parity ^ 1);
        const int scale = small.scale[side] - exponents.x;
        const int most = (int)small.largest[side][15] + exponents.y + 2 + TERMS_BITS;
        if (scale < -149 || scale > 127 || most > 126)
            sum_directly(out, x + (size_t)b * FLOATS_IN, k);
        else
#pragma unroll 1
            for (int tile = warp; tile < TILES_ROUNDED; tile += MULTIPLIERS)
                multiply_tile(out, shared_address(shared + IN_AT + side * IN_BYTES), weights, tile,
                              power(scale));
        publish();
        __syncwarp();
        if (threadIdx.x % 32 == 0) {
            arrive(&small.emptied[side]);
            arrive(&small.computed[side]);
        }
    }
}

// --- the thread that stores ------------------------------------------------------------------

__device__ __forceinline__ void store_images(unsigned char *shared, Small &small, float *y,
                                             const stored *x, int B)
{
    for (int i = 0; i < AHEAD; i++)
        ask_for(x, blockIdx.x + i * gridDim.x, B);
    for (int b = blockIdx.x, n = 0; b < B; b += gridDim.x, n++) {
        const int side = n & 1;
        ask_for(x, b + AHEAD * gridDim.x, B);
        wait(&small.computed[side], n >> 1 & 1);
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
                     "cp.async.bulk.commit_group;\n"
                     "cp.async.bulk.wait_group.read 0;" ::"l"(y + (size_t)b * FLOATS_OUT),
                     "r"(shared_address(shared + side * OUT_BYTES)), "n"(OUT_BYTES)
                     : "memory");
        arrive(&small.copied[side]);
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 1)
    conv_best_single(float *__restrict__ y, const stored *__restrict__ x,
                     const stored *__restrict__ k, int B)
{
    extern __shared__ __align__(128) unsigned char shared[];
    Small &small = *(Small *)(shared + SMALL_AT);
    const int warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        for (int side = 0; side < 2; side++) {
            expect(&small.filled[side], CONVERTERS);
            expect(&small.emptied[side], MULTIPLIERS);
            expect(&small.computed[side], MULTIPLIERS);
            expect(&small.copied[side], 1);
        }
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
