// The judge's own kernels: inputs, poison, checks, and the reference.
//
// They use no shared memory, barriers or warp functions, so that they also compile for the
// CPU (JUDGE_ON_CPU), where the tests run them. Arguments are pointers and integers of 64
// bits. `python tools/golden.py` compiles each file to PTX.
#ifndef JUDGE_ON_CPU
typedef unsigned int u32;
typedef unsigned long long u64;

static __device__ float half_to_float(unsigned short bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

static __device__ unsigned short float_to_half(float value)
{
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
#endif

#define HASH_STEP 0x9e3779b97f4a7c15ull
#define NAN_BITS 0x7fc00000u
#define NAN_FREE 0x803fffffu  // the bits of a quiet NaN that may have any value
#define SMALLEST 1.2e-38      // of a normal float; smaller ones may be flushed to zero

enum Kind { NORMAL, CONSTANT, HEAVY, SPARSE };

// Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014 (mix64).
static __device__ u64 mixed(u64 seed, u64 index)
{
    u64 z = seed + (index + 1) * HASH_STEP;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static __device__ u64 first_index()
{
    return (u64)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ u64 stride()
{
    return (u64)gridDim.x * blockDim.x;
}

// A sample of N(0, 1), by Box and Muller's transform.
static __device__ float normal(u64 seed, u64 index)
{
    const u64 bits = mixed(seed, index);
    const float u = ((float)(u32)(bits >> 40) + 0.5f) * 0x1p-24f;
    const float v = (float)(u32)(bits & 0xffffff) * 0x1p-24f;
    return sqrtf(-2 * logf(u)) * cospif(2 * v);
}

// Write n random values, each group of `each` scaled by 2^e with |e - shift| <= spread.
extern "C" __global__ void judge_fill(void *out, u64 n, u64 each, u64 seed, u64 kind,
                                      long long shift, u64 spread, u64 as_half)
{
    for (u64 i = first_index(); i < n; i += stride()) {
        const u64 group = i / each, drawn = mixed(~seed, group);
        const long long e = shift + (long long)(drawn % (2 * spread + 1)) - (long long)spread;
        float value = normal(seed, i);
        if (kind == CONSTANT)
            value = normal(seed, group);
        if (kind == HEAVY)
            value = copysignf(expf(3 * normal(seed + 1, i)), value);
        if (kind == SPARSE && (mixed(seed + 2, i) & 7 || drawn >> 62 == 0))
            value = 0;
        value = scalbnf(value, (int)e);
        if (as_half)
            ((unsigned short *)out)[i] = float_to_half(value);
        else
            ((float *)out)[i] = value;
    }
}

static __device__ u32 poisoned(u64 seed, u64 word)
{
    return NAN_BITS | ((u32)mixed(seed, word) & NAN_FREE);
}

// Fill words with NaNs of random signs and payloads.
extern "C" __global__ void judge_poison(u32 *out, u64 words, u64 seed)
{
    for (u64 i = first_index(); i < words; i += stride())
        out[i] = poisoned(seed, i);
}

// Count the words outside of two ranges that no longer are what judge_poison wrote.
extern "C" __global__ void judge_untouched(const u32 *in, u64 words, u64 seed, u64 from,
                                           u64 to, u64 from2, u64 to2, u64 *count)
{
    u64 changed = 0;
    for (u64 i = first_index(); i < words; i += stride())
        changed += !(i >= from && i < to) && !(i >= from2 && i < to2) &&
                   in[i] != poisoned(seed, i);
    if (changed)
        atomicAdd(count, changed);
}

// Count the bytes that differ, in units of two.
extern "C" __global__ void judge_same(const unsigned short *a, const unsigned short *b,
                                      u64 n, u64 *count)
{
    u64 changed = 0;
    for (u64 i = first_index(); i < n; i += stride())
        changed += a[i] != b[i];
    if (changed)
        atomicAdd(count, changed);
}

// Read and write memory, which displaces all else from the caches.
extern "C" __global__ void judge_sweep(u32 *memory, u64 words)
{
    for (u64 i = first_index(); i < words; i += stride())
        memory[i] = memory[i] * 3 + 1;
}

struct Shape {
    u64 B, M, C, H, W, K;
};

static __device__ float loaded(const void *in, u64 i, u64 as_half)
{
    return as_half ? half_to_float(((const unsigned short *)in)[i]) : ((const float *)in)[i];
}

// Convert weights for judge_check: to double, and to the float of their absolute value.
extern "C" __global__ void judge_widen(double *out, float *sizes, const void *in, u64 n,
                                       u64 as_half)
{
    for (u64 i = first_index(); i < n; i += stride()) {
        out[i] = loaded(in, i, as_half);
        sizes[i] = fabsf(loaded(in, i, as_half));
    }
}

#define MAPS 4  // that a thread computes at a time
#define SLOTS 1024

// All begin as zeros; `first` is the complement of the first wrong output's index.
struct Result {
    u64 wrong, first, worst, missing;
    double error[SLOTS], norm[SLOTS];
};

struct Check {
    const float *y, *sizes, *top;
    const void *x;
    const double *k;
    u64 as_half;
    double tolerance;
    Result *result;
};

// Note an output: what it is, and what it should be.
static __device__ void note(const Check &given, u64 i, double sum, double size, u64 taps,
                            double &error, double &norm)
{
    Result *result = given.result;
    const double off = fabs((double)given.y[i] - sum);
    if (!(off <= given.tolerance * size + SMALLEST * (double)taps)) {
        atomicAdd(&result->wrong, (u64)1);
        atomicMax(&result->first, ~i);
        if (!(off <= 1e300))
            atomicAdd(&result->missing, (u64)1);
        return;
    }
    const u64 part = size > SMALLEST ? (u64)(off / size * (1ull << 60)) : 0;
    if (part > result->worst)
        atomicMax(&result->worst, part);
    error += off * off;
    norm += sum * sum;
}

// Compare y with sums in double: MAPS maps and ACROSS columns a thread. TAPS is the size of the
// weights, or 0 for any, with one column a thread.
template <int TAPS, int ACROSS>
static __device__ void compare(const Check &given, const Shape &s)
{
    const u64 H_out = s.H - s.K + 1, W_out = s.W - s.K + 1, taps = s.C * s.K * s.K;
    const u64 across = (W_out + ACROSS - 1) / ACROSS, groups = (s.M + MAPS - 1) / MAPS;
    const u64 total = s.B * groups * H_out * across;
    double error = 0, norm = 0;
    for (u64 n = first_index(); n < total; n += stride()) {
        const u64 w = n % across * ACROSS, h = n / across % H_out;
        const u64 group = n / across / H_out % groups, b = n / across / H_out / groups;
        const float most = given.top ? given.top[b] : 0;
        double sum[MAPS][ACROSS] = {};
        float size[MAPS][ACROSS] = {};
        for (u64 c = 0; c < s.C; c++)
            for (int r = 0; r < (TAPS ? TAPS : (int)s.K); r++) {
                const u64 row = ((b * s.C + c) * s.H + h + r) * s.W + w;
                float pixels[TAPS + ACROSS];
                if (TAPS) {
#pragma unroll
                    for (int i = 0; i < TAPS + ACROSS - 1; i++)
                        pixels[i] = w + i < s.W ? loaded(given.x, row + i, given.as_half) : 0;
                }
#pragma unroll
                for (int t = 0; t < (TAPS ? TAPS : (int)s.K); t++) {
                    if (!TAPS)
                        pixels[0] = loaded(given.x, row + t, given.as_half);
#pragma unroll
                    for (int j = 0; j < MAPS; j++) {
                        const u64 m = group * MAPS + j < s.M ? group * MAPS + j : 0;
                        const u64 at = m * taps + (c * s.K + r) * s.K + t;
                        const double weight = given.k[at];
                        const float weight_size = given.sizes[at];
#pragma unroll
                        for (int i = 0; i < ACROSS; i++) {
                            const float pixel = pixels[TAPS ? i + t : 0];
                            sum[j][i] += (double)pixel * weight;
                            size[j][i] += (given.top ? most : fabsf(pixel)) * weight_size;
                        }
                    }
                }
            }
#pragma unroll
        for (int j = 0; j < MAPS; j++)
#pragma unroll
            for (int i = 0; i < ACROSS; i++)
                if (group * MAPS + j < s.M && w + i < W_out)
                    note(given, ((b * s.M + group * MAPS + j) * H_out + h) * W_out + w + i,
                         sum[j][i], size[j][i], taps, error, norm);
    }
    const u64 slot = first_index() % SLOTS;
    atomicAdd(&given.result->error[slot], error);
    atomicAdd(&given.result->norm[slot], norm);
}

// Compare all of y with float64 sums; k and its sizes are those of judge_widen.
//
// An output is wrong if it is not finite, or differs by more than `share` / 2^40 of the sum
// of its |x| |k|; or, with `top`, of the largest |x| of its image times the sum of |k|.
#define CHECK(taps, across)                                                                 \
    extern "C" __global__ void judge_check_##taps(                                          \
        const float *y, const void *x, const double *k, const float *sizes, u64 B, u64 M,   \
        u64 C, u64 H, u64 W, u64 K, u64 as_half, u64 share, const float *top,               \
        Result *result)                                                                     \
    {                                                                                       \
        const double tolerance = (double)share / (1ull << 40);                              \
        compare<taps, across>(Check{y, sizes, top, x, k, as_half, tolerance, result},       \
                              Shape{B, M, C, H, W, K});                                     \
    }

CHECK(0, 1)
CHECK(5, 4)
CHECK(7, 4)

// Find the largest |x| of each image; one thread an image.
extern "C" __global__ void judge_top(float *top, const void *x, u64 images, u64 each,
                                     u64 as_half)
{
    for (u64 b = first_index(); b < images; b += stride()) {
        float most = 0;
        for (u64 i = 0; i < each; i++)
            most = fmaxf(most, fabsf(loaded(x, b * each + i, as_half)));
        top[b] = most;
    }
}

// Compute one output for a message: what is expected.
extern "C" __global__ void judge_explain(double *out, const float *y, const void *x,
                                         const double *k, u64 M, u64 C, u64 H, u64 W, u64 K,
                                         u64 as_half, u64 i)
{
    if (first_index())
        return;
    const u64 H_out = H - K + 1, W_out = W - K + 1;
    const u64 w = i % W_out, h = i / W_out % H_out, m = i / W_out / H_out % M;
    const u64 b = i / W_out / H_out / M;
    double sum = 0;
    for (u64 c = 0; c < C; c++)
        for (u64 r = 0; r < K; r++)
            for (u64 s = 0; s < K; s++)
                sum += loaded(x, ((b * C + c) * H + h + r) * W + w + s, as_half) *
                       k[((m * C + c) * K + r) * K + s];
    out[0] = y[i];
    out[1] = sum;
}

#define ACROSS 4  // outputs beside each other that a thread of the reference computes

// The reference: a plain fp32 convolution, 4 maps and 4 columns a thread, in registers.
template <int TAPS>
static __device__ void reference(float *y, const float *x, const float *k, const Shape &s)
{
    const u64 H_out = s.H - s.K + 1, W_out = s.W - s.K + 1;
    const u64 across = (W_out + ACROSS - 1) / ACROSS, groups = (s.M + MAPS - 1) / MAPS;
    const u64 total = s.B * groups * H_out * across;
    for (u64 n = first_index(); n < total; n += stride()) {
        const u64 w = n % across * ACROSS, h = n / across % H_out;
        const u64 group = n / across / H_out % groups, b = n / across / H_out / groups;
        float sum[MAPS][ACROSS] = {};
        for (u64 c = 0; c < s.C; c++)
#pragma unroll
            for (int r = 0; r < TAPS; r++) {
                float pixels[TAPS + ACROSS - 1];
                const u64 row = ((b * s.C + c) * s.H + h + r) * s.W;
#pragma unroll
                for (int i = 0; i < TAPS + ACROSS - 1; i++)
                    pixels[i] = w + i < s.W ? x[row + w + i] : 0;
#pragma unroll
                for (int j = 0; j < MAPS; j++) {
                    const u64 m = group * MAPS + j < s.M ? group * MAPS + j : 0;
#pragma unroll
                    for (int t = 0; t < TAPS; t++) {
                        const float weight = k[((m * s.C + c) * TAPS + r) * TAPS + t];
#pragma unroll
                        for (int i = 0; i < ACROSS; i++)
                            sum[j][i] += pixels[i + t] * weight;
                    }
                }
            }
        for (u64 j = 0; j < MAPS && group * MAPS + j < s.M; j++)
            for (u64 i = 0; i < ACROSS && w + i < W_out; i++)
                y[((b * s.M + group * MAPS + j) * H_out + h) * W_out + w + i] = sum[j][i];
    }
}

#define REFERENCE(taps)                                                                     \
    extern "C" __global__ void judge_reference_##taps(                                      \
        float *y, const float *x, const float *k, u64 B, u64 M, u64 C, u64 H, u64 W)        \
    {                                                                                       \
        reference<taps>(y, x, k, Shape{B, M, C, H, W, taps});                               \
    }

REFERENCE(3)
REFERENCE(5)
REFERENCE(7)
