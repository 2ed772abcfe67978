// tensor_tf32: the implicit GEMM on tensor cores, with operands rounded to tf32.
//
// After implicit_gemm: one mma.sync multiplies 16 pixels by 8 maps at a depth of 8.
// Operands keep 11 of a float's 24 bits and its whole range; sums are floats.
// a warp of a block -> 16 TILES pixels of a strip, 8 COLUMNS maps: tensor.cuh
// Per output: C K K / 8 words from shared memory at 24 maps. Multiply-adds include padding
// to 8 maps and a depth of 8, a factor of 4 / 3 and 32 / 25 for conv1.

#if !defined(WARPS) || !defined(TILES) || !defined(COLUMNS) || !defined(ROWS) || !defined(UNITS)
#error "WARPS, TILES, COLUMNS, ROWS and UNITS are set by project/plans/tensor_rungs.py"
#endif
#if !defined(SHAPE_M) || !defined(SHAPE_C) || !defined(SHAPE_H) || !defined(SHAPE_W) || \
    !defined(SHAPE_K)
#error "the shape but its images is set by project/plans/tensor_rungs.py"
#endif

#include "parts/tensor.cuh"

struct Tf32 {
    using Input = float;
    static constexpr int UNIT = 1, PARTS = 1, SPAN = 1 << 16;

    struct Sum {
        float of[4];
    };

    static __device__ unsigned pack(const float *value, int, int)
    {
        unsigned rounded;
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(*value));
        return rounded;
    }

    static __device__ bool exotic(unsigned word) { return (word & 0x7f800000) == 0x7f800000; }

    static __device__ void take(unsigned word, unsigned (&parts)[1]) { parts[0] = word; }

    static __device__ void multiply(Sum &sum, const unsigned (&a)[4][1], const unsigned (&b)[2][1])
    {
        asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(sum.of[0]), "+f"(sum.of[1]), "+f"(sum.of[2]), "+f"(sum.of[3])
            : "r"(a[0][0]), "r"(a[1][0]), "r"(a[2][0]), "r"(a[3][0]), "r"(b[0][0]), "r"(b[1][0]));
    }

    static __device__ float total(const Sum &sum, int e) { return sum.of[e]; }
};

extern "C" __global__ void __launch_bounds__(THREADS)
    conv_tensor_tf32(float *__restrict__ y, const float *__restrict__ x,
                     const float *__restrict__ k, int B)
{
    convolve<Tf32>(y, x, k, B);
}
