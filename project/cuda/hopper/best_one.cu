// best_one: one input channel as a Toeplitz product; planes of 4 maps stored in one copy
//
// After roles: all blocks read at the same time, because DRAM is slow at switching between
// reading and writing. TEAMS of the warps that multiply compute a group of 4 maps each, into one
// of STAGES; HOLDERS load images into SLOTS; one warp stores planes by bulk copies. The maps of an
// image that halves do not hold are computed here, by the formula. toeplitz.cuh has the product.
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

#include "parts/direct.cuh"
#include "parts/mbarrier.cuh"
#include "parts/meet.cuh"
#include "parts/toeplitz.cuh"

namespace
{

constexpr int WARPS = THREADS / 32 - HOLDERS - 1;  // multiplying warps
constexpr int TEAM = WARPS / TEAMS;
constexpr int PENDING = STAGES < 8 ? 0 : 2;  // stores in flight before waiting
static_assert(PENDING < STAGES && SLOTS > 0 && WARPS % TEAMS == 0);

// Pixels that a loading warp loads at once, and the number of these loads per image.
constexpr int AT_ONCE = PIXELS % 4 == 0 && W % 2 == 0 ? 4 : 1;
constexpr int EACH = over(PIXELS / AT_ONCE, HOLDERS * 32);
constexpr bool WHOLE_PIECES = PLANE % 4 == 0 || M % 4 == 0;  // y is in pieces of 16 bytes

struct Shared {
    float *stages;    // STAGES x MAPS planes of the output
    char *slots;      // SLOTS images
    uint4 *operands;  // of the weights
    int *shifts;      // of each map's scale
    Number *weights;
    Barrier *converted, *released;  // of slots
    Barrier *filled, *stored;       // of stages
    Range (*ranges)[HOLDERS];       // of each slot, by warp
    int *shift;                     // of each slot; NEVER if halves do not hold the image
};

// The work of a block: groups of maps of every n-th image.
struct Work {
    int block, blocks, images, first, groups;

    __device__ int all() const { return (images - block + blocks - 1) / blocks; }
    __device__ size_t image(int n) const { return (size_t)n * blocks + block; }
};

__device__ void multipliers_wait() { asm volatile("bar.sync 2, %0;" ::"n"(WARPS * 32) : "memory"); }
__device__ void holders_wait() { asm volatile("bar.sync 1, %0;" ::"n"(HOLDERS * 32) : "memory"); }

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

__device__ void add(Range &range, const Pixels &p)
{
#pragma unroll
    for (int i = 0; i < (AT_ONCE == 4 ? 2 : 1); i++) {
        const float2 both = __half22float2(*(const __half2 *)&p.word[i]);
        range.add(both.x);
        range.add(both.y);
    }
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

__device__ void add(Range &range, const Pixels &p)
{
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++)
        range.add(p.at[j]);
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

// Load images in turn: find their range, then store scaled halves.
__device__ void hold(const Shared &s, const Number *x, const Work &w)
{
    const int thread = threadIdx.x - WARPS * 32, all = w.all();
    const bool together = w.images > 2 * w.blocks;
    for (int n = 0; n < all; n++) {
        const int slot = n % SLOTS;
        const Number *const image = x + w.image(n) * PIXELS;
        if (together && n && n % APART == 0 && (n + 1) * w.blocks <= w.images) {
            if (thread == 0)
                meeting::meet();
            holders_wait();
        }
        Pixels pixels[EACH];
        Range range;
#pragma unroll
        for (int j = 0; j < EACH; j++)
            pixels[j] = load(image, thread + j * HOLDERS * 32);
#pragma unroll
        for (int j = 0; j < EACH; j++)
            add(range, pixels[j]);
        range.reduce();
        if (n >= SLOTS)
            wait(&s.released[slot], (n / SLOTS + 1) % 2);
        if (thread % 32 == 0)
            s.ranges[slot][thread / 32] = range;
        holders_wait();
#pragma unroll
        for (int j = 0; j < HOLDERS; j++)
            range.add(s.ranges[slot][j]);
        const int shift = shift_of(range);
        const float scale = power_of_two(shift);
        if (thread == 0)
            s.shift[slot] = shift;
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const int i = thread + j * HOLDERS * 32;
            if (i < PIXELS / AT_ONCE)
                store(s.slots + slot * SLOT, pixels[j], i, scale);
        }
        arrive(&s.converted[slot]);
    }
    if (together && thread == 0)
        meeting::leave();
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

// Compute the planes of 4 maps of an image: group g of the block.
__device__ void multiply_planes(const Shared &s, float *planes, int slot, int g, int first_tile,
                                const Number *image, const Number *k, int maps)
{
    const int lane = threadIdx.x % 32, shifts = s.shift[slot] + s.shifts[g * MAPS + lane / 8];
    if (__any_sync(~0u, !fits<K * K>(shifts, shifts))) {
        Direct<1, M, H, W, K>::compute(planes, image, k, maps, threadIdx.x % (TEAM * 32),
                                       TEAM * 32);
        return;
    }
    const float scale = power_of_two(-shifts);
    uint4 a[STEPS][PRECISIONS];
#pragma unroll
    for (int j = 0; j < STEPS * PRECISIONS; j++)
        a[j / PRECISIONS][j % PRECISIONS] = s.operands[(g * STEPS * PRECISIONS + j) * 32 + lane];
#pragma unroll 1
    for (int i = first_tile; i < TILES; i += TEAM)
        multiply_tile(planes, s.slots + slot * SLOT, a, i, scale);
}

__device__ void multiply_all(const Shared &s, const Number *x, const Number *k, const Work &w)
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
                            x + w.image(n) * PIXELS, k + map * K * K, min(MAPS, M - map));
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            arrive(&s.filled[stage]);
            first_tile = (first_tile + TEAM - TILES % TEAM) % TEAM;
        }
        arrive(&s.released[slot]);
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    conv_best_one(float *__restrict__ y, const Number *__restrict__ x, const Number *__restrict__ k,
                  int images, int parts)
{
    extern __shared__ __align__(128) char memory[];
    __shared__ Barrier converted[SLOTS], released[SLOTS], filled[STAGES], stored[STAGES];
    __shared__ Range ranges[SLOTS][HOLDERS];
    __shared__ int shift[SLOTS];
    const int most = (GROUPS + parts - 1) / parts, first = blockIdx.x % parts * most;
    const Work w = {(int)blockIdx.x / parts, (int)gridDim.x / parts, images, first,
                    min(most, GROUPS - first)};
    const int weights = w.groups * MAPS * K * K;
    const int there = min(weights, (M - first * MAPS) * K * K);
    Shared s;
    s.stages = (float *)memory;
    s.slots = (char *)(s.stages + STAGES * MAPS * PLANE);
    s.operands = (uint4 *)(s.slots + SLOTS * SLOT);
    s.shifts = (int *)(s.operands + most * STEPS * PRECISIONS * 32);
    s.weights = (Number *)(s.shifts + most * MAPS);
    s.converted = converted;
    s.released = released;
    s.filled = filled;
    s.stored = stored;
    s.ranges = ranges;
    s.shift = shift;

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
    for (int i = threadIdx.x; i < SLOTS * SLOT / 4; i += THREADS)
        if (W % 2 || i % (SLOT / 4) >= H * PITCH * PRECISIONS)
            ((unsigned *)s.slots)[i] = 0;
    __syncthreads();

    const int warp = threadIdx.x / 32;
    if (warp < WARPS) {  // while the others load an image
        for (int i = threadIdx.x; i < weights; i += WARPS * 32)
            s.weights[i] = i < there ? k[first * MAPS * K * K + i] : (Number)0.0f;
        multipliers_wait();
        pack_weights(s.operands, s.shifts, s.weights, w.groups, WARPS * 32);
        multipliers_wait();
        multiply_all(s, x, k, w);
    } else if (warp < WARPS + HOLDERS)
        hold(s, x, w);
    else
        store_planes(s, y, w);
}
