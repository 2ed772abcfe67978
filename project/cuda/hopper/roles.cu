// roles: warps that load, multiply or store, handing on their work by barriers in shared memory.
//
// After staged_store: there all warps load, then all multiply, and the tensor cores wait for
// memory. Here LOADERS warps load an image, and store it as halves, while MULTIPLIERS warps
// compute the planes of the one before, and one thread stores the planes before these. Images
// wait in SLOTS, planes in STAGES; each of both has two mbarriers: one that it is full, and one
// that it is empty. A block stays on its multiprocessor and computes every gridDim.x-th image.
// warp of a block -> multiplies every MULTIPLIERS-th tile of 4 maps, loads or stores
// Per output: as staged_store.

#if !defined SHAPE_H || !defined SHAPE_W || !defined SHAPE_M || !defined SHAPE_K
#error "SHAPE_H, SHAPE_W, SHAPE_M and SHAPE_K are set by project/plans/hopper_rungs.py"
#endif
#if !defined PRODUCTS || !defined STORED_HALF || !defined THREADS || !defined ROWS
#error "PRODUCTS, STORED_HALF, THREADS and ROWS are set by project/plans/hopper_rungs.py"
#endif
#if !defined LOADERS || !defined SLOTS || !defined STAGES
#error "LOADERS, SLOTS and STAGES are set by project/plans/hopper_rungs.py"
#endif

#include "parts/bulk.cuh"
#include "parts/mbarrier.cuh"
#include "parts/toeplitz.cuh"

#include "parts/one_channel.cuh"
#include "parts/repair.cuh"

namespace
{

constexpr int MULTIPLIERS = THREADS / 32 - LOADERS - 1, STAGE = MAPS * PLANE;

// What warps hand on: COUNT places, used in turns.
template <int COUNT> struct Barriers {
    Barrier full[COUNT], empty[COUNT];

    __device__ void expect(int givers, int takers)
    {
        for (int i = 0; i < COUNT; i++) {
            ::expect(&full[i], givers);
            ::expect(&empty[i], takers);
        }
    }
    // The n-th use of a place waits for the end of the one before; the first one does not wait.
    __device__ void wait_empty(int n) { wait(&empty[n % COUNT], n / COUNT % 2 ^ 1); }
    __device__ void wait_full(int n) { wait(&full[n % COUNT], n / COUNT % 2); }
    __device__ void give(int n) { arrive(&full[n % COUNT]); }
    __device__ void take(int n) { arrive(&empty[n % COUNT]); }
};

struct Shared {
    Barriers<SLOTS> images;
    Barriers<STAGES> planes;
    Range ranges[SLOTS][LOADERS];
    int shift[SLOTS];  // of each image's scale
};

__device__ void load_images(Shared &s, char *slots, const float *x, int *list, const int *shifts,
                            int images)
{
    const int thread = threadIdx.x - MULTIPLIERS * 32;
    for (int b = blockIdx.x, n = 0; b < images; b += gridDim.x, n++) {
        const Image<LOADERS * 32> image(x + (size_t)b * PIXELS, thread);
        s.images.wait_empty(n);
        const Range range = image.range(s.ranges[n % SLOTS], thread, [] {
            asm volatile("bar.sync 1, %0;" ::"n"(LOADERS * 32) : "memory");
        });
        const int shift = shift_of(range);
        image.store(slots + n % SLOTS * SLOT, thread, power_of_two(shift));
        if (thread == 0) {
            s.shift[n % SLOTS] = shift;
            if (!fits_all(shift, shifts))
                repair::leave_out(list, b);
        }
        s.images.give(n);
    }
}

__device__ void multiply_images(Shared &s, float *stages, const char *slots, const uint4 *operands,
                                const int *shifts, int images)
{
    for (int b = blockIdx.x, n = 0, item = 0; b < images; b += gridDim.x, n++) {
        const int slot = n % SLOTS;
        s.images.wait_full(n);
        for (int g = 0; g < GROUPS; g++, item++) {
            s.planes.wait_empty(item);
            multiply_group(stages + item % STAGES * STAGE, slots + slot * SLOT, s.shift[slot],
                           operands, shifts, g, threadIdx.x / 32, MULTIPLIERS);
            publish();
            s.planes.give(item);
        }
        s.images.take(n);
    }
}

__device__ void store_planes(Shared &s, const float *stages, float *y, int images)
{
    for (int b = blockIdx.x, item = 0; b < images; b += gridDim.x)
        for (int g = 0; g < GROUPS; g++, item++) {
            s.planes.wait_full(item);
            start_copy(y + ((size_t)b * M + g * MAPS) * PLANE, stages + item % STAGES * STAGE,
                       min(MAPS, M - g * MAPS) * PLANE * 4);
            wait_for_copies<0>();
            s.planes.take(item);
        }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    conv_roles(float *__restrict__ y, const float *__restrict__ x, const float *__restrict__ k,
               int *__restrict__ list, int images)
{
    extern __shared__ __align__(128) char memory[];
    __shared__ Shared shared;
    float *const stages = (float *)memory;
    char *const slots = (char *)(stages + STAGES * STAGE);
    uint4 *const operands = (uint4 *)(slots + SLOTS * SLOT);
    int *const shifts = (int *)(operands + OPERANDS);  // of each map's scale
    const int warp = threadIdx.x / 32;

    // Every thread arrives: racecheck does not understand one arrival for a whole warp.
    if (threadIdx.x == 0) {
        shared.images.expect(LOADERS * 32, MULTIPLIERS * 32);
        shared.planes.expect(MULTIPLIERS * 32, 1);
        expected();
    }
    for (int i = 0; i < SLOTS; i++)
        clear_end(slots + i * SLOT);
    prepare_weights(operands, shifts, (float *)(shifts + GROUPS * MAPS), k);

    if (warp < MULTIPLIERS)
        multiply_images(shared, stages, slots, operands, shifts, images);
    else if (warp < MULTIPLIERS + LOADERS)
        load_images(shared, slots, x, list, shifts, images);
    else if (threadIdx.x % 32 == 0)
        store_planes(shared, stages, y, images);
}

extern "C" __global__ void __launch_bounds__(repair::BLOCK)
    conv_roles_repair(float *__restrict__ y, const float *__restrict__ x,
                      const float *__restrict__ k, const int *__restrict__ list)
{
    repair::repair<1, M, H, W, K>(y, x, k, list);
}
