// best_split: warpgroups that multiply, and keep output rows in progress as sums

#pragma once

#include "hopper/best_split/layout.cuh"
#include "parts/mbarrier.cuh"
#include "parts/wgmma.cuh"

namespace
{

// The fragments of A for all columns of the filter. A warp's rows of a product are pixels 0,
// 2, .., 14, then 1, 3, .., 15 of its 16, so that odd pixels are reused as the even ones of the
// next column: of 16 fragments (8 pixels by 16 bytes), 12 are loaded.
struct Fragments {
    unsigned eight[8], four[8];  // by column, of channels 0-7 and 8-11; four[0, 1] in eight[6, 7]

    static __device__ __forceinline__ void load(unsigned *a, unsigned address)
    {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                     : "r"(address)
                     : "memory");
    }
    // The addresses from which this lane reads columns 0-3, and 4, 5 with two of channels 8-11.
    static __device__ __forceinline__ unsigned lane_at()
    {
        const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
        return lane / 8 % 2 * ODD_BYTES + (8 * warp + lane % 8 + lane / 16) * 16;
    }
    static __device__ __forceinline__ unsigned later_at()
    {
        const bool second = threadIdx.x % 32 / 16;
        return lane_at() + (!second ? 32 : GROUPS == 2 ? GROUP_BYTES - 16 : 16);
    }
    __device__ __forceinline__ void load(unsigned row, unsigned lane_at, unsigned later_at)
    {
        load(eight, row + lane_at);
        if constexpr (K == 5)
            load(eight + 4, row + later_at);
        if constexpr (GROUPS == 2)
            load(four + (K == 5 ? 2 : 0), row + lane_at + GROUP_BYTES + (K == 5 ? 16 : 0));
    }
    __device__ __forceinline__ unsigned operator()(int unit, int odd) const
    {
        const int column = unit_column(unit) + odd;
        if (!unit_group(unit < UNITS ? unit : UNITS - 1))
            return eight[column];
        return K == 5 && column < 2 ? eight[6 + column] : four[column];
    }
    // The fragments of a step. Those not in adjacent registers are copied by an OR with ZERO,
    // which the compiler does not recognise as a copy: it would copy again for each product.
    __device__ __forceinline__ void take(unsigned *a, int step, unsigned zero) const
    {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            a[i] = (*this)(2 * step + i / 2, i % 2);
            if (step == 1 || (K == 3 && step > 0))
                asm volatile("or.b32 %0, %1, %2;" : "=r"(a[i]) : "r"(a[i]), "r"(zero));
        }
    }
};

__device__ __forceinline__ void zero(float &f)
{
    asm volatile("mov.f32 %0, 0f00000000;" : "=f"(f));
}

struct Math {
    float one[K * SLOT], two[K * SLOT];  // high high; the other products
    float done[SLOT];                    // a complete output row
    unsigned low[STEPS][4];              // of the next input row
    unsigned weights, rows, full, empty, out_full, out_empty;
    unsigned lane_at, later_at, none;  // of fragments; zero
    float *out;                        // the ring of this thread's image and first map
    int column;                        // of its first pixel
    int next, taken, due;  // floats: the next row in the ring; the ends of free and of full halves
    int left;              // input rows left
    float back[M / 8][2];  // undoes the scales of an image and of each map
    Place in, put, take;   // put and take are of halves of the ring
    bool waiting;

    // Add an input row to COUNT output rows starting at FIRST; ROTATION is the row's number mod K.
    // Low halves come first, so that the high ones, and then the next row's low ones, are
    // loaded during the products. The row's buffer is released as soon as it is in registers.
    template <int ROTATION, int FIRST, int COUNT> __device__ __forceinline__ void row()
    {
        using Row = wgmma::Product<COUNT * M>;
        const unsigned b = weights + (K - 1 - ROTATION + FIRST) * M * 16, freed = empty + in.at * 8;
        const auto first = wgmma::descriptor(b, UNIT_BYTES);
        const auto of = [&](int further) { return first + (further >> 4); };
        unsigned high[STEPS][4];
        wgmma::fence();
#pragma unroll
        for (int s = 0; s < STEPS; s++)
            Row::run(two, low[s], of(2 * s * UNIT_BYTES), 1);
        wgmma::commit();
        load(high, 0);
        wgmma::fence();
#pragma unroll
        for (int s = 0; s < STEPS; s++)
            Row::run(two, high[s], of(2 * s * UNIT_BYTES + WEIGHT_BYTES), 1);
#pragma unroll
        for (int s = 0; s < STEPS; s++)
            Row::run(one, high[s], of(2 * s * UNIT_BYTES), 1);
        wgmma::commit();
        arrive(freed);
        in.next(ROWS_IN);
        if (waiting)
            hand_out();
        wgmma::wait<1>();
        if (--left)
            load_low();
        wgmma::wait<0>();
    }
    __device__ __forceinline__ void load(unsigned (*a)[4], int half)
    {
        Fragments of_row;
        of_row.load(rows + in.at * ROW_BYTES + half, lane_at, later_at);
#pragma unroll
        for (int s = 0; s < STEPS; s++)
            of_row.take(a[s], s, none);
    }
    __device__ __forceinline__ void load_low()  // after waiting for the row
    {
        wait(full + in.at * 8, in.turn);
        load(low, HALF_BYTES);
    }

    // Copy a complete output row, and clear its accumulators.
    template <int INDEX> __device__ __forceinline__ void finish()
    {
#pragma unroll
        for (int i = 0; i < SLOT; i++) {
            done[i] =
                fmaf(two[INDEX * SLOT + i], 1 / LOW, one[INDEX * SLOT + i]) * back[i / 4][i % 2];
            // Force the copy here, so that the next products do not wait for it.
            asm volatile("" : "+f"(done[i]));
            zero(one[INDEX * SLOT + i]);
            zero(two[INDEX * SLOT + i]);
        }
        waiting = true;
    }

    // The first of COUNT output rows in progress is complete: move the others down.
    template <int COUNT> __device__ __forceinline__ void shift()
    {
#pragma unroll
        for (int i = 0; i < (COUNT - 1) * SLOT; i++) {
            asm volatile("mov.f32 %0, %1;" : "=f"(one[i]) : "f"(one[i + SLOT]));
            asm volatile("mov.f32 %0, %1;" : "=f"(two[i]) : "f"(two[i + SLOT]));
        }
#pragma unroll
        for (int i = (COUNT - 1) * SLOT; COUNT > 1 && i < COUNT * SLOT; i++) {
            zero(one[i]);
            zero(two[i]);
        }
    }

    // A thread has maps 0 and 2, 8 and 10, .. relative to this one.
    static __device__ __forceinline__ int first_map()
    {
        return threadIdx.x % 2 + threadIdx.x / 2 % 2 * 4;
    }
    __device__ __forceinline__ void give_half()
    {
        arrive(out_full + put.at * 8);
        put.next(2);
        due += HALF_RING;
    }
    __device__ __forceinline__ void hand_out()
    {
        if (taken < REACH) {
            wait(out_empty + take.at * 8, take.turn ^ 1);
            take.next(2);
            taken += HALF_RING;
        }
        const int m = first_map();
#pragma unroll
        for (int e = 0; e < 2; e++)
#pragma unroll
            for (int odd = 0; odd < 2; odd++) {
                const unsigned i = next + map_phase(m + 2 * e) + column + odd;
                float *to = out + map_at(2 * e) + min(i, i - RING);  // whichever is in the ring
                if ((unsigned)(column + odd) < W_OUT) {
#pragma unroll
                    for (int n = 0; n < M / 8; n++)
                        to[map_at(8 * n)] = done[4 * n + 2 * odd + e];
                }
            }
        next += next + W_OUT < RING ? W_OUT : W_OUT - RING;
        taken -= W_OUT;
        due -= W_OUT;
        if (due <= 0)
            give_half();
        waiting = false;
    }

    template <int I> __device__ __forceinline__ void head()
    {
        if constexpr (I < K - 1) {
            row<I, 0, I + 1>();
            head<I + 1>();
        }
    }
    // One loop for everything: the compiler copies registers for products after a loop.
    template <int I> __device__ __forceinline__ void body(const Part &part, int y)
    {
        if constexpr (I < K) {
            if (y < part.periods * K) {
                row<(I + K - 1) % K, 0, K>();
                finish<I>();
            } else if constexpr (I < K - 1) {
                row<(I + K - 1) % K, I, K - 1 - I>();
                finish<0>();
                shift<K - 1 - I>();
            }
            body<I + 1>(part, y);
        }
    }

    __device__ __forceinline__ void begin()
    {
#pragma unroll
        for (int i = 0; i < K * SLOT; i++) {
            zero(one[i]);
            zero(two[i]);
        }
        waiting = false;
    }

    __device__ __forceinline__ void run(const Part &part)  // starts and ends with zeroed sums
    {
        const int phase = part.top * W_OUT & 7;
        next = put.at * HALF_RING + phase, taken = -phase, due = HALF_RING - phase;
        head<0>();
#pragma unroll 1
        for (int y = 0; y <= part.periods * K; y += K)
            body<0>(part, y);
        if (waiting)
            hand_out();
        while (due <= taken)
            give_half();
    }
};

}  // namespace
