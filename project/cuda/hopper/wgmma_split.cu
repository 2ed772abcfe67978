// wgmma_split: several input channels, multiplied by a whole warpgroup at a time.
//
// After tensor_split: mma.sync takes operands that a warp loads to registers; wgmma reads both
// from shared memory by itself, and multiplies 64 pixels. A pixel there is a unit of 16 bytes, 8
// channels as halves, so the 64 pixels of a tap are those that begin (row of the window) x W +
// (column) units further: the window moves by moving an address, and nothing is copied. Tiles
// run over the whole image, also over the K - 1 columns between two output rows, which are not
// stored. x and k are pairs of halves with a scale for each image and map (halves.cuh). The
// high and the low halves of k are columns of one product, so high x is read once for both.
// a warpgroup of a block -> every GROUPS-th tile of 64 pixels x all maps, of every n-th image
// Per output: 4 bytes written, 3 x 8 C8 K K multiply-adds by wgmma, C8 = C / 8 rounded up.

#if !defined SHAPE_C || !defined SHAPE_M || !defined SHAPE_K || !defined SHAPE_H || \
    !defined SHAPE_W || !defined THREADS
#error "SHAPE_* and THREADS are set by project/plans/hopper_rungs.py"
#endif

#include "parts/bulk.cuh"
#include "parts/halves.cuh"
#include "parts/mbarrier.cuh"
#include "parts/repair.cuh"
#include "parts/wgmma.cuh"

namespace
{

using namespace halves;

constexpr int C = SHAPE_C, M = SHAPE_M, K = SHAPE_K, H = SHAPE_H, W = SHAPE_W;
constexpr int H_OUT = H - K + 1, W_OUT = W - K + 1, PLANE = H_OUT * W_OUT;
constexpr int C8 = (C + 7) / 8, COLUMNS = (M + 7) / 8 * 8, GROUPS = THREADS / 128;
constexpr int TILES = ((H_OUT - 1) * W + W_OUT + 63) / 64;

// An image: units [half][8 channels][pixel], with zeros behind, where the last tile reads.
constexpr int READ = TILES * 64 + (K - 1) * (W + 1);
constexpr int PLACES = H * W < READ ? READ : H * W, HALF = C8 * PLACES;
// Weights: units [tap of 8 channels][half][map]. A step of depth 16 is two taps.
constexpr int TAPS = C8 * K * K, STEPS = (TAPS + 1) / 2, TAP = 2 * COLUMNS;

// The distance in units from a pixel to that of a tap. What follows the last tap has no weights.
__host__ __device__ constexpr int tap_at(int tap)
{
    return tap == TAPS ? tap_at(TAPS - 1) : tap / (K * K) * PLACES + tap / K % K * W + tap % K;
}

struct Shared {
    Range ranges[THREADS / 32];
    int shifts[COLUMNS];  // of each map's scale
};

// Eight numbers as a unit of high halves and one of low halves.
__device__ __forceinline__ void store_units(uint4 *high, uint4 *low, const float (&v)[8],
                                            float scale)
{
    const Pair a = split(v[0], v[1], scale), b = split(v[2], v[3], scale);
    const Pair c = split(v[4], v[5], scale), d = split(v[6], v[7], scale);
    *high = {a.high, b.high, c.high, d.high};
    *low = {a.low, b.low, c.low, d.low};
}

__device__ void prepare_weights(Shared &s, uint4 *weights, const float *k)
{
    for (int m = threadIdx.x / 32; m < COLUMNS; m += THREADS / 32) {
        Range range;
        for (int i = threadIdx.x % 32; m < M && i < C * K * K; i += 32)
            range.add(k[m * C * K * K + i]);
        range.reduce();
        if (threadIdx.x % 32 == 0)
            s.shifts[m] = range.held(range.shift()) ? range.shift() : NEVER;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * STEPS * COLUMNS; i += THREADS) {
        const int m = i % COLUMNS, tap = i / COLUMNS;
        float v[8];
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const int c = tap / (K * K) * 8 + j;
            v[j] = m < M && c < C ? k[(m * C + c) * K * K + tap % (K * K)] : 0;
        }
        uint4 *const to = weights + tap * TAP + m;
        store_units(to, to + COLUMNS, v, power_of_two(s.shifts[m]));
    }
}

// Store an image as halves; return the shift of its scale.
__device__ int load_image(Shared &s, uint4 *units, const float *image)
{
    Range range;
#pragma unroll 8
    for (int i = threadIdx.x; i < C * H * W; i += THREADS)
        range.add(image[i]);
    range.reduce();
    if (threadIdx.x % 32 == 0)
        s.ranges[threadIdx.x / 32] = range;
    __syncthreads();  // no warp multiplies the last image any more
    for (int i = 0; i < THREADS / 32; i++)
        range.add(s.ranges[i]);
    const int shift = range.held(range.shift()) ? range.shift() : NEVER;
#pragma unroll
    for (int g = 0; g < C8; g++)
#pragma unroll 2
        for (int i = threadIdx.x; i < H * W; i += THREADS) {
            float v[8];
#pragma unroll
            for (int j = 0; j < 8; j++)
                v[j] = 8 * g + j < C ? image[(8 * g + j) * H * W + i] : 0;
            uint4 *const to = units + g * PLACES + i;
            store_units(to, to + HALF, v, power_of_two(shift));
        }
    return shift;
}

// Whether the sums of an image can be scaled back, for all maps.
__device__ bool fits_all(const Shared &s, int shift)
{
    int lowest = NEVER, highest = -NEVER;
    for (int m = 0; m < M; m++) {
        lowest = min(lowest, s.shifts[m]);
        highest = max(highest, s.shifts[m]);
    }
    return fits<C * K * K>(shift + lowest, shift + highest);
}

// Compute the outputs at the 64 pixels from the first on.
__device__ void multiply_tile(const Shared &s, float *y, unsigned units, unsigned weights,
                              int first, int shift)
{
    float both[COLUMNS], rest[COLUMNS / 2];  // high high, high low; low high
    wgmma::fence();
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        const int at = tap_at(2 * step), next = tap_at(2 * step + 1) - at;
        const auto high = wgmma::descriptor(units + (first + at) * 16, next * 16);
        const auto low = wgmma::descriptor(units + (HALF + first + at) * 16, next * 16);
        const auto of_k = wgmma::descriptor(weights + 2 * step * TAP * 16, TAP * 16);
        wgmma::Product<2 * COLUMNS>::run(both, high, of_k, step > 0);
        wgmma::Product<COLUMNS>::run(rest, low, of_k, step > 0);
    }
    wgmma::commit();
    wgmma::wait<0>();
    wgmma::settle(both);
    wgmma::settle(rest);
    const int pixel = first + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; i++) {
        const int n = pixel + i / 2 % 2 * 8, row = n / W, column = n % W;
        const int m = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
        if (row < H_OUT && column < W_OUT && m < M)
            y[m * PLANE + row * W_OUT + column] =
                (both[i] + (both[COLUMNS / 2 + i] + rest[i]) * (1 / LOW)) *
                power_of_two(-shift - s.shifts[m]);
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
    conv_wgmma_split(float *__restrict__ y, const float *__restrict__ x,
                     const float *__restrict__ k, int *__restrict__ list, int images)
{
    extern __shared__ __align__(128) uint4 memory[];
    __shared__ Shared s;
    uint4 *const weights = memory, *const units = memory + 2 * STEPS * TAP;

    for (int i = threadIdx.x; i < 2 * HALF; i += THREADS)
        units[i] = {0, 0, 0, 0};
    prepare_weights(s, weights, k);
    for (int b = blockIdx.x; b < images; b += gridDim.x) {
        const int shift = load_image(s, units, x + (size_t)b * C * H * W);
        if (threadIdx.x == 0 && !fits_all(s, shift))
            repair::leave_out(list, b);
        publish();
        __syncthreads();
        for (int i = threadIdx.x / 128; i < TILES; i += GROUPS)
            multiply_tile(s, y + (size_t)b * M * PLANE, shared_address(units),
                          shared_address(weights), i * 64, shift);
    }
}

extern "C" __global__ void __launch_bounds__(repair::BLOCK)
    conv_wgmma_split_repair(float *__restrict__ y, const float *__restrict__ x,
                            const float *__restrict__ k, const int *__restrict__ list)
{
    repair::repair<C, M, H, W, K>(y, x, k, list);
}
