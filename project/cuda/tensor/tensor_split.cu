// tensor_split: fp32's accuracy on tensor cores, with operands split into two tf32 parts.
//
// After tensor_tf32: a = high + low to 23 bits, so a b is about high high + high low + low
// high; the omitted low low is smaller than a float's last bit. Tensor cores add less
// exactly than FMA units: the small products have separate sums, and the sum of the large
// one is added to another outside after every SPAN products.
// a warp of a block -> 16 TILES pixels of a strip, 8 COLUMNS maps: tensor.cuh
// Per output: the loads of tensor_tf32, three times its multiply-adds.

#if !defined(WARPS) || !defined(TILES) || !defined(COLUMNS) || !defined(ROWS) || \
    !defined(UNITS)
#error "WARPS, TILES, COLUMNS, ROWS and UNITS are set by project/plans/tensor_rungs.py"
#endif
#if !defined(SHAPE_M) || !defined(SHAPE_C) || !defined(SHAPE_H) || !defined(SHAPE_W) || \
    !defined(SHAPE_K)
#error "the shape but its images is set by project/plans/tensor_rungs.py"
#endif

#include "parts/tensor.cuh"

struct Split {
    using Input = float;
    static constexpr int UNIT = 1, PARTS = 2, SPAN = 104;

    struct Sum {
        float large[4], small[4];
    };

    static __device__ unsigned pack(const float *value, int, int)
    {
        return __float_as_uint(*value);
    }

    // Whether the high part is Inf or NaN, so that the low part would be NaN.
    static __device__ bool exotic(unsigned word)
    {
        return ((word & 0x7fffffff) + 0x1000) >= 0x7f800000;
    }

    // Round to nearest tf32; the remainder is exact, and tensor cores truncate it to 11 bits.
    static __device__ void take(unsigned word, unsigned (&parts)[2])
    {
        parts[0] = (word + 0x1000) & 0xffffe000;
        parts[1] = __float_as_uint(__uint_as_float(word) - __uint_as_float(parts[0]));
    }

    static __device__ void multiply(float (&sum)[4], const unsigned (&a)[4][2], int part,
                                    const unsigned (&b)[2][2], int of_b)
    {
        asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
            : "r"(a[0][part]), "r"(a[1][part]), "r"(a[2][part]), "r"(a[3][part]),
              "r"(b[0][of_b]), "r"(b[1][of_b]));
    }

    static __device__ void multiply(Sum &sum, const unsigned (&a)[4][2],
                                    const unsigned (&b)[2][2])
    {
        multiply(sum.large, a, 0, b, 0);
        multiply(sum.small, a, 0, b, 1);
        multiply(sum.small, a, 1, b, 0);
    }

    static __device__ float total(const Sum &sum, int e)
    {
        return sum.large[e] + sum.small[e];
    }
};

extern "C" __global__ void __launch_bounds__(THREADS)
    conv_tensor_split(float *__restrict__ y, const float *__restrict__ x,
                      const float *__restrict__ k, int B)
{
    convolve<Split>(y, x, k, B);
}
