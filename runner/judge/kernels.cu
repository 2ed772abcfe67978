// The judge's own kernels: inputs, poison, checks, and the reference.
//
// They use no shared memory, barriers or warp functions, so that they also compile for the
// CPU (JUDGE_ON_CPU), where the tests run them. Arguments are pointers and integers of 64
// bits. `make golden` compiles each file to PTX.
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

// Convert weights for judge_check.
extern "C" __global__ void judge_widen(double *out, const void *in, u64 n, u64 as_half)
{
    for (u64 i = first_index(); i < n; i += stride())
        out[i] = loaded(in, i, as_half);
}

#define MAPS 4  // that a thread computes at a time
#define SLOTS 1024

// All begin as zeros; `first` is the complement of the first wrong output's index.
struct Result {
    u64 wrong, first, worst, missing;
    double error[SLOTS], norm[SLOTS];
};

// Compare all of y with float64 sums; k is that of judge_widen.
//
// An output is wrong if it is not finite, or differs by more than `share` / 2^40 of the sum
// of its |x| |k|, or of `top`, the largest |x|, times the sum of |k| if `by_top`.
extern "C" __global__ void judge_check(const float *y, const void *x, const double *k, u64 B,
                                       u64 M, u64 C, u64 H, u64 W, u64 K, u64 as_half,
                                       u64 share, const float *top, Result *result)
{
    const u64 H_out = H - K + 1, W_out = W - K + 1, groups = (M + MAPS - 1) / MAPS;
    const u64 total = B * groups * H_out * W_out;
    const double tolerance = (double)share / (1ull << 40);
    double error = 0, norm = 0;
    for (u64 n = first_index(); n < total; n += stride()) {
        const u64 w = n % W_out, h = n / W_out % H_out;
        const u64 group = n / W_out / H_out % groups, b = n / W_out / H_out / groups;
        double sum[MAPS] = {}, size[MAPS] = {};
        const u64 taps = C * K * K;
        for (u64 c = 0; c < C; c++)
            for (u64 r = 0; r < K; r++) {
                const u64 row = ((b * C + c) * H + h + r) * W + w;
                for (u64 s = 0; s < K; s++) {
                    const double pixel = loaded(x, row + s, as_half);
                    const u64 tap = (c * K + r) * K + s;
                    for (u64 j = 0; j < MAPS; j++) {
                        const u64 m = group * MAPS + j;
                        const double weight = m < M ? k[m * taps + tap] : 0;
                        sum[j] += pixel * weight;
                        size[j] += (top ? (double)top[b] : fabs(pixel)) * fabs(weight);
                    }
                }
            }
        for (u64 j = 0; j < MAPS; j++) {
            const u64 m = group * MAPS + j;
            if (m >= M)
                break;
            const u64 i = ((b * M + m) * H_out + h) * W_out + w;
            const double off = fabs((double)y[i] - sum[j]);
            if (!(off <= tolerance * size[j] + SMALLEST * (double)taps)) {
                atomicAdd(&result->wrong, (u64)1);
                atomicMax(&result->first, ~i);
                if (!(off <= 1e300))
                    atomicAdd(&result->missing, (u64)1);
                continue;
            }
            const u64 part = size[j] > 0 ? (u64)(off / size[j] * (1ull << 60)) : 0;
            if (part > result->worst)
                atomicMax(&result->worst, part);
            error += off * off;
            norm += sum[j] * sum[j];
        }
    }
    const u64 slot = first_index() % SLOTS;
    atomicAdd(&result->error[slot], error);
    atomicAdd(&result->norm[slot], norm);
}

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
