// per_layer_planes: a direct convolution, bound by writing y: stores whole planes at once.
//
// After register_gemm: a thread keeps MAPS maps of WIDE pixels of a row in registers, so
// that WIDE + K - 1 loads are used for MAPS WIDE K multiply-adds, whose weights are uniform
// operands from constant memory. Planes are not aligned to sectors, so a block collects MAPS
// planes (or bands of ROWS rows) in shared memory and stores them in one copy.
// thread t of a block -> pixels WIDE (t % STRIPS) + 0.. of row t / STRIPS, MAPS maps
// Per output: C K (1 + (K - 1) / WIDE) / MAPS loads, C K K multiply-adds.

#if !defined(MAPS) || !defined(WIDE) || !defined(ROWS) || !defined(BLOCKS)
#error "MAPS, WIDE, ROWS and BLOCKS are set by project/plans/per_layer.py"
#endif
#if !defined(SHAPE_C) || !defined(SHAPE_M) || !defined(SHAPE_K) || !defined(SHAPE_H) || \
    !defined(SHAPE_W)
#error "SHAPE_C, SHAPE_M, SHAPE_K, SHAPE_H and SHAPE_W are set by project/plans/per_layer.py"
#endif

#include "parts/per_layer.cuh"

constexpr int C = SHAPE_C, M = SHAPE_M, K = SHAPE_K, H = SHAPE_H, W = SHAPE_W;
constexpr int H_OUT = H - K + 1, W_OUT = W - K + 1;
constexpr int STRIPS = (W_OUT + WIDE - 1) / WIDE, ITEMS = ROWS * STRIPS;
constexpr int THREADS = (ITEMS + 31) / 32 * 32;
constexpr int BANDS = (H_OUT + ROWS - 1) / ROWS, HEIGHT = ROWS + K - 1;
constexpr bool EVEN = BANDS * ROWS == H_OUT;  // all bands have ROWS rows
constexpr int PATCH = HEIGHT * W, PLANE = ROWS * W_OUT;
constexpr bool TWOS = EVEN && H * W % 2 == 0 && ROWS * W % 2 == 0 && PATCH % 2 == 0;
constexpr bool FOURS = EVEN && H * W % 4 == 0 && ROWS * W % 4 == 0 && PATCH % 4 == 0;
constexpr int FLOATS = FOURS ? 4 : TWOS ? 2 : 1;
constexpr int TILE = (PATCH + WIDE + K + 3) / 4 * 4;
constexpr int GROUPS = (M + MAPS - 1) / MAPS, LAST = M - (GROUPS - 1) * MAPS;
// The size of bulk stores is a multiple of 16 bytes.
[[maybe_unused]] constexpr bool BULK = BANDS == 1
                                           ? MAPS * PLANE % 4 == 0 && LAST * PLANE % 4 == 0
                                           : EVEN && PLANE % 4 == 0 && H_OUT * W_OUT % 4 == 0;
constexpr bool PAIRS = WIDE % 2 == 0;

__constant__ float weights[GROUPS * MAPS * C * K * K];

// Copy the rows of a channel that a task, a band of an image, needs.
__device__ __forceinline__ void fetch(float *tile, const float *x, int task, int c)
{
    const int b = task / BANDS, top = task % BANDS * ROWS;
    const float *from = x + ((size_t)b * C + c) * (H * W) + top * W;
    const int there = (EVEN ? HEIGHT : min(HEIGHT, H - top)) * W / FLOATS;
#pragma unroll 4
    for (int i = threadIdx.x; i < there; i += THREADS)
        copy<FLOATS>(tile + FLOATS * i, from + FLOATS * i);
}

// Add a channel's products. The weights are those of maps starting at `first`.
__device__ __forceinline__ void add(float (&sums)[MAPS][WIDE], const float *from, int first, int c)
{
#pragma unroll
    for (int u = 0; u < K; u++) {
        float in[(WIDE + K) / 2 * 2];
#pragma unroll
        for (int i = 0; i < WIDE + K - 1; i += 1 + (PAIRS && W % 2 == 0))
            if (PAIRS && W % 2 == 0) {
                const float2 two = *(const float2 *)(from + u * W + i);
                in[i] = two.x, in[i + 1] = two.y;
            } else
                in[i] = from[u * W + i];
#pragma unroll
        for (int v = 0; v < K; v++)
#pragma unroll
            for (int m = 0; m < MAPS; m++)
#pragma unroll
                for (int i = 0; i < WIDE; i++)
                    sums[m][i] += weights[((first + m) * C + c) * K * K + u * K + v] * in[i + v];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    conv_per_layer_planes(float *__restrict__ y, const float *__restrict__ x, int B)
{
    extern __shared__ float4 shared[];
    float *tiles = (float *)shared, *stage = tiles + 2 * TILE;
    const int item = threadIdx.x < ITEMS ? threadIdx.x : 0;
    const int row = item / STRIPS, strip = item % STRIPS;
    int parity = 0;

    fetch(tiles, x, blockIdx.x, 0);
    for (int task = blockIdx.x; task < B * BANDS; task += gridDim.x) {
        const int b = task / BANDS, top = task % BANDS * ROWS;
        const int pixels = (EVEN ? ROWS : min(ROWS, H_OUT - top)) * W_OUT;
#pragma unroll 1
        for (int first = 0; first < M; first += MAPS) {
            float sums[MAPS][WIDE] = {};
#pragma unroll 1
            for (int c = 0; c < C; c++) {
                if (C > 1 || first == 0) {  // a single channel is loaded once for all maps
                    copied();
                    __syncthreads();
                    const bool last = C == 1 || (c + 1 == C && first + MAPS >= M);
                    const int next = last ? task + gridDim.x : task;
                    if (next < B * BANDS)
                        fetch(tiles + (parity ^ 1) * TILE, x, next, c + 1 < C ? c + 1 : 0);
                    parity ^= 1;
                }
                add(sums, tiles + (parity ^ 1) * TILE + row * W + strip * WIDE, first, c);
            }

#if __CUDA_ARCH__ >= 900
            if (BULK && threadIdx.x == 0)  // the stage has been read
                asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
            __syncthreads();
            float *put = stage + row * W_OUT + strip * WIDE;
#pragma unroll
            for (int m = 0; m < MAPS; m++)
#pragma unroll
                for (int i = 0; i < WIDE; i += 1 + (PAIRS && W_OUT % 2 == 0)) {
                    const bool is = (STRIPS - 1) * WIDE + i < W_OUT || strip < STRIPS - 1;
                    if (threadIdx.x >= ITEMS || !is)
                        continue;
                    if (PAIRS && W_OUT % 2 == 0)
                        *(float2 *)(put + m * PLANE + i) = make_float2(sums[m][i], sums[m][i + 1]);
                    else
                        put[m * PLANE + i] = sums[m][i];
                }
            float *to = y + (((size_t)b * M + first) * H_OUT + top) * W_OUT;
            const int maps = min(MAPS, M - first);
#if __CUDA_ARCH__ >= 900
            if (BULK) {
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                __syncthreads();
                for (int m = 0; threadIdx.x == 0 && m < (BANDS == 1 ? 1 : maps); m++)
                    asm volatile("cp.async.bulk.global.shared::cta.bulk_group "
                                 "[%0], [%1], %2;" ::"l"(to + m * (H_OUT * W_OUT)),
                                 "r"((unsigned)__cvta_generic_to_shared(stage + m * PLANE)),
                                 "r"(4 * (BANDS == 1 ? maps * PLANE : pixels))
                                 : "memory");
                if (threadIdx.x == 0)
                    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
                continue;
            }
#endif
            __syncthreads();
            for (int m = 0; m < (BANDS == 1 ? 1 : maps); m++) {
                float *plane = to + m * (H_OUT * W_OUT);
                const int count = BANDS == 1 ? maps * PLANE : pixels;
                const int before = (size_t)plane / 4 % 32;  // whole sectors from then on
#pragma unroll 4
                for (int i = (int)threadIdx.x - before; i < count; i += THREADS)
                    if (i >= 0)
                        plane[i] = stage[m * PLANE + i];
            }
        }
    }
#if __CUDA_ARCH__ >= 900
    if (BULK && threadIdx.x == 0)
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
}
