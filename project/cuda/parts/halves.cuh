// Floats as pairs of halves with a common scale: x 2^n = high + low / LOW.
//
// A half has 11 bits, so high and low have 22. The low half is stored LOW times as large, which
// keeps it normal wherever the high one is: numbers from 2^LEAST to 2^16 are held to 2^-19 of
// themselves, and those above 2^-14 to 2^-22. Products: x k = high high + (high low + low high) / LOW,
// of which the second is summed by itself; the omitted low low is below 2^-22.

#pragma once

#include <cuda_fp16.h>

namespace halves
{

constexpr float LOW = 2048;
constexpr int TO = 14;  // the largest number of an image or map is scaled to 2^TO ... 2^(TO + 1)
constexpr int LEAST = -17;      // exponent of the smallest number but zero that halves hold well
constexpr int NEVER = 1 << 20;  // the shift of weights that halves do not hold, which never fits

__host__ __device__ constexpr int bits(int n) { return n ? 1 + bits(n / 2) : 0; }

struct Pair {
    unsigned high, low;
};

__device__ __forceinline__ unsigned word_of(__half2 both) { return *(const unsigned *)&both; }

// Of a warp's numbers, which are not negative: as integers, floats are ordered, NaN above all.
__device__ __forceinline__ float largest_of_warp(float x)
{
    return __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(x)));
}

__device__ __forceinline__ float least_of_warp(float x)
{
    return __uint_as_float(__reduce_min_sync(~0u, __float_as_uint(x)));
}

// The larger absolute value, NaN if there is one.
__device__ __forceinline__ float larger(float a, float b)
{
    float most;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(fabsf(a)), "f"(fabsf(b)));
    return most;
}

// The bits of |x|, ordered, of which zero has the largest.
__device__ __forceinline__ unsigned nonzero(float x) { return 2 * __float_as_uint(x) - 1; }

// Of some numbers the largest |x| and the least but zero.
struct Range {
    float largest = 0;
    unsigned least = nonzero(0);

    __device__ __forceinline__ void add(float x)
    {
        largest = larger(largest, x);
        least = min(least, nonzero(x));
    }

    __device__ __forceinline__ void add(const Range &other)
    {
        largest = larger(largest, other.largest);
        least = min(least, other.least);
    }

    __device__ __forceinline__ void reduce()  // over a warp
    {
        largest = largest_of_warp(largest);
        least = __reduce_min_sync(~0u, least);
    }

    // The ratio of the largest to the smallest but zero.
    __device__ __forceinline__ float contrast() const
    {
        return largest / __uint_as_float(least / 2 + 1);
    }

    // The exponent of the scale that takes the largest to 2^to.
    __device__ __forceinline__ int shift(int to = TO) const
    {
        return largest ? min(127 + to - (int)(__float_as_uint(largest) >> 23), 127) : 0;
    }

    // Whether halves hold these numbers with a scale.
    __device__ __forceinline__ bool held(int shift) const
    {
        const int lowest = least + 1 >> 24, highest = __float_as_uint(largest) >> 23;
        return highest < 255 && highest - 127 + shift < 16 &&
               (least == nonzero(0) || lowest - 127 + shift >= LEAST);
    }
};

__device__ __forceinline__ float power_of_two(int n) { return __uint_as_float((n + 127) << 23); }

// Whether sums of TERMS products can be scaled back, whose shifts of an image and a map add up to
// these bounds: sums do not overflow, and 2^-shifts is a normal number.
template <int TERMS> __device__ __forceinline__ bool fits(int least_shifts, int most_shifts)
{
    constexpr int LARGEST = 16 + 16 + bits(TERMS);
    return least_shifts >= LARGEST - 127 && most_shifts <= 126;
}

// A number that is scaled: its high and its low half.
__device__ __forceinline__ __half2 split(float x)
{
    const __half high = __float2half_rn(x);
    return {high, __float2half_rn(fmaf(__half2float(high), -LOW, x * LOW))};
}

// Two numbers that are scaled.
__device__ __forceinline__ Pair split(float a, float b)
{
    const __half2 high = __floats2half2_rn(a, b);
    const float2 back = __half22float2(high);
    return {word_of(high),
            word_of(__floats2half2_rn(fmaf(back.x, -LOW, a * LOW), fmaf(back.y, -LOW, b * LOW)))};
}

__device__ __forceinline__ Pair split(float a, float b, float scale)
{
    return split(a * scale, b * scale);
}

}  // namespace halves
