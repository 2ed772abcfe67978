// best_split: the weights as operands

#pragma once

#include "hopper/best_split/layout.cuh"

namespace
{

// The map of a column of a product, in the order of Math::hand_out.
__device__ __forceinline__ int column_map(int n)
{
    return n / 8 * 8 + n % 2 * 2 + n / 2 % 2 + n / 4 % 2 * 4;
}

constexpr int THREADS = 384, EACH = (WEIGHTS + THREADS - 1) / THREADS;

__device__ __forceinline__ void load_weights(float *w, const float *k, int t)
{
#pragma unroll
    for (int i = 0; i < EACH; i++)
        w[i] = i * THREADS + t < WEIGHTS ? __ldg(k + i * THREADS + t) : 0;
}

__device__ __forceinline__ void prepare_weights(char *weights, float *room, const float *w,
                                                Notes *notes, int t)
{
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int at = i * THREADS + t;
        if (at < WEIGHTS)
            room[at + at / OF_MAP * (MAP_ROOM - OF_MAP)] = w[i];
    }
    meet<1, THREADS>();
#pragma unroll 1
    for (int m = t / 32; m < M; m += THREADS / 32) {
        Range range;
        bool zeros = false;
        for (int i = t % 32; i < OF_MAP; i += 32) {
            range.add(room[m * MAP_ROOM + i]);
            zeros |= room[m * MAP_ROOM + i] == 0;
        }
        range.reduce();
        zeros = __any_sync(~0u, zeros);
        const int shift = range.shift();
        if (t % 32 == 0) {
            notes->map[m] = range.held(shift) ? shift : NEVER;
            const float contrast = zeros ? INFINITY : range.contrast();
            atomicMax(&notes->contrast, __float_as_uint(contrast));
        }
    }
    meet<1, THREADS>();
    for (int i = t; i < 2 * STEPS * K * M; i += THREADS) {
        const int column = i % M, m = column_map(column);
        const int turn = i / M % K, u = i / M / K, ky = K - 1 - turn;
        const float scale = power_of_two(notes->map[m]);
        unsigned h[4], l[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float pair[2];
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int n = 2 * j + e, c = unit_group(u) ? 8 + n % 4 : n;
                const int kx = unit_column(u) + (unit_group(u) ? n / 4 : 0);
                const bool there = u < UNITS && c < C && kx < K;
                pair[e] = there ? room[m * MAP_ROOM + (c * K + ky) * K + kx] : 0;
            }
            const Pair both = split(pair[0], pair[1], scale);
            h[j] = both.high;
            l[j] = both.low;
        }
        char *to = weights + u * UNIT_BYTES + (turn * M + column) * 16;
        for (int again = 0; again < (turn < K - 1 ? 2 : 1); again++, to += K * M * 16) {
            *(uint4 *)to = make_uint4(h[0], h[1], h[2], h[3]);
            *(uint4 *)(to + WEIGHT_BYTES) = make_uint4(l[0], l[1], l[2], l[3]);
        }
    }
    publish();
    meet<1, THREADS>();
}

}  // namespace
