// dense_split: y = x weights^T on tensor cores, with operands split into two halves
//
// A scaled operand is the sum of two halves; three of the four products of these are computed. Two
// warpgroups multiply 64 images each by 160 outputs: x is read from shared memory to registers and
// split there; the weights, split and packed by the host, are in shared memory in wgmma's layout. A
// third warpgroup copies both to shared memory.
// The chunks of inputs of all tiles of images are divided evenly among the blocks; the partial sums
// of a tile are stored separately, to be added in a fixed order.
// Per multiply-add: three of half precision. After CHAIN chunks, sums are added to others in
// registers, since tensor cores truncate their sums.

#if !defined(STAGES) || !defined(OUTPUTS) || !defined(DEPTH) || !defined(CHAIN)
#error "STAGES, OUTPUTS, DEPTH and CHAIN are set by project/gpu/forward.py"
#endif

#include "parts/mbarrier.cuh"
#include "parts/wgmma.cuh"
#include <cuda_fp16.h>

namespace
{

constexpr int TILE = 128;         // images
constexpr int PITCH = 4 * DEPTH;  // bytes of an image in a stage
constexpr int X_BYTES = TILE * PITCH;
constexpr int HALF_BYTES = OUTPUTS * DEPTH * 2, WEIGHT_BYTES = 2 * HALF_BYTES;
constexpr int STAGE_BYTES = X_BYTES + WEIGHT_BYTES;
constexpr int STEPS = DEPTH / 16;
constexpr int WARPGROUP = 128, CONSUMERS = 2, THREADS = (CONSUMERS + 1) * WARPGROUP;
constexpr int UNITS = DEPTH / 4;  // units of 16 bytes, which a thread copies
constexpr int STRIDE = WARPGROUP / UNITS, LINES = TILE / STRIDE;
static_assert(OUTPUTS == 160 && DEPTH == 32 && CHAIN % 2 == 0);

// Copy weights; the barrier expects their bytes.
__device__ void copy(unsigned to, const void *from, unsigned bytes, unsigned barrier)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

__device__ void copy_unit(unsigned to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

__device__ void arrive_after_copies(unsigned barrier)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

__device__ float power_of_two(int exponent) { return __int_as_float((exponent + 127) << 23); }

struct Split {
    unsigned high[STEPS][4], low[STEPS][4];
};

__device__ void split(unsigned &high, unsigned &low, float a, float b)
{
    const __half2 h = __floats2half2_rn(a, b);
    const float2 back = __half22float2(h);
    const __half2 l = __floats2half2_rn(a - back.x, b - back.y);
    high = reinterpret_cast<const unsigned &>(h);
    low = reinterpret_cast<const unsigned &>(l);
}

struct Line {  // a block's share of the work
    int images, inputs, chunks, tile, chunk, work;
    unsigned stages, full, empty;

    __device__ unsigned stage(int n) const { return stages + n % STAGES * STAGE_BYTES; }
    __device__ unsigned filled(int n) const { return full + 8 * (n % STAGES); }
    __device__ unsigned freed(int n) const { return empty + 8 * (n % STAGES); }
    __device__ void next()
    {
        if (++chunk == chunks) {
            chunk = 0;
            tile++;
        }
    }
};

// Units 0 to 3 and 4 to 7 of odd images are swapped, to avoid bank conflicts.
__device__ int placed(int unit, int image) { return 16 * (unit ^ image % 2 * 4); }

__device__ void bring(Line line, const float *x, const unsigned char *weights, int thread)
{
    const int unit = thread % UNITS, first = thread / UNITS;
    const unsigned mine = first * PITCH + placed(unit, first);
    const float *from[LINES];
    for (int n = 0; n < line.work; n++) {
        if (n == 0 || line.chunk == 0)
#pragma unroll
            for (int i = 0; i < LINES; i++) {
                const int image = min(line.tile * TILE + first + i * STRIDE, line.images - 1);
                from[i] = x + (size_t)image * line.inputs + 4 * unit;
            }
        if (n >= STAGES)
            wait(line.freed(n), (n / STAGES - 1) & 1);
        const int input = line.chunk * DEPTH;
        if (thread == 0)
            copy(line.stage(n) + X_BYTES, weights + (size_t)line.chunk * WEIGHT_BYTES, WEIGHT_BYTES,
                 line.filled(n));
        if (input + 4 * unit < line.inputs)
#pragma unroll
            for (int i = 0; i < LINES; i++)
                copy_unit(line.stage(n) + mine + i * STRIDE * PITCH, from[i] + input);
        arrive_after_copies(line.filled(n));
        line.next();
    }
}

struct Multiplier {
    Line line;
    const unsigned char *memory;  // the stages
    float *parts;
    int block, each;  // chunks per block
    int row, t;       // the thread's first image of the tile, its index among four
    float up, down;
    float sums[80], chain[80];

    // Wait for chunk n, and split this thread's elements of it.
    __device__ void take(Split &a, int n, int chunk)
    {
        wait(line.filled(n), n / STAGES & 1);
        const unsigned char *from = memory + n % STAGES * STAGE_BYTES + row * PITCH;
        // Memory beyond the last input is undefined.
        const int left = chunk + 1 < line.chunks ? DEPTH : line.inputs - chunk * DEPTH - 4 * t;
#pragma unroll
        for (int s = 0; s < STEPS; s++)
#pragma unroll
            for (int lower = 0; lower < 2; lower++) {
                float4 v = *reinterpret_cast<const float4 *>(from + 8 * lower * PITCH +
                                                             placed(4 * s + t, row));
                if (left <= 16 * s)
                    v = make_float4(0, 0, 0, 0);
                split(a.high[s][lower], a.low[s][lower], v.x * up, v.y * up);
                split(a.high[s][lower + 2], a.low[s][lower + 2], v.z * up, v.w * up);
            }
    }

    // Start the products of chunk n; `add` to the current sums or start new ones.
    __device__ void begin(const Split &a, int n, int add)
    {
        const unsigned w = line.stage(n) + X_BYTES;
        using Product = wgmma::Product<OUTPUTS>;
        const auto of = [](unsigned at) { return wgmma::descriptor(at, OUTPUTS * 16); };
        wgmma::fence();
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            const unsigned at = w + s * OUTPUTS * 32;
            Product::run(chain, a.low[s], of(at), s > 0 ? 1 : add);
            Product::run(chain, a.high[s], of(at + HALF_BYTES), 1);
        }
#pragma unroll
        for (int s = 0; s < STEPS; s++)
            Product::run(chain, a.high[s], of(w + s * OUTPUTS * 32), 1);
        wgmma::commit();
    }

    __device__ void free_stage(int n)
    {
        if (threadIdx.x % 32 == 0)
            arrive(line.freed(n));
    }

    // Multiply COUNT chunks starting at n, the first of which is in `a`; leave the next one there.
    // While a chunk is multiplied, the next one is split.
    template <int COUNT> __device__ void run(Split &a, Split &b, int n)
    {
        begin(a, n, 0);
#pragma unroll
        for (int i = 1; i < COUNT; i++) {
            Split &next = i % 2 ? b : a;
            take(next, n + i, line.chunk + i);
            begin(next, n + i, 1);
            wgmma::wait<1>();
            free_stage(n + i - 1);
        }
        const int end = n + COUNT;
        const bool last = end == line.work;
        line.chunk += COUNT;
        const bool tile_ends = line.chunk == line.chunks;
        if (COUNT > 1 && !last)
            take(a, end, tile_ends ? 0 : line.chunk);
        wgmma::wait<0>();
        free_stage(end - 1);
        if (COUNT == 1 && !last)
            take(a, end, tile_ends ? 0 : line.chunk);
#pragma unroll
        for (int i = 0; i < 80; i++)
            sums[i] += chain[i];
        if (tile_ends || last)
            write();
        if (tile_ends) {
            line.chunk = 0;
            line.tile++;
        }
    }

    __device__ void write()
    {
        const int image = line.tile * TILE + row;
        const int part = block - (int)((long long)line.tile * line.chunks / each);
        float *to = parts + ((size_t)part * line.images + image) * OUTPUTS + 2 * t;
#pragma unroll
        for (int lower = 0; lower < 2; lower++)
            if (image + 8 * lower < line.images)
#pragma unroll
                for (int i = 0; i < 20; i++)
                    *reinterpret_cast<float2 *>(to + 8 * lower * OUTPUTS + 8 * i) = make_float2(
                        sums[4 * i + 2 * lower] * down, sums[4 * i + 2 * lower + 1] * down);
        clear();
    }

    __device__ void clear()
    {
#pragma unroll
        for (int i = 0; i < 80; i++)
            sums[i] = 0;
    }
};

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    dense_split(float *__restrict__ parts, const float *__restrict__ x,
                const unsigned char *__restrict__ weights, int images, int inputs, int chunks,
                int each, int x_exponent, int exponent)
{
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ __align__(8) unsigned long long barriers[2 * STAGES];
    const long long begun = (long long)blockIdx.x * each;
    const long long left = (long long)((images + TILE - 1) / TILE) * chunks - begun;
    Line line;
    line.images = images, line.inputs = inputs, line.chunks = chunks;
    line.tile = (int)(begun / chunks), line.chunk = (int)(begun % chunks);
    line.work = (int)max(0ll, min((long long)each, left));
    line.stages = shared_address(memory);
    line.full = shared_address(barriers), line.empty = line.full + 8 * STAGES;

    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            expect(line.filled(i), 1 + WARPGROUP);
            expect(line.freed(i), CONSUMERS * WARPGROUP / 32);
        }
        expected();
    }
    __syncthreads();

    const int thread = threadIdx.x % WARPGROUP, lane = thread % 32;
    if (threadIdx.x >= CONSUMERS * WARPGROUP) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        bring(line, x, weights, thread);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        Multiplier m;
        m.line = line, m.memory = memory, m.parts = parts;
        m.block = blockIdx.x, m.each = each;
        m.row = threadIdx.x / WARPGROUP * 64 + thread / 32 * 16 + lane / 4, m.t = lane % 4;
        m.up = power_of_two(x_exponent), m.down = power_of_two(exponent);
        m.clear();
        Split a, b;
        if (line.work > 0)
            m.take(a, 0, line.chunk);
        for (int n = 0; n < line.work;)
            if (n + CHAIN <= line.work && m.line.chunk + CHAIN <= line.chunks) {
                m.run<CHAIN>(a, b, n);
                n += CHAIN;
            } else {
                m.run<1>(a, b, n);
                n++;
            }
    }
}
