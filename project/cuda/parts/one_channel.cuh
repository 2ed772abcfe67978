// An image and the weights of the maps as operands, for toeplitz, staged_store and roles.
//
// They have one input channel and float operands; after toeplitz.cuh.

#pragma once

namespace
{

constexpr int PAIRS = H * PITCH;  // of neighbouring pixels of a row
constexpr int OPERANDS = GROUPS * STEPS * PRECISIONS * 32;

// An image in the registers of READERS threads.
template <int READERS> struct Image {
    static constexpr int EACH = over(PAIRS, READERS);
    float2 pair[EACH];

    __device__ __forceinline__ Image(const float *image, int thread)
    {
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const int i = thread + j * READERS, column = i % PITCH * 2;
            const float *const at = image + i / PITCH * W + column;
            pair[j] = {0, 0};
            if (i < PAIRS && W % 2 == 0)
                pair[j] = *(const float2 *)at;
            else if (i < PAIRS)
                pair[j] = {at[0], column + 1 < W ? at[1] : 0};
        }
    }

    // The range of all threads' pixels: each warp's goes through `ranges`, around a barrier.
    template <typename Barrier>
    __device__ __forceinline__ Range range(Range *ranges, int thread, Barrier barrier) const
    {
        Range range;
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            range.add(pair[j].x);
            range.add(pair[j].y);
        }
        range.reduce();
        if (thread % 32 == 0)
            ranges[thread / 32] = range;
        barrier();
#pragma unroll
        for (int j = 0; j < READERS / 32; j++)
            range.add(ranges[j]);
        return range;
    }

    // Store it as halves, where Window reads it.
    __device__ __forceinline__ void store(char *slot, int thread, float scale) const
    {
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const Pair both = split(pair[j].x, pair[j].y, scale);
            if (thread + j * READERS < PAIRS)
                ((uint2 *)slot)[thread + j * READERS] = {both.high, both.low};
        }
    }
};

// Zero what products read behind an image.
__device__ void clear_end(char *slot)
{
    for (int i = PAIRS + threadIdx.x; i < SLOT / PAIR; i += blockDim.x)
        ((uint2 *)slot)[i] = {0, 0};
}

// Pack the weights as operands; `room` is for all maps. Maps that are missing in the last group
// repeat the last map.
__device__ void prepare_weights(uint4 *operands, int *shifts, float *room, const float *k)
{
    for (int i = threadIdx.x; i < GROUPS * MAPS * K * K; i += blockDim.x)
        room[i] = k[min(i / (K * K), M - 1) * (K * K) + i % (K * K)];
    __syncthreads();
    pack_weights(operands, shifts, room, GROUPS, blockDim.x);
    __syncthreads();
}

// Whether the sums of an image can be scaled back, for all maps.
__device__ bool fits_all(int shift, const int *shifts)
{
    int lowest = NEVER, highest = -NEVER;
    for (int m = 0; m < GROUPS * MAPS; m++) {
        lowest = min(lowest, shifts[m]);
        highest = max(highest, shifts[m]);
    }
    return fits<K * K>(shift + lowest, shift + highest);
}

// Compute every `step`-th tile, from the first on, of the planes of group g of 4 maps.
__device__ void multiply_group(float *planes, const char *image, int image_shift,
                               const uint4 *operands, const int *shifts, int g, int first, int step)
{
    const int lane = threadIdx.x % 32;
    const float scale = power_of_two(-image_shift - shifts[g * MAPS + lane / 8]);
    uint4 a[STEPS][PRECISIONS];
#pragma unroll
    for (int j = 0; j < STEPS * PRECISIONS; j++)
        a[j / PRECISIONS][j % PRECISIONS] = operands[(g * STEPS * PRECISIONS + j) * 32 + lane];
#pragma unroll 1
    for (int i = first; i < TILES; i += step)
        multiply_tile(planes, image, a, i, scale);
}

}  // namespace
