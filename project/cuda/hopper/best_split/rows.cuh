// best_split: warps that convert the rows of images to pairs of halves

#pragma once

#include "hopper/best_split/layout.cuh"
#include "parts/mbarrier.cuh"

namespace
{

// Two numbers of a warp's sample of an image, and the shift for all.
__device__ __forceinline__ float2 sample_of(const float *image)
{
    const int lane = threadIdx.x % 32;
    constexpr int STEP = C * H * W / 64;
    return {__ldg(image + 2 * lane * STEP), __ldg(image + (2 * lane + 1) * STEP)};
}
__device__ __forceinline__ int shift_of(float2 sampled)
{
    return Range{largest_of_warp(larger(sampled.x, sampled.y))}.shift(IMAGE_TO);
}

// Reads the rows of all images that a warp converts. It branches as little as it can: where a row
// or an image is missing, it reads the last one again, of which no output is stored.
struct Reader {
    const float *x;
    Plan plan;
    int item, image;
    int y, end;          // of the row that is read next, and of the part
    const float *there;  // this lane's pixel of it
    const float *other;  // a channel of the pixel beside the last lane's

    __device__ __forceinline__ const float *image_of(int i) const
    {
        return x + (size_t)min(2 * plan.part(i).pair + image, plan.B - 1) * C * H * W;
    }
    __device__ __forceinline__ void open()
    {
        const int lane = threadIdx.x % 32;
        const Part part = plan.part(item);
        y = part.top, end = y + part.rows;
        const float *from = image_of(item) + y * W;
        there = from + min(lane, W - 1);
        other = from + min(lane, C - 1) * H * W + 32;
    }
    __device__ __forceinline__ void load(float *v, float &extra)
    {
#pragma unroll
        for (int c = 0; c < C; c++)
            v[c] = __ldg(there + c * H * W);
        extra = W > 32 ? __ldg(other) : 0;
        if (++y < H) {
            there += W;
            other += W;
        }
        if (y == end && (item += plan.step) < plan.items)
            open();
    }
    __device__ __forceinline__ float2 sample(int i) const
    {
        return i < plan.items ? sample_of(image_of(i)) : float2{};
    }
};

// What a lane has seen of an image.
struct Seen {
    float largest = 0;
    unsigned weakest = nonzero(0), extra = nonzero(0);

    __device__ __forceinline__ void row(const float *v, float other)
    {
        // The sum is at least the largest, takes fewer cycles than it, and keeps NaN.
        float sum[3];
#pragma unroll
        for (int c = 0; c < C; c++)
            sum[c % 3] = c < 3 ? fabsf(v[c]) : sum[c % 3] + fabsf(v[c]);
        const float of_pixel = sum[0] + (C > 1 ? sum[1] : 0) + (C > 2 ? sum[2] : 0);
        weakest = min(weakest, nonzero(of_pixel));
        largest = larger(largest, of_pixel + fabsf(other));
        extra = min(extra, nonzero(other));  // beside the pixels of the last lane
    }
    __device__ __forceinline__ unsigned weakest_of(int shift) const  // of the whole warp
    {
        const unsigned held_well = nonzero(power_of_two(LEAST) * power_of_two(-shift));
        const bool held = largest * power_of_two(shift) < 65504 && extra >= held_well;
        return __all_sync(~0u, held) ? __reduce_min_sync(~0u, weakest) : 0;
    }
};

__device__ __forceinline__ void convert_row(char *row, const float *v, float extra, float scale,
                                            int image)
{
    const int lane = threadIdx.x % 32, pixel = image * APART + lane;
    if (W > 32 && lane < C) {
        const __half2 both = split(extra * scale);
        const __half high = both.x, low = both.y;
        const int p = image * APART + 32, c = lane;
        char *to = row + (c < 8 ? p / 2 * 16 + 2 * c : GROUP_BYTES + p * 8 + 2 * (c - 8));
        *(__half *)to = high;
        *(__half *)(to + HALF_BYTES) = low;
        if (c >= 8) {
            to += ODD_BYTES - 8;
            *(__half *)to = high;
            *(__half *)(to + HALF_BYTES) = low;
        }
    }
    unsigned h[GROUPS == 2 ? 6 : 4], l[GROUPS == 2 ? 6 : 4];
#pragma unroll
    for (int i = 0; i < (GROUPS == 2 ? 6 : 4); i++) {
        const float a = 2 * i < C ? v[2 * i] : 0, b = 2 * i + 1 < C ? v[2 * i + 1] : 0;
        const Pair pair = split(a, b, scale);
        h[i] = pair.high;
        l[i] = pair.low;
    }
    if (lane < W) {
        char *to = row + lane % 2 * ODD_BYTES + pixel / 2 * 16;
        *(uint4 *)to = make_uint4(h[0], h[1], h[2], h[3]);
        *(uint4 *)(to + HALF_BYTES) = make_uint4(l[0], l[1], l[2], l[3]);
        if constexpr (GROUPS == 2) {
            to = row + GROUP_BYTES + pixel * 8;  // units starting at pixel 0, and at pixel 1
#pragma unroll
            for (int odd = 0; odd < 2; odd++, to += ODD_BYTES - 8) {
                *(uint2 *)to = make_uint2(h[4], h[5]);
                *(uint2 *)(to + HALF_BYTES) = make_uint2(l[4], l[5]);
            }
        }
    }
}

__device__ __forceinline__ void convert(Reader r, char *rows, unsigned full, unsigned empty,
                                        Notes *notes, int group)
{
    if (r.item >= r.plan.items)
        return;
    const int lane = threadIdx.x % 32;
    float v[ROWS_AHEAD][C], extra[ROWS_AHEAD];
    Place put;
    int item = r.item, y = 0, end = 0, memo = 0;
    float2 sampled = r.sample(item);
    int shift = 0;
    Seen seen;
    r.open();
#pragma unroll
    for (int i = 0; i < ROWS_AHEAD; i++)
        r.load(v[i], extra[i]);
    while (item < r.plan.items) {
#pragma unroll
        for (int i = 0; i < ROWS_AHEAD; i++) {
            if (item >= r.plan.items)
                break;
            if (y == 0) {
                end = r.plan.part(item).rows;
                shift = shift_of(sampled);
                seen = Seen();
                if (lane == 0)
                    notes->shift[group][memo][r.image] = shift;
                sampled = r.sample(item + r.plan.step);
            }
            const float scale = power_of_two(shift);
            wait(empty + put.at * 8, put.turn ^ 1);
            convert_row(rows + put.at * ROW_BYTES, v[i], extra[i], scale, r.image);
            seen.row(v[i], extra[i]);
            if (++y == end) {
                const unsigned weakest = seen.weakest_of(shift);
                if (lane == 0)
                    notes->weakest[group][memo][r.image] = weakest;
                memo = (memo + 1) % MEMO;
                item += r.plan.step;
                y = 0;
            }
            arrive(full + put.at * 8);
            put.next(ROWS_IN);
            r.load(v[i], extra[i]);
        }
    }
}

}  // namespace
