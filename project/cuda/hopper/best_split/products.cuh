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

// From a register: of a constant the compiler makes two instructions.
__device__ __forceinline__ void zero(float &f, unsigned zero)
{
    asm volatile("mov.b32 %0, %1;" : "=f"(f) : "r"(zero));
}

struct Math {
    float one[K * SLOT], two[K * SLOT];  // high high; the other products
    float done[SLOT];                    // a complete output row
    unsigned low[STEPS][4];              // of the next input row
    wgmma::Descriptor weights;
    unsigned rows, full, empty, out_full, out_empty;
    unsigned lane_at, later_at, none;  // of fragments; zero
    float *out;                        // the ring of this thread's image and first map
    int column, at[2];                 // of its first pixel; in a row of maps 0 and 2
    int next, taken, due;  // floats: the next row in the ring; the ends of free and of full halves
    int left;              // input rows left
    float back[M / 8][2];  // undoes the scales of an image and of each map
    Place in, put, take;   // put and take are of halves of the ring
    bool waiting;

    // Add an input row to COUNT output rows starting at FIRST; ROTATION is the row's number mod K.
    // The tensor cores get the next products while they still work: those of the low halves start
    // before the last of the row before are done, after which `before` may take from `one`; those
    // of the high halves follow before these are done. At the end `two` is complete, but not `one`.
    // The row's buffer is released as soon as it is in registers.
    template <int ROTATION, int FIRST, int COUNT, class Before>
    __device__ __forceinline__ void row(Before before)
    {
        using Row = wgmma::Product<COUNT * M>;
        const unsigned freed = empty + in.at * 8;
        const auto of = [&](int further) {
            return wgmma::further(weights, (K - 1 - ROTATION + FIRST) * M * 16 + further);
        };
        unsigned high[STEPS][4];
        wgmma::fence();
#pragma unroll
        for (int s = 0; s < STEPS; s++)
            Row::run(two, low[s], of(2 * s * UNIT_BYTES), 1);
        wgmma::commit();
        wgmma::wait<1>();
        before();
        load(high, 0);
        wgmma::fence();
#pragma unroll
        for (int s = 0; s < STEPS; s++)
            Row::run(two, high[s], of(2 * s * UNIT_BYTES + WEIGHT_BYTES), 1);
        wgmma::commit();
        wgmma::fence();
#pragma unroll
        for (int s = 0; s < STEPS; s++)
            Row::run(one, high[s], of(2 * s * UNIT_BYTES), 1);
        wgmma::commit();
        arrive(freed);
        in.next(ROWS_IN);
        if (waiting)
            hand_out();
        wgmma::wait<2>();
        if (--left)
            load_low();
        wgmma::wait<1>();
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

    // Copy a complete output row and clear its accumulators: first those of `two`, then of `one`.
    template <int INDEX> __device__ __forceinline__ void finish_two()
    {
#pragma unroll
        for (int i = 0; i < SLOT; i++) {
            done[i] = two[INDEX * SLOT + i] * (1 / LOW);
            // Force the copy here, so that the next products do not wait for it.
            asm volatile("" : "+f"(done[i]));
            zero(two[INDEX * SLOT + i], none);
        }
    }
    template <int INDEX> __device__ __forceinline__ void finish_one()
    {
#pragma unroll
        for (int i = 0; i < SLOT; i++) {
            done[i] += one[INDEX * SLOT + i];
            asm volatile("" : "+f"(done[i]));
            zero(one[INDEX * SLOT + i], none);
        }
        waiting = true;
    }

    // The first of COUNT output rows in progress is complete: move the others down.
    template <int COUNT> __device__ __forceinline__ void shift(float *sums)
    {
#pragma unroll
        for (int i = 0; i < (COUNT - 1) * SLOT; i++)
            asm volatile("mov.f32 %0, %1;" : "=f"(sums[i]) : "f"(sums[i + SLOT]));
#pragma unroll
        for (int i = (COUNT - 1) * SLOT; COUNT > 1 && i < COUNT * SLOT; i++)
            zero(sums[i], none);
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
#pragma unroll
        for (int e = 0; e < 2; e++)
#pragma unroll
            for (int odd = 0; odd < 2; odd++) {
                const unsigned i = next + at[e] + odd;
                float *to = out + map_at(2 * e) + min(i, i - RING);  // whichever is in the ring
                if ((unsigned)column < W_OUT - odd) {                // which is even
#pragma unroll
                    for (int n = 0; n < M / 8; n++)
                        to[map_at(8 * n)] = done[4 * n + 2 * odd + e] * back[n][e];
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
            row<I, 0, I + 1>([] {});
            head<I + 1>();
        } else {
            wgmma::wait<0>();
        }
    }
    template <int I> __device__ __forceinline__ void body()
    {
        if constexpr (I < K) {
            row<(I + K - 1) % K, 0, K>([&] {
                if constexpr (I)
                    finish_one<I - 1>();
            });
            finish_two<I>();
            if constexpr (I == K - 1) {
                wgmma::wait<0>();
                finish_one<I>();
            }
            body<I + 1>();
        }
    }
    template <int I> __device__ __forceinline__ void tail()
    {
        if constexpr (I < K - 1) {
            row<(I + K - 1) % K, I, K - 1 - I>([&] {
                if constexpr (I) {
                    finish_one<0>();
                    shift<K - I>(one);
                }
            });
            finish_two<0>();
            shift<K - 1 - I>(two);
            if constexpr (I == K - 2) {
                wgmma::wait<0>();
                finish_one<0>();
            }
            tail<I + 1>();
        }
    }

    __device__ __forceinline__ void begin()
    {
#pragma unroll
        for (int i = 0; i < K * SLOT; i++) {
            zero(one[i], none);
            zero(two[i], none);
        }
        waiting = false;
    }

    __device__ __forceinline__ void run(const Part &part)  // starts and ends with zeroed sums
    {
        const int phase = part.top * W_OUT & 7;
        next = put.at * HALF_RING + phase, taken = -phase, due = HALF_RING - phase;
        head<0>();
#pragma unroll 1
        for (int i = 0; i < part.periods; i++)
            body<0>();
        tail<0>();
        hand_out();
        while (due <= taken)
            give_half();
    }
};

}  // namespace
