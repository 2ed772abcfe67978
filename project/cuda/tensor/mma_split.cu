// mma_split: persistent blocks, three products of halves on tensor cores since Ampere.
//
// After tensor_split: operands are pairs of halves (halves.cuh), at twice the rate of tf32, and
// are split once. A block keeps its maps' weights, and takes band after band: BAND output pixels
// of an image, which may begin within a row. The next band's input arrives by cp.async while this
// one is multiplied. A unit of depth is 16 bytes, 8 channels of a tap or 4 of two columns, so that
// ldmatrix reads fragments at the sum of a pixel's and a unit's address. Maps and bands have
// scales; bands that halves do not hold are computed directly.
// a warp -> 16 TILES pixels of every n-th band, 8 COLUMNS maps
// Per output: 3 C K K products, 2048 per instruction.

#include "parts/direct.cuh"
#include "parts/halves.cuh"

#if !defined SHAPE_M || !defined SHAPE_C || !defined SHAPE_H || !defined SHAPE_W || \
    !defined SHAPE_K || !defined WARPS || !defined TILES || !defined COLUMNS || !defined BLOCKS
#error "the shape, WARPS, TILES, COLUMNS and BLOCKS are set by project/plans/mma_split.py"
#endif

namespace
{

using namespace halves;
constexpr int over(int a, int b) { return (a + b - 1) / b; }

constexpr int M = SHAPE_M, C = SHAPE_C, H = SHAPE_H, W = SHAPE_W, K = SHAPE_K;
constexpr int H_OUT = H - K + 1, W_OUT = W - K + 1, TAPS = K * K;
constexpr int PLANE_IN = H * W, PLANE_OUT = H_OUT * W_OUT;
constexpr int THREADS = 32 * WARPS, MAPS = 8 * COLUMNS, PARTS = over(M, MAPS);
// The channels in groups of 8, and a rest of up to 4, of which a unit has two columns.
constexpr int OCTETS = (C + 3) / 8, REST = C > 8 * OCTETS, GROUPS = OCTETS + REST;
constexpr int PAIRS = over(K, 2), UNITS = OCTETS * TAPS + REST * K * PAIRS;
constexpr int STEPS = over(UNITS, 2);  // of 16 products

// Tensor cores truncate sums: after SPAN steps these are added to others.
constexpr int SPAN = STEPS <= 32 ? STEPS : 20;

constexpr int BAND = 16 * TILES * WARPS, BANDS = over(PLANE_OUT, BAND);
constexpr int ROWS = (BAND + W_OUT - 2) / W_OUT + 1;         // of output, at most
constexpr int DEEP = (ROWS < H_OUT ? ROWS : H_OUT) + K - 1;  // of input
constexpr int EACH = over(DEEP * W, THREADS);  // pixels of a channel that a thread splits

// 8 pixels are in different banks even if they are the end of a row and the start of the next.
constexpr int PITCH = W + (8 - (K - 1) % 8) % 8, PLANE = DEEP * PITCH;
constexpr int LOWER = GROUPS * PLANE;  // from high to low
struct Shared {
    uint4 weights[STEPS * COLUMNS * 32];  // a lane's words: of two units, high and low
    uint4 pixels[2 * LOWER];              // high and low
    int maps[MAPS];                       // the shift of each map's scale
    int offsets[2 * (STEPS + 1)];         // of a step's units from their pixel, in bytes
    Range ranges[WARPS];
    float raw[C][DEEP * W];  // as in memory; a thread copies what it splits
};

__device__ unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

// 16 pixels at two units, each of 8 pixels at a unit from the addresses of 8 lanes.
__device__ uint4 load(unsigned from)
{
    uint4 to;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to.x), "=r"(to.y), "=r"(to.z), "=r"(to.w)
                 : "r"(from));
    return to;
}

// 16 pixels by 8 maps, 16 deep.
__device__ void multiply(float (&sum)[4], const uint4 &a, unsigned b0, unsigned b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

// A unit of depth: its group of channels, its row and first column of the window.
struct Unit {
    int group, row, column;
    __device__ explicit Unit(int u)
    {
        const int taps = u - OCTETS * TAPS;  // of the rest
        group = taps < 0 ? u / TAPS : OCTETS;
        row = taps < 0 ? u % TAPS / K : taps / PAIRS;
        column = taps < 0 ? u % K : taps % PAIRS * 2;
    }
    // The unit's i-th weight of a map; zeros beyond the window, the channels and the units.
    __device__ float weight(const float *map, int i) const
    {
        const int c = 8 * group + (group < OCTETS ? i : i % 4);
        const int v = column + (group < OCTETS ? 0 : i / 4);
        return row < K && v < K && c < C ? map[c * TAPS + row * K + v] : 0;
    }
};

// Pack the weights of a block's maps, of which `maps` exist, and the offsets of units.
__device__ void pack_weights(Shared &s, const float *k, int maps)
{
    const int lane = threadIdx.x % 32;
    for (int m = threadIdx.x / 32; m < MAPS; m += WARPS) {
        const float *const map = k + m * C * TAPS;
        Range range;
        for (int i = lane; i < (m < maps ? C * TAPS : 0); i += 32)
            range.add(map[i]);
        range.reduce();
        const int shift = range.shift();
        if (lane == 0)
            s.maps[m] = range.held(shift) ? shift : NEVER;
#pragma unroll 4
        for (int i = lane; i < STEPS * 8; i += 32) {
            const Unit unit(i / 4);
            const float a = m < maps ? unit.weight(map, i % 4 * 2) : 0;
            const float b = m < maps ? unit.weight(map, i % 4 * 2 + 1) : 0;
            const Pair both = split(a, b, power_of_two(shift));
            const int at = ((i / 8 * COLUMNS + m / 8) * 32 + m % 8 * 4 + i % 4) * 4 + i / 4 % 2;
            ((unsigned *)s.weights)[at] = both.high;
            ((unsigned *)s.weights)[at + 2] = both.low;
        }
    }
    for (int i = threadIdx.x; i < 2 * (STEPS + 1); i += THREADS) {
        const Unit u(i);
        s.offsets[i] = i < UNITS ? (u.group * PLANE + u.row * PITCH + u.column) * 16 : 0;
    }
}

struct Band {
    int image, pixel, row, size;  // first output pixel and its row; pixels of input in a channel
    __device__ explicit Band(int i) : image(i / BANDS), pixel(i % BANDS * BAND)
    {
        row = pixel / W_OUT;
        size = min(DEEP, H - row) * W;
    }
};

// Begin to copy a band's input.
__device__ void copy(Shared &s, const float *x, int i)
{
    const Band band(i);
    const float *const from = x + (size_t)band.image * C * PLANE_IN + band.row * W;
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        const int at = threadIdx.x + j * THREADS;
        if (at < band.size) {
#pragma unroll
            for (int c = 0; c < C; c++)
                asm volatile(
                    "cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(&s.raw[c][at])),
                    "l"(from + c * PLANE_IN + at)
                    : "memory");
        }
    }
}

// Split a band's pixels; return the shift of their scale, or NEVER if halves do not hold them.
__device__ int split_band(Shared &s, int size)
{
    asm volatile("cp.async.wait_all;" ::: "memory");
    float own[EACH][C];
    Range range;
#pragma unroll
    for (int j = 0; j < EACH; j++)
#pragma unroll
        for (int c = 0; c < C; c++) {
            const int at = threadIdx.x + j * THREADS;
            own[j][c] = at < size ? s.raw[c][at] : 0;
            range.add(own[j][c]);
        }
    range.reduce();
    if (threadIdx.x % 32 == 0)
        s.ranges[threadIdx.x / 32] = range;
    __syncthreads();  // from here on, all have multiplied the last band
    range.add(s.ranges[threadIdx.x % WARPS]);
    range.reduce();
    const int shift = range.shift();
    const float scale = power_of_two(shift);
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        const int at = threadIdx.x + j * THREADS, to = at / W * PITCH + at % W;
        if (at >= size)
            break;
        Pair words[GROUPS * 4];
#pragma unroll
        for (int i = 0; i < GROUPS * 4; i++)
            words[i] = split(2 * i < C ? own[j][2 * i % C] : 0,
                             2 * i + 1 < C ? own[j][(2 * i + 1) % C] : 0, scale);
#pragma unroll
        for (int g = 0; g < OCTETS; g++) {
            const Pair *const w = words + 4 * g;
            s.pixels[g * PLANE + to] = {w[0].high, w[1].high, w[2].high, w[3].high};
            s.pixels[LOWER + g * PLANE + to] = {w[0].low, w[1].low, w[2].low, w[3].low};
        }
        if (REST) {
            const Pair a = words[4 * OCTETS], b = words[4 * OCTETS + 1];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                uint2 *const unit = (uint2 *)&s.pixels[i * LOWER + OCTETS * PLANE + to];
                const uint2 four = i ? make_uint2(a.low, b.low) : make_uint2(a.high, b.high);
                unit[0] = four;
                if (at % W)  // also as the right neighbour; that of a row's last stays zero
                    unit[-1] = four;
            }
        }
    }
    return range.held(shift) ? shift : NEVER;
}

// Exchange a thread's i-th number for its i-th neighbour's, among four.
__device__ void transpose(float (&x)[4])
{
#pragma unroll
    for (int step = 1; step < 4; step *= 2) {
        const bool upper = threadIdx.x & step;
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (!(i & step)) {
                const float got = __shfl_xor_sync(~0u, upper ? x[i] : x[i + step], step);
                (upper ? x[i] : x[i + step]) = got;
            }
    }
}

using Sums = float[TILES][COLUMNS][4];
// Multiply 16 TILES pixels of a band by all maps of the block: sums of high high, and of the rest.
__device__ void multiply(Sums &all, Sums &rest, const Shared &s, const Band &band, int first)
{
    const int lane = threadIdx.x % 32;
    const uint4 *weight = s.weights + lane;
    const int *unit = s.offsets + lane / 16;
    int next = *unit;
    unsigned from[TILES];
    uint4 high[TILES], low[TILES];
#pragma unroll
    for (int i = 0; i < TILES; i++) {
        const int pixel = min(first + 16 * i + lane % 16, PLANE_OUT - 1);
        from[i] = shared_address(s.pixels + (pixel / W_OUT - band.row) * PITCH + pixel % W_OUT);
        high[i] = load(from[i] + next);
        low[i] = load(from[i] + next + 16 * LOWER);
    }
    Sums sum = {};
    for (int begin = 0; begin < STEPS; begin += SPAN) {
        const int end = SPAN == STEPS ? STEPS : min(begin + SPAN, STEPS);
#pragma unroll 2
        for (int step = begin; step < end; step++) {
            uint4 b[COLUMNS];
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
                b[j] = weight[j * 32];
            weight += COLUMNS * 32;
            next = *(unit += 2);
            // Load the next step's pixels as soon as registers are free.
#pragma unroll
            for (int i = 0; i < TILES; i++) {
#pragma unroll
                for (int j = 0; j < COLUMNS; j++)
                    multiply(rest[i][j], low[i], b[j].x, b[j].y);
                low[i] = load(from[i] + next + 16 * LOWER);
#pragma unroll
                for (int j = 0; j < COLUMNS; j++)
                    multiply(sum[i][j], high[i], b[j].x, b[j].y);
#pragma unroll
                for (int j = 0; j < COLUMNS; j++)
                    multiply(rest[i][j], high[i], b[j].z, b[j].w);
                high[i] = load(from[i] + next);
            }
        }
#pragma unroll
        for (int i = 0; i < TILES * COLUMNS * 4; i++) {
            float &part = sum[i / 4 / COLUMNS][i / 4 % COLUMNS][i % 4];
            all[i / 4 / COLUMNS][i / 4 % COLUMNS][i % 4] += part;
            part = 0;
        }
    }
}

// Compute a warp's pixels of a band; y is that of the block's first map.
__device__ void compute(const Shared &s, float *y, const Band &band, int shift, int maps)
{
    const int first = band.pixel + threadIdx.x / 32 * 16 * TILES, member = threadIdx.x % 4;
    if (first >= PLANE_OUT)
        return;
    Sums all = {}, rest = {};
    multiply(all, rest, s, band, first);
    // Undo the scales. Then a thread has one pixel and every other map, so that 16 pixels of a
    // map are stored at once.
    const int pixel = first + member / 2 * 8 + threadIdx.x % 32 / 4, odd = member % 2;
    float *const to = y + ((size_t)band.image * M + odd) * PLANE_OUT + pixel;
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) {
        const int2 by = *(const int2 *)(s.maps + 8 * j + 2 * member);
        const float scale[2] = {power_of_two(-shift - by.x), power_of_two(-shift - by.y)};
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            float x[4];
#pragma unroll
            for (int e = 0; e < 4; e++)
                x[e] = fmaf(rest[i][j][e], 1 / LOW, all[i][j][e]) * scale[e % 2];
            transpose(x);
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (pixel + 16 * i < PLANE_OUT && (M % MAPS == 0 || 8 * j + 2 * e + odd < maps))
                    to[(8 * j + 2 * e) * PLANE_OUT + 16 * i] = x[e];
        }
    }
}

// Compute a band by the formula; y and k are those of the block's first map.
__device__ void compute_directly(float *y, const float *x, const float *k, const Band &band,
                                 int maps)
{
    y += (size_t)band.image * M * PLANE_OUT;
    x += (size_t)band.image * C * PLANE_IN;
    for (int i = threadIdx.x; i < maps * BAND; i += THREADS) {
        const int m = i / BAND, pixel = band.pixel + i % BAND;
        if (pixel < PLANE_OUT)
            y[m * PLANE_OUT + pixel] = Direct<C, M, H, W, K>::output(
                x + pixel / W_OUT * W + pixel % W_OUT, k + m * C * TAPS);
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    conv_mma_split(float *__restrict__ y, const float *__restrict__ x, const float *__restrict__ k,
                   int B)
{
    extern __shared__ uint4 memory[];
    Shared &s = *(Shared *)memory;
    const int first_map = blockIdx.x % PARTS * MAPS, maps = min(MAPS, M - first_map);
    const int first = blockIdx.x / PARTS, blocks = gridDim.x / PARTS;
    y += first_map * PLANE_OUT;
    k += first_map * C * TAPS;
    copy(s, x, first);
    pack_weights(s, k, maps);
    for (int i = threadIdx.x; REST && i < 2 * LOWER; i += THREADS)
        s.pixels[i] = {};
    __syncthreads();
    int lowest = NEVER, highest = -NEVER;  // shifts of maps
    for (int m = 0; m < maps; m++) {
        lowest = min(lowest, s.maps[m]);
        highest = max(highest, s.maps[m]);
    }
    for (int i = first; i < B * BANDS; i += blocks) {
        const Band band(i);
        const int shift = split_band(s, band.size);
        if (i + blocks < B * BANDS)
            copy(s, x, i + blocks);
        __syncthreads();
        if (fits<C * TAPS>(shift + lowest, shift + highest))
            compute(s, y, band, shift, maps);
        else
            compute_directly(y, x, k, band, maps);
    }
}
