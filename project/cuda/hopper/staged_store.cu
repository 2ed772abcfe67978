// staged_store: planes of 4 maps are collected in shared memory and stored by one bulk copy.
//
// After toeplitz: a warp's sums are pieces of 8 bytes of 4 maps, which fill sectors of 32 bytes in
// several stores. Here they go to a stage in shared memory, and one thread starts a copy of all
// of it to y, in whole lines. There are two stages: while one is copied, the block computes the
// next 4 maps into the other.
// a warp of a block -> every (THREADS / 32)-th tile of 8 anchors x ROWS rows, 4 maps at a time
// Per output: as toeplitz, and 4 bytes written to and read from shared memory.

#if !defined SHAPE_H || !defined SHAPE_W || !defined SHAPE_M || !defined SHAPE_K
#error "SHAPE_H, SHAPE_W, SHAPE_M and SHAPE_K are set by project/plans/hopper_rungs.py"
#endif
#if !defined PRODUCTS || !defined STORED_HALF || !defined THREADS || !defined ROWS
#error "PRODUCTS, STORED_HALF, THREADS and ROWS are set by project/plans/hopper_rungs.py"
#endif

#include "parts/bulk.cuh"
#include "parts/toeplitz.cuh"

#include "parts/one_channel.cuh"
#include "parts/repair.cuh"

constexpr int STAGE = MAPS * PLANE, STAGES = 2;

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    conv_staged_store(float *__restrict__ y, const float *__restrict__ x,
                      const float *__restrict__ k, int *__restrict__ list, int images)
{
    extern __shared__ __align__(128) char memory[];
    __shared__ Range ranges[THREADS / 32];
    float *const stages = (float *)memory;
    char *const slot = (char *)(stages + STAGES * STAGE);  // an image as halves
    uint4 *const operands = (uint4 *)(slot + SLOT);
    int *const shifts = (int *)(operands + OPERANDS);  // of each map's scale
    int turn = 0;

    clear_end(slot);
    prepare_weights(operands, shifts, (float *)(shifts + GROUPS * MAPS), k);
    for (int b = blockIdx.x; b < images; b += gridDim.x) {
        const Image<THREADS> image(x + (size_t)b * PIXELS, threadIdx.x);
        const int shift = shift_of(image.range(ranges, threadIdx.x, [] { __syncthreads(); }));
        image.store(slot, threadIdx.x, power_of_two(shift));
        if (threadIdx.x == 0 && !fits_all(shift, shifts))
            repair::leave_out(list, b);

        for (int g = 0; g < GROUPS; g++, turn ^= 1) {
            float *const stage = stages + turn * STAGE;
            if (threadIdx.x == 0)
                wait_for_copies<STAGES - 1>();  // all but that of the other stage
            __syncthreads();
            multiply_group(stage, slot, shift, operands, shifts, g, threadIdx.x / 32, THREADS / 32);
            publish();
            __syncthreads();
            if (threadIdx.x == 0)
                start_copy(y + ((size_t)b * M + g * MAPS) * PLANE, stage,
                           min(MAPS, M - g * MAPS) * PLANE * 4);
        }
    }
    if (threadIdx.x == 0)
        wait_for_copies<0>();
}

extern "C" __global__ void __launch_bounds__(repair::BLOCK)
    conv_staged_store_repair(float *__restrict__ y, const float *__restrict__ x,
                             const float *__restrict__ k, const int *__restrict__ list)
{
    repair::repair<1, M, H, W, K>(y, x, k, list);
}
