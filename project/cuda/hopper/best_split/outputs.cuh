// best_split: warps that store outputs, and images that halves do not hold

#pragma once

#include "hopper/best_split/rows.cuh"
#include "parts/direct.cuh"

namespace
{

__device__ __forceinline__ void store(float *y, const float *out, unsigned out_full,
                                      unsigned out_empty, Notes *notes, const Plan &plan, int group,
                                      int image)
{
    const int lane = threadIdx.x % 32;
    const float weak = weak_pixel(notes);
    const int lowest = lowest_map(notes), highest = highest_map(notes);
    Place get;  // of halves of the ring
    int memo = 0;
    out += image * IMAGE_FLOATS;
    for (int item = blockIdx.x + group * gridDim.x; item < plan.items; item += plan.step) {
        const Part part = plan.part(item);
        const int b = 2 * part.pair + image, handed = part.rows - (K - 1);
        float *to = y + (size_t)b * M * PLANE + part.top * W_OUT;
        // Positions relative to the start of the first half; that of map 0's first output.
        const int first = part.top * W_OUT & 7, length = part.outputs * W_OUT;
        const int halves = (first + (handed - 1) * W_OUT + REACH + HALF_RING - 1) / HALF_RING;
#pragma unroll 1
        for (int i = 0; i < halves; i++) {
            const int left = i * HALF_RING, right = left + HALF_RING;
            const float *ring = out + get.at * HALF_RING - left;
            wait(out_full + get.at * 8, get.turn);
            publish();
            if (b < plan.B) {
                if (lane < M) {
                    const int begin = first + map_phase(lane), end = begin + length;
                    const int from = max(left, begin + 7 & ~7), until = min(right, end & ~7);
                    if (from < until)
                        asm volatile(
                            "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                                to + lane * PLANE + from - begin),
                            "r"(shared_address(ring + map_at(lane) + from)), "r"((until - from) * 4)
                            : "memory");
                }
                asm volatile("cp.async.bulk.commit_group;" ::: "memory");
                if (i == 0 || right >= first + length)  // sectors shared by two maps
#pragma unroll 1
                    for (int m = lane / 8; m < M; m += 4) {
                        const int begin = first + map_phase(m), end = begin + length;
                        const int head = begin + lane % 8, tail = (end & ~7) + lane % 8;
                        float *of_map = to + m * PLANE - begin;
                        const float *of_ring = ring + map_at(m);
                        if (i == 0 && head < min(begin + 7 & ~7, end))
                            of_map[head] = of_ring[head];
                        if (tail >= max(left, begin + 7 & ~7) && tail < min(right, end))
                            of_map[tail] = of_ring[tail];
                    }
                asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
            }
            arrive(out_empty + get.at * 8);
            get.next(2);
        }
        const int shift = notes->shift[group][memo][image];
        if (lane == 0 && b < plan.B &&
            (notes->weakest[group][memo][image] < nonzero(weak / power_of_two(shift)) ||
             !fits<C * K * K>(shift + lowest, shift + highest))) {
            const int at = atomicAdd(&notes->doubtful, 1);
            if (at < LIST)
                notes->list[at] = b;
        }
        memo = (memo + 1) % MEMO;
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");  // before others write there
}

// Look at the doubtful images, and compute those that halves do not hold.
__device__ __forceinline__ void look_again(float *y, const float *x, const float *k,
                                           const Notes *notes, const Plan &plan)
{
    const auto compute = [&](int b) {
        if (b < plan.B)
            Direct<C, M, H, W, K>::compute(y + (size_t)b * M * PLANE, x + (size_t)b * C * H * W, k,
                                           M, threadIdx.x, 512);
    };
    if (notes->doubtful > LIST) {
        for (int item = blockIdx.x; item < plan.items; item += gridDim.x) {
            compute(2 * plan.part(item).pair);
            compute(2 * plan.part(item).pair + 1);
        }
        return;
    }
    const float weak = weak_pixel(notes);
    const int lowest = lowest_map(notes), highest = highest_map(notes);
    for (int i = 0; i < notes->doubtful; i++) {
        const int b = notes->list[i];
        const float *const image = x + (size_t)b * C * H * W;
        const int shift = shift_of(sample_of(image));
        const float scale = power_of_two(shift);
        bool lost = !fits<C * K * K>(shift + lowest, shift + highest);
        float largest = 0;
        for (int at = threadIdx.x; at < H * W; at += 512) {
            Range pixel;
#pragma unroll
            for (int c = 0; c < C; c++)
                pixel.add(__ldg(image + at + c * H * W));
            largest = larger(largest, pixel.largest);
            lost |=
                pixel.largest * scale < weak && pixel.least < nonzero(power_of_two(LEAST) / scale);
        }
        const bool overflows = __syncthreads_or(!(largest * scale < 65504));
        if (__syncthreads_or(lost) || overflows)
            compute(b);
        if (overflows)
            compute(b ^ 1);  // which reads Inf and NaN with zero weights
    }
}

}  // namespace
