// Floats as pairs of halves with a common scale: x 2^n = high + low / LOW.
//
// A half has 11 bits, so high and low have 22. The low half is stored LOW times as large, which
// keeps it normal wherever the high one is: numbers from 2^LEAST to 2^16 are held to 2^-19 of
// themselves, and those above 2^-14 to 2^-22. Products: x k = high high + (high low + low high) / LOW,
// of which the second is summed by itself; the omitted low low is below 2^-22.

#include <cuda_fp16.h>

namespace halves
{

constexpr float LOW = 2048;
constexpr int TO = 14;      // the largest number of an image or map is scaled to 2^TO ... 2^(TO + 1)
constexpr int LEAST = -17;  // exponent of the smallest number but zero that halves hold well
constexpr int NEVER = 1 << 20;  // the shift of weights that halves do not hold, which never fits

__host__ __device__ constexpr int bits(int n) { return n ? 1 + bits(n / 2) : 0; }

struct Pair {
    unsigned high, low;
};

__device__ __forceinline__ unsigned word_of(__half2 both) { return *(const unsigned *)&both; }

// The range of some numbers: the largest |x|, NaN if there is one, and the least but zero, as bits
// without the sign and less one, so that zero becomes the largest of all.
struct Range {
    float largest = 0;
    unsigned least = ~0u;

    __device__ __forceinline__ void add(float x)
    {
        asm("max.NaN.f32 %0, %0, %1;" : "+f"(largest) : "f"(fabsf(x)));
        least = min(least, 2 * __float_as_uint(x) - 1);
    }

    __device__ __forceinline__ void add(const Range &other)
    {
        add(other.largest);
        least = min(least, other.least);
    }

    // Of all lanes of a warp: absolute values are ordered as integers, with NaN above all.
    __device__ __forceinline__ void reduce()
    {
        largest = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(largest)));
        least = __reduce_min_sync(~0u, least);
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
               (least == ~0u || lowest - 127 + shift >= LEAST);
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

// Two numbers that are scaled.
__device__ __forceinline__ Pair split(float a, float b)
{
    const __half2 high = __floats2half2_rn(a, b);
    const float2 back = __half22float2(high);
    return {word_of(high), word_of(__floats2half2_rn((a - back.x) * LOW, (b - back.y) * LOW))};
}

__device__ __forceinline__ Pair split(float a, float b, float scale)
{
    return split(a * scale, b * scale);
}

}  // namespace halves
