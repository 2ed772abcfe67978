// wgmma (PTX ISA, wgmma.mma_async): a warpgroup multiplies 64 x 16 by 16 x N halves.
//
// A lane has N / 2 sums: d[4 j + 2 i + e] is of row 16 (warp % 4) + lane / 4 + 8 i and column
// 8 j + lane % 4 * 2 + e. Operands in shared memory are core matrices of 8 rows (or columns) x
// 16 bytes, not swizzled, so that they may begin at any 16 bytes. The left operand may be in
// registers, as that of mma.sync.

#pragma once

namespace wgmma
{

// Order the registers of products after what was written to them before.
__device__ __forceinline__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Wait until all groups of products but the last PENDING are done.
template <int PENDING> __device__ __forceinline__ void wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// Keep the compiler from using sums before this point.
template <int SUMS> __device__ __forceinline__ void settle(float (&d)[SUMS])
{
#pragma unroll
    for (int i = 0; i < SUMS; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

typedef unsigned long long Descriptor;

// An operand in shared memory; the distances in bytes to the other 8 of a depth of 16, and to the
// next 8 rows.
__device__ __forceinline__ Descriptor descriptor(unsigned address, int along_depth,
                                                 int along_rows = 128)
{
    return address >> 4 | (Descriptor)(along_depth >> 4) << 16 |
           (Descriptor)(along_rows >> 4) << 32;
}

// The operand that begins some bytes after another. A sum of 64 bits would take more instructions.
__device__ __forceinline__ Descriptor further(Descriptor from, int bytes)
{
    return from >> 32 << 32 | (unsigned)from + (bytes >> 4);
}

// d = a b, or with `add` d += a b.
template <int N> struct Product;

#define WGMMA_D8 "%0,%1,%2,%3"
#define WGMMA_D16 WGMMA_D8 ",%4,%5,%6,%7"
#define WGMMA_D24 WGMMA_D16 ",%8,%9,%10,%11"
#define WGMMA_D32 WGMMA_D24 ",%12,%13,%14,%15"
#define WGMMA_D40 WGMMA_D32 ",%16,%17,%18,%19"
#define WGMMA_D48 WGMMA_D40 ",%20,%21,%22,%23"
#define WGMMA_D56 WGMMA_D48 ",%24,%25,%26,%27"
#define WGMMA_D64 WGMMA_D56 ",%28,%29,%30,%31"
#define WGMMA_D72 WGMMA_D64 ",%32,%33,%34,%35"
#define WGMMA_D80 WGMMA_D72 ",%36,%37,%38,%39"
#define WGMMA_D88 WGMMA_D80 ",%40,%41,%42,%43"
#define WGMMA_D96 WGMMA_D88 ",%44,%45,%46,%47"
#define WGMMA_D104 WGMMA_D96 ",%48,%49,%50,%51"
#define WGMMA_D112 WGMMA_D104 ",%52,%53,%54,%55"
#define WGMMA_D120 WGMMA_D112 ",%56,%57,%58,%59"
#define WGMMA_D128 WGMMA_D120 ",%60,%61,%62,%63"
#define WGMMA_D136 WGMMA_D128 ",%64,%65,%66,%67"
#define WGMMA_D144 WGMMA_D136 ",%68,%69,%70,%71"
#define WGMMA_D152 WGMMA_D144 ",%72,%73,%74,%75"
#define WGMMA_D160 WGMMA_D152 ",%76,%77,%78,%79"
#define WGMMA_D168 WGMMA_D160 ",%80,%81,%82,%83"

#define WGMMA_S4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WGMMA_S8 WGMMA_S4(0)
#define WGMMA_S16 WGMMA_S8, WGMMA_S4(4)
#define WGMMA_S24 WGMMA_S16, WGMMA_S4(8)
#define WGMMA_S32 WGMMA_S24, WGMMA_S4(12)
#define WGMMA_S40 WGMMA_S32, WGMMA_S4(16)
#define WGMMA_S48 WGMMA_S40, WGMMA_S4(20)
#define WGMMA_S56 WGMMA_S48, WGMMA_S4(24)
#define WGMMA_S64 WGMMA_S56, WGMMA_S4(28)
#define WGMMA_S72 WGMMA_S64, WGMMA_S4(32)
#define WGMMA_S80 WGMMA_S72, WGMMA_S4(36)
#define WGMMA_S88 WGMMA_S80, WGMMA_S4(40)
#define WGMMA_S96 WGMMA_S88, WGMMA_S4(44)
#define WGMMA_S104 WGMMA_S96, WGMMA_S4(48)
#define WGMMA_S112 WGMMA_S104, WGMMA_S4(52)
#define WGMMA_S120 WGMMA_S112, WGMMA_S4(56)
#define WGMMA_S128 WGMMA_S120, WGMMA_S4(60)
#define WGMMA_S136 WGMMA_S128, WGMMA_S4(64)
#define WGMMA_S144 WGMMA_S136, WGMMA_S4(68)
#define WGMMA_S152 WGMMA_S144, WGMMA_S4(72)
#define WGMMA_S160 WGMMA_S152, WGMMA_S4(76)
#define WGMMA_S168 WGMMA_S160, WGMMA_S4(80)

// The numbers of the operands follow those of the N / 2 sums.
#define WGMMA(n, p0, p1, p2, p3, p4, p5)                                                           \
    template <> struct Product<n> {                                                                \
        static __device__ __forceinline__ void run(float *d, Descriptor a, Descriptor b, int add)  \
        {                                                                                          \
            asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #p2 ", 0;\n"                     \
                         "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {" WGMMA_D##n     \
                         "}, %" #p0 ", %" #p1 ", add, 1, 1, 0, 0;\n}"                              \
                         : WGMMA_S##n                                                              \
                         : "l"(a), "l"(b), "r"(add));                                              \
        }                                                                                          \
        static __device__ __forceinline__ void run(float *d, const unsigned (&a)[4], Descriptor b, \
                                                   int add)                                        \
        {                                                                                          \
            asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #p5 ", 0;\n"                     \
                         "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {" WGMMA_D##n     \
                         "}, {%" #p0 ", %" #p1 ", %" #p2 ", %" #p3 "}, %" #p4 ", add, 1, 1, 0;\n}" \
                         : WGMMA_S##n                                                              \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));          \
        }                                                                                          \
    };
WGMMA(8, 4, 5, 6, 7, 8, 9)
WGMMA(16, 8, 9, 10, 11, 12, 13)
WGMMA(24, 12, 13, 14, 15, 16, 17)
WGMMA(32, 16, 17, 18, 19, 20, 21)
WGMMA(40, 20, 21, 22, 23, 24, 25)
WGMMA(48, 24, 25, 26, 27, 28, 29)
WGMMA(56, 28, 29, 30, 31, 32, 33)
WGMMA(64, 32, 33, 34, 35, 36, 37)
WGMMA(72, 36, 37, 38, 39, 40, 41)
WGMMA(80, 40, 41, 42, 43, 44, 45)
WGMMA(88, 44, 45, 46, 47, 48, 49)
WGMMA(96, 48, 49, 50, 51, 52, 53)
WGMMA(104, 52, 53, 54, 55, 56, 57)
WGMMA(112, 56, 57, 58, 59, 60, 61)
WGMMA(120, 60, 61, 62, 63, 64, 65)
WGMMA(128, 64, 65, 66, 67, 68, 69)
WGMMA(136, 68, 69, 70, 71, 72, 73)
WGMMA(144, 72, 73, 74, 75, 76, 77)
WGMMA(152, 76, 77, 78, 79, 80, 81)
WGMMA(160, 80, 81, 82, 83, 84, 85)
WGMMA(168, 84, 85, 86, 87, 88, 89)

}  // namespace wgmma
