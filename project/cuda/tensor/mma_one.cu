// mma_one: one input channel as a Toeplitz product, in persistent blocks, since Ampere.
//
// After tensor_split: the image in shared memory is an operand (toeplitz.cuh), so products cost
// little, and memory bandwidth is the limit. A block keeps its maps' weights, and takes strip after
// strip: HEIGHT output rows of an image. To toeplitz.cuh a strip is an image of SHAPE_H rows. The
// next strip's pixels are loaded into registers while this one is multiplied. The outputs of 4 maps
// pass through shared memory, so that they are stored in pieces as large as the alignment permits.
// Strips that halves do not hold are computed directly.
// a block -> every n-th strip, 4 GROUPS_EACH maps
// Per output: 4 bytes written, 96 PARTS / 4 multiply-adds (PARTS is K up to K = 5).

#if !defined SHAPE_H || !defined SHAPE_W || !defined SHAPE_M || !defined SHAPE_K
#error "SHAPE_H, SHAPE_W, SHAPE_M and SHAPE_K are set by project/plans/mma_split.py"
#endif
#if !defined IMAGE_H || !defined ROWS || !defined WARPS || !defined BLOCKS || !defined GROUPS_EACH
#error "IMAGE_H, ROWS, WARPS, BLOCKS and GROUPS_EACH are set by project/plans/mma_split.py"
#endif

#define PRODUCTS 3
#define STORED_HALF 0
#include "parts/direct.cuh"
#include "parts/toeplitz.cuh"

namespace
{

constexpr int THREADS = 32 * WARPS;
constexpr int IMAGE_OUT = IMAGE_H - K + 1, WHOLE_PLANE = IMAGE_OUT * W_OUT;
constexpr int STRIPS = over(IMAGE_OUT, H_OUT);
constexpr int WINDOW = K * K;
constexpr int SHARES = over(GROUPS, GROUPS_EACH);  // of the maps, each a block's

// Pairs of pixels that a thread loads, and floats that it stores at a time.
constexpr int PAIRS = H * PITCH, EACH = over(PAIRS, THREADS);
constexpr bool EVEN = W % 2 == 0;
constexpr int AT_ONCE = PLANE % 4 == 0 && WHOLE_PLANE % 4 == 0   ? 4
                        : PLANE % 2 == 0 && WHOLE_PLANE % 2 == 0 ? 2
                                                                 : 1;

struct alignas(4 * AT_ONCE) Piece {
    float at[AT_ONCE];
};

struct Shared {
    union {
        Piece planes[MAPS][PLANE / AT_ONCE];         // of the output
        float weights[GROUPS_EACH * MAPS * WINDOW];  // before they are packed
    };
    alignas(16) char strip[SLOT];
    uint4 operands[GROUPS_EACH * STEPS * PRECISIONS * 32];
    int shifts[GROUPS_EACH * MAPS];  // of each map's scale
    Range ranges[WARPS];
};

struct Strip {
    int image, row;  // first row

    __device__ explicit Strip(int i) : image(i / STRIPS), row(i % STRIPS * H_OUT) {}
    __device__ int rows() const { return min(H_OUT, IMAGE_OUT - row); }
};

// Load a thread's pairs of a strip; those beyond the image are zeros.
__device__ void load(float2 (&pairs)[EACH], const float *x, int i)
{
    const Strip strip(i);
    const float *const from = x + ((size_t)strip.image * IMAGE_H + strip.row) * W;
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        const int at = threadIdx.x + j * THREADS, row = at / PITCH, column = at % PITCH * 2;
        const float *const pair = from + row * W + column;
        pairs[j] = {};
        if (row < min(H, IMAGE_H - strip.row)) {
            if (EVEN)
                pairs[j] = __ldg((const float2 *)pair);
            else
                pairs[j] = {__ldg(pair), column + 1 < W ? __ldg(pair + 1) : 0};
        }
    }
}

// Split a strip's pixels; return the shift of their scale, or NEVER.
__device__ int split_strip(Shared &s, const float2 (&pairs)[EACH])
{
    Range range;
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        range.add(pairs[j].x);
        range.add(pairs[j].y);
    }
    range.reduce();
    if (threadIdx.x % 32 == 0)
        s.ranges[threadIdx.x / 32] = range;
    __syncthreads();  // from here on, all have multiplied and stored the last strip
    range.add(s.ranges[threadIdx.x % WARPS]);
    range.reduce();
    const int shift = shift_of(range);
    const float scale = power_of_two(shift);
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        const int at = threadIdx.x + j * THREADS;
        const Pair both = split(pairs[j].x, pairs[j].y, scale);
        if (at < PAIRS)
            ((uint2 *)s.strip)[at] = {both.high, both.low};
    }
    return shift;
}

// Multiply a strip by 4 maps, group g of the block.
__device__ void multiply_group(Shared &s, int g, int shift)
{
    const int lane = threadIdx.x % 32;
    const float scale = power_of_two(-shift - s.shifts[g * MAPS + lane / 8]);
    uint4 a[STEPS][PRECISIONS];
#pragma unroll
    for (int j = 0; j < STEPS * PRECISIONS; j++)
        a[j / PRECISIONS][j % PRECISIONS] = s.operands[(g * STEPS * PRECISIONS + j) * 32 + lane];
#pragma unroll 1
    for (int i = threadIdx.x / 32; i < TILES; i += WARPS)
        multiply_tile((float *)s.planes, s.strip, a, i, scale);
}

// Compute the rows of a strip of up to 4 maps by the formula.
__device__ void compute_directly(Shared &s, const float *x, const float *k, int rows, int maps)
{
    for (int i = threadIdx.x; i < maps * rows * W_OUT; i += THREADS) {
        const int m = i / (rows * W_OUT), at = i % (rows * W_OUT);
        ((float *)s.planes[m])[at] =
            Direct<1, M, IMAGE_H, W, K>::output(x + at / W_OUT * W + at % W_OUT, k + m * WINDOW);
    }
}

// Store the rows of a strip of up to 4 maps.
__device__ void store(const Shared &s, float *y, int rows, int maps)
{
    const int all = rows * W_OUT / AT_ONCE;
#pragma unroll
    for (int m = 0; m < MAPS; m++)
        if (M % MAPS == 0 || m < maps)
#pragma unroll 4
            for (int i = threadIdx.x; i < all; i += THREADS)
                ((Piece *)(y + m * WHOLE_PLANE))[i] = s.planes[m][i];
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    conv_mma_one(float *__restrict__ y, const float *__restrict__ x, const float *__restrict__ k,
                 int B)
{
    extern __shared__ uint4 memory[];
    Shared &s = *(Shared *)memory;
    const int first_map = blockIdx.x % SHARES * GROUPS_EACH * MAPS;
    const int first = blockIdx.x / SHARES, blocks = gridDim.x / SHARES;
    const int maps = min(GROUPS_EACH * MAPS, M - first_map), groups = (maps + MAPS - 1) / MAPS;
    float2 pairs[EACH];
    load(pairs, x, first);
    for (int i = threadIdx.x; i < groups * MAPS * WINDOW; i += THREADS)
        s.weights[i] = i < maps * WINDOW ? k[first_map * WINDOW + i] : 0;
    for (int i = threadIdx.x; i < SLOT / 4; i += THREADS)
        ((unsigned *)s.strip)[i] = 0;
    __syncthreads();
    pack_weights(s.operands, s.shifts, s.weights, groups, THREADS);
    __syncthreads();
    int lowest = NEVER, highest = -NEVER;  // shifts of maps
    for (int m = 0; m < maps; m++) {
        lowest = min(lowest, s.shifts[m]);
        highest = max(highest, s.shifts[m]);
    }
    for (int i = first; i < B * STRIPS; i += blocks) {
        const Strip strip(i);
        const int shift = split_strip(s, pairs);
        const bool held = fits<WINDOW>(shift + lowest, shift + highest);
        if (i + blocks < B * STRIPS)
            load(pairs, x, i + blocks);
        __syncthreads();
        const size_t plane = (size_t)strip.image * M + first_map;
        for (int g = 0; g < groups; g++) {
            if (held)
                multiply_group(s, g, shift);
            else
                compute_directly(s, x + ((size_t)strip.image * IMAGE_H + strip.row) * W,
                                 k + (first_map + g * MAPS) * WINDOW, strip.rows(),
                                 min(MAPS, maps - g * MAPS));
            __syncthreads();
            store(s, y + (plane + g * MAPS) * WHOLE_PLANE + strip.row * W_OUT, strip.rows(),
                  maps - g * MAPS);
            __syncthreads();
        }
    }
}
