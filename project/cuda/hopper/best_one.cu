// best_one: one input channel as a Toeplitz product; planes of 4 maps stored in one copy
//
// After tensor_split: the image in shared memory is an operand (toeplitz.cuh), so products
// cost little, and memory bandwidth is the limit. Warps are specialised: HOLDERS load images
// and store them as halves in one of SLOTS; one warp stores planes by bulk copies; the others
// multiply, in TEAMS that compute a group of 4 maps each into one of STAGES. All blocks read
// at the same time, because DRAM is slow at switching between reading and writing. What
// halves cannot represent (infinities, NaN, the ends of fp32's range) is computed directly.
// block j: part j % parts of the groups of maps, of every (grid / parts)-th image
// Per output: 4 bytes written, 32 PRODUCTS PARTS / 4 multiply-adds (PARTS is K up to K = 5).

#if !defined SHAPE_H || !defined SHAPE_W || !defined SHAPE_M || !defined SHAPE_K
#error "SHAPE_H, SHAPE_W, SHAPE_M and SHAPE_K are set by project/plans/best_one.py"
#endif
#if !defined PRODUCTS || !defined STORED_HALF || !defined THREADS || !defined ROWS
#error "PRODUCTS, STORED_HALF, THREADS and ROWS are set by project/plans/best_one.py"
#endif
#if !defined HOLDERS || !defined TEAMS || !defined STAGES || !defined SLOTS
#error "HOLDERS, TEAMS, STAGES and SLOTS are set by project/plans/best_one.py"
#endif
#ifndef APART
#error "APART is set by project/plans/best_one.py"
#endif

#include "parts/mbarrier.cuh"
#include "parts/toeplitz.cuh"

namespace
{

constexpr int WARPS = THREADS / 32 - HOLDERS - 1;  // multiplying warps
constexpr int TEAM = WARPS / TEAMS;
constexpr int PENDING = STAGES < 8 ? 0 : 2;  // stores in flight before waiting
static_assert(PENDING < STAGES && SLOTS > 0 && WARPS % TEAMS == 0);
constexpr long long PATIENCE = 20000;        // cycles that a block waits for the others

// Pixels that a loading warp loads at once, and the number of these loads per image.
constexpr int AT_ONCE = PIXELS % 4 == 0 && W % 2 == 0 ? 4 : 1;
constexpr int EACH = over(PIXELS / AT_ONCE, HOLDERS * 32);
constexpr bool WHOLE_PIECES = PLANE % 4 == 0 || M % 4 == 0;  // y is in pieces of 16 bytes

struct Shared {
    float *stages;    // STAGES x MAPS planes of the output
    char *slots;      // SLOTS images
    uint4 *operands;  // of the weights
    int *exponents;   // of each map
    Number *weights;
    Barrier *converted, *released;  // of slots
    Barrier *filled, *stored;       // of stages
    unsigned (*sizes)[HOLDERS];     // the largest value in each slot, by warp
};

// The work of a block: groups of maps of every n-th image.
struct Work {
    int block, blocks, images, first, groups;

    __device__ int all() const { return (images - block + blocks - 1) / blocks; }
    __device__ size_t image(int n) const { return (size_t)n * blocks + block; }
};

__device__ void holders_wait()
{
    asm volatile("bar.sync 1, %0;" ::"n"(HOLDERS * 32) : "memory");
}

// Synchronise all blocks, with a time limit: not all blocks need be running.
__device__ unsigned arrivals, departures;

__device__ void meet()
{
    const unsigned all = (atomicAdd(&arrivals, 1) / gridDim.x + 1) * gridDim.x;
    const long long start = clock64();
    volatile unsigned *const now = &arrivals;
    while ((int)(*now - all) < 0 && clock64() - start < PATIENCE)
        ;
}

__device__ void part()
{
    if (atomicInc(&departures, gridDim.x - 1) == gridDim.x - 1)
        arrivals = 0;
}

#if STORED_HALF
struct Pixels {
    unsigned word[AT_ONCE == 4 ? 2 : 1];
};

__device__ Pixels load(const Number *image, int i)
{
    Pixels p = {};
    if (i >= PIXELS / AT_ONCE)
        return p;
    if (AT_ONCE == 4) {
        const uint2 both = __ldg((const uint2 *)image + i);
        p.word[0] = both.x;
        p.word[AT_ONCE / 4] = both.y;
    } else {
        p.word[0] = __ldg((const unsigned short *)image + i);
    }
    return p;
}

__device__ unsigned largest(const Pixels &p)
{
    const unsigned a = p.word[0], b = p.word[AT_ONCE / 4];
    return max(max(a & 0x7fff, a >> 16 & 0x7fff), max(b & 0x7fff, b >> 16 & 0x7fff));
}

__device__ void store(char *slot, const Pixels &p, int i, float)
{
    if (AT_ONCE == 4)
        ((uint2 *)slot)[i] = {p.word[0], p.word[AT_ONCE / 4]};
    else
        ((unsigned short *)slot)[i / W * PITCH * 2 + i % W] = p.word[0];
}
#else
struct Pixels {
    float at[AT_ONCE];
};

__device__ Pixels load(const Number *image, int i)
{
    Pixels p = {};
    if (i >= PIXELS / AT_ONCE)
        return p;
    if (AT_ONCE == 4)
        *(float4 *)&p = __ldg((const float4 *)image + i);
    else
        p.at[0] = __ldg(image + i);
    return p;
}

__device__ unsigned largest(const Pixels &p)
{
    unsigned size = 0;
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++)
        size = max(size, size_of(p.at[j]));
    return size;
}

__device__ void store(char *slot, const Pixels &p, int i, float scale)
{
    if (AT_ONCE == 4) {
        const Pair a = split(p.at[0], p.at[1 % AT_ONCE], scale);
        const Pair b = split(p.at[2 % AT_ONCE], p.at[3 % AT_ONCE], scale);
        if (PRECISIONS == 2)
            ((uint4 *)slot)[i] = {a.high, a.low, b.high, b.low};
        else
            ((uint2 *)slot)[i] = {a.high, b.high};
    } else {
        const Pair a = split(p.at[0], 0, scale);
        unsigned short *const at =
            (unsigned short *)(slot + (i / W * PITCH + i % W / 2) * PAIR) + i % W % 2;
        at[0] = a.high;
        if (PRECISIONS == 2)
            at[2] = a.low;
    }
}
#endif

// Load images in turn: find the largest value, then store scaled halves.
__device__ void hold(const Shared &s, const Number *x, const Work &w)
{
    const int thread = threadIdx.x - WARPS * 32, all = w.all();
    const bool together = w.images > 2 * w.blocks;
    for (int n = 0; n < all; n++) {
        const int slot = n % SLOTS;
        const Number *const image = x + w.image(n) * PIXELS;
        if (together && n && n % APART == 0 && (n + 1) * w.blocks <= w.images) {
            if (thread == 0)
                meet();
            holders_wait();
        }
        Pixels held[EACH];
        unsigned size = 0;
#pragma unroll
        for (int j = 0; j < EACH; j++)
            held[j] = load(image, thread + j * HOLDERS * 32);
#pragma unroll
        for (int j = 0; j < EACH; j++)
            size = max(size, largest(held[j]));
        size = __reduce_max_sync(~0u, size);
        if (n >= SLOTS)
            wait(&s.released[slot], (n / SLOTS + 1) % 2);
        if (thread % 32 == 0)
            s.sizes[slot][thread / 32] = size;
        holders_wait();
#pragma unroll
        for (int j = 0; j < HOLDERS; j++)
            size = max(size, s.sizes[slot][j]);
        const float scale = power_of_two(shift_for(exponent_of(size)));
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const int i = thread + j * HOLDERS * 32;
            if (i < PIXELS / AT_ONCE)
                store(s.slots + slot * SLOT, held[j], i, scale);
        }
        arrive(&s.converted[slot]);
    }
    if (together && thread == 0)
        part();
}

// Store planes of 4 maps in turn, from stages to y, by bulk copies if they are aligned.
constexpr int STORERS = WHOLE_PIECES ? 1 : 32;

__device__ void store_planes(const Shared &s, float *y, const Work &w)
{
    const int lane = threadIdx.x % 32, items = w.all() * w.groups;
    if (lane >= STORERS)
        return;
    for (int i = 0; i < items; i++) {
        const int map = (w.first + i % w.groups) * MAPS, stage = i % STAGES;
        const int size = min(MAPS, M - map) * PLANE;
        float *const to = y + (w.image(i / w.groups) * M + map) * PLANE;
        const float *const from = s.stages + stage * MAPS * PLANE;
        wait(&s.filled[stage], i / STAGES % 2);
        if (WHOLE_PIECES) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
                         "cp.async.bulk.commit_group;\n"
                         "cp.async.bulk.wait_group.read %3;" ::"l"(to),
                         "r"(shared_address(from)), "r"(size * 4), "n"(PENDING)
                         : "memory");
            if (i >= PENDING)
                arrive(&s.stored[(i - PENDING) % STAGES]);
        } else {
#pragma unroll 4
            for (int j = lane; j < size; j += 32)
                to[j] = from[j];
            arrive(&s.stored[stage]);
        }
    }
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// Whether the scale for an image's and a map's exponents is not a normal number.
__device__ bool underflows(int shift, int exponent)
{
    return !STORED_HALF && shift + shift_for(exponent) > 126;
}

// Sum directly what products of halves cannot represent; scale x if products are small.
__device__ void sum_directly(float *planes, const Number *image, const Number *k, int maps,
                             const int *exponents, int shift)
{
    for (int i = threadIdx.x % (TEAM * 32); i < maps * PLANE; i += TEAM * 32) {
        const int row = i % PLANE / W_OUT, column = i % PLANE % W_OUT;
        const Number *const window = image + row * W + column;
        const Number *const map = k + i / PLANE * K * K;
        const int up = underflows(shift, exponents[i / PLANE]) ? shift : 0;
        const float scale = power_of_two(up);
        float sum = 0;
        for (int u = 0; u < K; u++)
            for (int v = 0; v < K; v++)
                sum += (float)window[u * W + v] * scale * (float)map[u * K + v];
        planes[i] = ldexpf(sum, -up);
    }
}

// Compute the planes of 4 maps of an image: group g of the block.
__device__ void multiply_planes(const Shared &s, float *planes, int slot, int g,
                                int first_tile, const Number *image, const Number *k,
                                int maps)
{
    const int lane = threadIdx.x % 32;
    unsigned size = 0;
#pragma unroll
    for (int j = 0; j < HOLDERS; j++)
        size = max(size, s.sizes[slot][j]);
    const int exponent = exponent_of(size), shift = shift_for(exponent);
    bool exotic = exponent == 255;
    float scale = 1;
#pragma unroll
    for (int m = 0; m < MAPS; m++) {
        const int e = s.exponents[g * MAPS + m];
        exotic |= e == 255;
        if (!STORED_HALF && e >= 0 && size)
            exotic |= e + exponent > 254 + 118 || underflows(shift, e);
        if (!STORED_HALF && m == lane / 8)
            scale = power_of_two(min(max(-shift - shift_for(e), -126), 127));
    }
    if (exotic) {
        sum_directly(planes, image, k, maps, s.exponents + g * MAPS, shift);
        return;
    }
    uint4 a[STEPS][PRECISIONS];
#pragma unroll
    for (int j = 0; j < STEPS * PRECISIONS; j++)
        a[j / PRECISIONS][j % PRECISIONS] =
            s.operands[(g * STEPS * PRECISIONS + j) * 32 + lane];
#pragma unroll 1
    for (int i = first_tile; i < TILES; i += TEAM)
        multiply_tile(planes, s.slots + slot * SLOT, a, i, scale);
}

__device__ void multiply_all(const Shared &s, const Number *x, const Number *k,
                             const Work &w)
{
    const int warp = threadIdx.x / 32, team = warp / TEAM, all = w.all();
    int item = 0, first_tile = warp % TEAM;  // tiles rotate, so that warps have equal work
    for (int n = 0; n < all; n++) {
        const int slot = n % SLOTS;
        wait(&s.converted[slot], n / SLOTS % 2);
        for (int g = 0; g < w.groups; g++, item++) {
            if (TEAMS > 1 && item % TEAMS != team)
                continue;
            const int stage = item % STAGES, map = (w.first + g) * MAPS;
            if (item >= STAGES)
                wait(&s.stored[stage], (item / STAGES + 1) % 2);
            multiply_planes(s, s.stages + stage * MAPS * PLANE, slot, g, first_tile,
                            x + w.image(n) * PIXELS, k + map * K * K,
                            min(MAPS, M - map));
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            arrive(&s.filled[stage]);
            first_tile = (first_tile + TEAM - TILES % TEAM) % TEAM;
        }
        arrive(&s.released[slot]);
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    conv_best_one(float *__restrict__ y, const Number *__restrict__ x,
                  const Number *__restrict__ k, int images, int parts)
{
    extern __shared__ __align__(128) char memory[];
    __shared__ Barrier converted[SLOTS], released[SLOTS], filled[STAGES], stored[STAGES];
    __shared__ unsigned sizes[SLOTS][HOLDERS];
    const int most = (GROUPS + parts - 1) / parts, first = blockIdx.x % parts * most;
    const Work w = {(int)blockIdx.x / parts, (int)gridDim.x / parts, images, first,
                    min(most, GROUPS - first)};
    const int weights = w.groups * MAPS * K * K;
    const int there = min(weights, (M - first * MAPS) * K * K);
    Shared s;
    s.stages = (float *)memory;
    s.slots = (char *)(s.stages + STAGES * MAPS * PLANE);
    s.operands = (uint4 *)(s.slots + SLOTS * SLOT);
    s.exponents = (int *)(s.operands + most * STEPS * PRECISIONS * 32);
    s.weights = (Number *)(s.exponents + most * MAPS);
    s.converted = converted;
    s.released = released;
    s.filled = filled;
    s.stored = stored;
    s.sizes = sizes;

    if (threadIdx.x == 0) {
        for (int i = 0; i < SLOTS; i++) {
            expect(&converted[i], HOLDERS * 32);
            expect(&released[i], WARPS * 32);
        }
        for (int i = 0; i < STAGES; i++) {
            expect(&filled[i], TEAM * 32);
            expect(&stored[i], STORERS);
        }
        expected();
    }
    for (int i = threadIdx.x; i < weights; i += THREADS)
        s.weights[i] = i < there ? k[first * MAPS * K * K + i] : (Number)0.0f;
    for (int i = threadIdx.x; i < SLOTS * SLOT / 4; i += THREADS)
        if (W % 2 || i % (SLOT / 4) >= H * PITCH * PRECISIONS)
            ((unsigned *)s.slots)[i] = 0;
    __syncthreads();
    pack_weights(s.operands, s.exponents, s.weights, w.groups);
    __syncthreads();

    const int warp = threadIdx.x / 32;
    if (warp < WARPS)
        multiply_all(s, x, k, w);
    else if (warp < WARPS + HOLDERS)
        hold(s, x, w);
    else
        store_planes(s, y, w);
}
