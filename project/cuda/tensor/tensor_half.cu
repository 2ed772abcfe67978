// tensor_half: the implicit GEMM on tensor cores, for x and k stored as halves.
//
// After tensor_tf32: the same mantissa in half the bytes, and one mma.sync has a depth of
// 16. A word holds the same pixel of two channels, so every tap of a window is a word.
// a warp of a block -> 16 TILES pixels of a strip, 8 COLUMNS maps: tensor.cuh
// Per output: C K K / 16 words from shared memory at 24 maps. Multiply-adds include the
// padding: an odd channel, such as conv1's only one, is paired with zeros.

#if !defined(WARPS) || !defined(TILES) || !defined(COLUMNS) || !defined(ROWS) || !defined(UNITS)
#error "WARPS, TILES, COLUMNS, ROWS and UNITS are set by project/plans/tensor_rungs.py"
#endif
#if !defined(SHAPE_M) || !defined(SHAPE_C) || !defined(SHAPE_H) || !defined(SHAPE_W) || \
    !defined(SHAPE_K)
#error "the shape but its images is set by project/plans/tensor_rungs.py"
#endif

#include "parts/tensor.cuh"
#include <cuda_fp16.h>

struct Half {
    using Input = __half;
    static constexpr int UNIT = 2, PARTS = 1, SPAN = 1 << 16;

    struct Sum {
        float of[4];
    };

    // Two channels, `stride` apart; the last odd one is paired with zero.
    static __device__ unsigned pack(const __half *value, int stride, int left)
    {
        const unsigned low = __half_as_ushort(*value);
        return left > 1 ? low | __half_as_ushort(value[stride]) << 16 : low;
    }

    static __device__ bool exotic(unsigned word)
    {
        return (word & 0x7c00) == 0x7c00 || (word & 0x7c000000) == 0x7c000000;
    }

    static __device__ void take(unsigned word, unsigned (&parts)[1]) { parts[0] = word; }

    static __device__ void multiply(Sum &sum, const unsigned (&a)[4][1], const unsigned (&b)[2][1])
    {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(sum.of[0]), "+f"(sum.of[1]), "+f"(sum.of[2]), "+f"(sum.of[3])
            : "r"(a[0][0]), "r"(a[1][0]), "r"(a[2][0]), "r"(a[3][0]), "r"(b[0][0]), "r"(b[1][0]));
    }

    static __device__ float total(const Sum &sum, int e) { return sum.of[e]; }
};

extern "C" __global__ void __launch_bounds__(THREADS)
    conv_tensor_half(float *__restrict__ y, const __half *__restrict__ x,
                     const __half *__restrict__ k, int B)
{
    convolve<Half>(y, x, k, B);
}
