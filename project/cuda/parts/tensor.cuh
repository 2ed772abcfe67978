// An implicit GEMM with mma.sync, for tensor_tf32, tensor_half and tensor_split.
//
// A block computes one strip, ROWS output rows of MAPS maps, of every gridDim.z-th image.
// The strip's input is in shared memory as words, each a pixel of UNIT channels. The matrix
// of the GEMM is implicit: its element at output pixel n and depth d is the word start(n) +
// offset(d). A warp multiplies 16 TILES pixels by all maps, 8 words deep at a time. Sums
// pass through shared memory, so that writes to y are coalesced. If not all channels fit in
// shared memory, they are computed in chunks of UNITS words.
//
// An accuracy class defines a word (Input, UNIT, pack), its multiplication (PARTS, take,
// Sum, multiply, total; SPAN, a multiple of 8, is the depth after which Sum is added to the
// others), and unsupported words (exotic: Inf, NaN and what rounds to them). A strip with
// an exotic word is computed directly.

constexpr int M = SHAPE_M, C = SHAPE_C, H = SHAPE_H, W = SHAPE_W, K = SHAPE_K;
constexpr int H_OUT = H - K + 1, W_OUT = W - K + 1, TAPS = K * K;
constexpr int THREADS = 32 * WARPS;
constexpr int MAPS = 8 * COLUMNS;

// Sizes in shared memory. The strides avoid bank conflicts within a warp.
constexpr int DEPTH = (UNITS * TAPS + 7) / 8 * 8;
constexpr int PLANE = (ROWS + K - 1) * W;
constexpr int DEPTH_STRIDE = MAPS % 16 ? MAPS : MAPS + 8;          // 8 or 24 mod 32
constexpr int MAP_STRIDE = (ROWS * W_OUT + 11) / 16 * 16 + 4;      // 4 or 20 mod 32

template <class Class>
class Strip {
    using Input = typename Class::Input;

    const int first_map = blockIdx.y * MAPS, maps = min(MAPS, M - first_map);
    const int row = blockIdx.x * ROWS, rows = min(ROWS, H_OUT - row);
    const int pixels = rows * W_OUT;
    int *offsets;
    unsigned *weights, *tile;
    float *sums;

  public:
    __device__ Strip()
    {
        extern __shared__ unsigned shared[];
        weights = shared;
        tile = weights + DEPTH * DEPTH_STRIDE;
        sums = (float *)(tile + UNITS * PLANE);
        offsets = (int *)(sums + MAPS * MAP_STRIDE);
        for (int d = threadIdx.x; d < UNITS * TAPS; d += THREADS)
            offsets[d] = d / TAPS * PLANE + d % TAPS / K * W + d % K;
    }

    // Load a chunk's weights as [depth][map], padded by zeros; report exotic ones.
    __device__ bool stage_weights(const Input *k, int unit, int depth)
    {
        bool exotic = false;
        for (int d = threadIdx.x; d < (depth + 7) / 8 * 8; d += THREADS) {
            const int c = (unit + d / TAPS) * Class::UNIT;
#pragma unroll 4
            for (int m = 0; m < MAPS; m++) {
                const Input *from = k + ((first_map + m) * C + c) * TAPS + d % TAPS;
                const bool is = d < depth && m < maps;
                const unsigned word = is ? Class::pack(from, TAPS, C - c) : 0;
                exotic |= Class::exotic(word);
                weights[d * DEPTH_STRIDE + m] = word;
            }
        }
        return exotic;
    }

    // Load the strip of a chunk's channels; report exotic pixels.
    __device__ bool stage_pixels(const Input *image, int unit, int units)
    {
        bool exotic = false;
        for (int i = threadIdx.x; i < (rows + K - 1) * W; i += THREADS)
#pragma unroll 4
            for (int u = 0; u < units; u++) {
                const int c = (unit + u) * Class::UNIT;
                const Input *from = image + (c * H + row) * W + i;
                const unsigned word = Class::pack(from, H * W, C - c);
                exotic |= Class::exotic(word);
                tile[u * PLANE + i] = word;
            }
        return exotic;
    }

    // Multiply depths [begin, end); store the sums, or add to the stored ones.
    __device__ void multiply(int begin, int end, bool first)
    {
        const int group = threadIdx.x % 32 / 4, member = threadIdx.x % 4;
        for (int left = threadIdx.x / 32 * 16 * TILES; left < pixels;
             left += WARPS * 16 * TILES) {
            int start[TILES][2];
#pragma unroll
            for (int i = 0; i < 2 * TILES; i++) {
                const int pixel = min(left + 8 * i + group, pixels - 1);
                start[i / 2][i % 2] = pixel / W_OUT * W + pixel % W_OUT;
            }
            typename Class::Sum acc[TILES][COLUMNS] = {};
            for (int d = begin + member; d < end + member; d += 8) {
                // Weights after the last word are zero, so any word can be read.
                const int near = offsets[min(d, end - 1)];
                const int far = offsets[min(d + 4, end - 1)];
                unsigned b[COLUMNS][2][Class::PARTS];
#pragma unroll
                for (int j = 0; j < COLUMNS; j++) {
                    const unsigned *word = weights + d * DEPTH_STRIDE + 8 * j + group;
                    Class::take(word[0], b[j][0]);
                    Class::take(word[4 * DEPTH_STRIDE], b[j][1]);
                }
#pragma unroll
                for (int i = 0; i < TILES; i++) {
                    unsigned a[4][Class::PARTS];
                    Class::take(tile[start[i][0] + near], a[0]);
                    Class::take(tile[start[i][1] + near], a[1]);
                    Class::take(tile[start[i][0] + far], a[2]);
                    Class::take(tile[start[i][1] + far], a[3]);
#pragma unroll
                    for (int j = 0; j < COLUMNS; j++)
                        Class::multiply(acc[i][j], a, b[j]);
                }
            }
#pragma unroll
            for (int e = 0; e < TILES * COLUMNS * 4; e++) {
                const int i = e / 4 / COLUMNS, j = e / 4 % COLUMNS;
                const int pixel = left + 16 * i + 8 * (e % 4 / 2) + group;
                float *sum = sums + (8 * j + 2 * member + e % 2) * MAP_STRIDE + pixel;
                if (pixel < pixels)
                    *sum = Class::total(acc[i][j], e % 4) + (first ? 0 : *sum);
            }
        }
    }

    // Write the sums, one warp per map, in aligned pieces of 128 bytes.
    __device__ void store(float *y) const
    {
        for (int m = threadIdx.x / 32; m < maps; m += WARPS) {
            float *to = y + ((first_map + m) * H_OUT + row) * W_OUT;
            const int behind = (size_t)to / sizeof(float) % 32;
            for (int i = (int)(threadIdx.x % 32) - behind; i < pixels; i += 32)
                if (i >= 0)
                    to[i] = sums[m * MAP_STRIDE + i];
        }
    }

    // Compute the strip directly by the formula, for exotic words.
    __device__ void compute_directly(float *y, const Input *image, const Input *k) const
    {
        for (int i = threadIdx.x; i < maps * pixels; i += THREADS) {
            const int m = first_map + i / pixels;
            const int h = row + i % pixels / W_OUT, w = i % pixels % W_OUT;
            float sum = 0;
            for (int c = 0; c < C; c++)
                for (int p = 0; p < K; p++)
                    for (int q = 0; q < K; q++)
                        sum += float(image[(c * H + h + p) * W + w + q]) *
                               float(k[((m * C + c) * K + p) * K + q]);
            y[(m * H_OUT + h) * W_OUT + w] = sum;
        }
    }
};

template <class Class>
__device__ void convolve(float *y, const typename Class::Input *x,
                         const typename Class::Input *k, int B)
{
    constexpr int ALL = (C + Class::UNIT - 1) / Class::UNIT;  // words of a pixel
    Strip<Class> strip;
    bool exotic_weights = false;
    for (int b = blockIdx.z; b < B; b += gridDim.z) {
        const typename Class::Input *image = x + (size_t)b * C * H * W;
        float *maps = y + (size_t)b * M * H_OUT * W_OUT;
        bool exotic = false;
        for (int unit = 0; unit < ALL; unit += UNITS) {
            const int units = min(UNITS, ALL - unit), depth = units * TAPS;
            if (UNITS < ALL || b == blockIdx.z)  // otherwise the weights are loaded already
                exotic_weights |= strip.stage_weights(k, unit, depth);
            exotic |= strip.stage_pixels(image, unit, units);
            exotic = __syncthreads_or(exotic || exotic_weights);
            for (int d = 0; d < depth; d += Class::SPAN)
                strip.multiply(d, min(d + Class::SPAN, depth), unit + d == 0);
            __syncthreads();
        }
        if (exotic)
            strip.compute_directly(maps, image, k);
        else
            strip.store(maps);
    }
}
