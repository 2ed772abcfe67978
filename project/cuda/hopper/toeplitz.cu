// toeplitz: one input channel, whose image is itself an operand of the product.
//
// After tensor_split: a product's 16 rows are 4 maps x 4 horizontal shifts and its columns are
// pixels at a distance of 4 (toeplitz.cuh), so that no window is gathered and every pixel is
// loaded once per row of the window. x and k are pairs of halves with a scale for each image and
// map (halves.cuh), at twice the rate of tf32. Images that halves do not hold are left to
// repair.cuh.
// a warp of a block -> every (THREADS / 32)-th tile of 8 anchors x ROWS rows, 4 maps at a time
// Per output: 4 bytes written, 3 x 8 PARTS multiply-adds (PARTS is K up to K = 5) by mma.sync.

#if !defined SHAPE_H || !defined SHAPE_W || !defined SHAPE_M || !defined SHAPE_K
#error "SHAPE_H, SHAPE_W, SHAPE_M and SHAPE_K are set by project/plans/hopper_rungs.py"
#endif
#if !defined PRODUCTS || !defined STORED_HALF || !defined THREADS || !defined ROWS
#error "PRODUCTS, STORED_HALF, THREADS and ROWS are set by project/plans/hopper_rungs.py"
#endif

#include "parts/toeplitz.cuh"

#include "parts/one_channel.cuh"
#include "parts/repair.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    conv_toeplitz(float *__restrict__ y, const float *__restrict__ x, const float *__restrict__ k,
                  int *__restrict__ list, int images)
{
    extern __shared__ __align__(128) char memory[];
    __shared__ Range ranges[THREADS / 32];
    char *const slot = memory;  // an image as halves
    uint4 *const operands = (uint4 *)(slot + SLOT);
    int *const shifts = (int *)(operands + OPERANDS);  // of each map's scale
    const int warp = threadIdx.x / 32, map = threadIdx.x % 32 / 8;

    clear_end(slot);
    prepare_weights(operands, shifts, (float *)(shifts + GROUPS * MAPS), k);
    for (int b = blockIdx.x; b < images; b += gridDim.x) {
        const Image<THREADS> image(x + (size_t)b * PIXELS, threadIdx.x);
        // After the barrier, no warp reads the last image any more.
        const int shift = shift_of(image.range(ranges, threadIdx.x, [] { __syncthreads(); }));
        image.store(slot, threadIdx.x, power_of_two(shift));
        if (threadIdx.x == 0 && !fits_all(shift, shifts))
            repair::leave_out(list, b);
        __syncthreads();

        float *const planes = y + (size_t)b * M * PLANE;
        for (int g = 0; g < GROUPS; g++) {
            // A missing map repeats the last one: it is stored there, too.
            const int to = min(g * MAPS + map, M - 1) - map;
            multiply_group(planes + to * PLANE, slot, shift, operands, shifts, g, warp,
                           THREADS / 32);
        }
    }
}

extern "C" __global__ void __launch_bounds__(repair::BLOCK)
    conv_toeplitz_repair(float *__restrict__ y, const float *__restrict__ x,
                         const float *__restrict__ k, const int *__restrict__ list)
{
    repair::repair<1, M, H, W, K>(y, x, k, list);
}
