// Compute by the formula the images that a kernel leaves out, because halves cannot hold them.
//
// Tensor cores multiply halves, whose range is 2^31 with one scale. An image or weights of a larger
// range, with Inf or NaN, or so large or small that scales overflow, is added to a list. This
// kernel is launched next, and usually finds the list empty. Its sums are of fp32 multiply-adds, a
// channel at a time.

namespace repair
{

constexpr int BLOCK = 256, PIXELS = 4;  // outputs that a thread computes at a time

__device__ unsigned left_out, finished;  // images in the list; blocks that are done with it

// Add an image to the list, which has room for every call.
__device__ __forceinline__ void leave_out(int *list, int image)
{
    list[atomicAdd(&left_out, 1)] = image;
}

__device__ __forceinline__ float float_of(float x) { return x; }
__device__ __forceinline__ float float_of(__half x) { return __half2float(x); }

template <int C, int M, int H, int W, int K> struct Shape {
    static constexpr int H_OUT = H - K + 1, W_OUT = W - K + 1, PLANE = H_OUT * W_OUT;
    static constexpr int EACH = (W_OUT + PIXELS - 1) / PIXELS;  // of a row, in pieces of PIXELS

    // One output, at the first pixel of its window in the first channel.
    template <typename Number>
    static __device__ __forceinline__ float output(const Number *x, const Number *k)
    {
        float sum = 0;
#pragma unroll 1
        for (int c = 0; c < C; c++) {
            float of_channel = 0;
#pragma unroll 1
            for (int u = 0; u < K; u++)
#pragma unroll
                for (int v = 0; v < K; v++)
                    of_channel = fmaf(float_of(x[(c * H + u) * W + v]),
                                      float_of(k[(c * K + u) * K + v]), of_channel);
            sum += of_channel;
        }
        return sum;
    }

    // One map of one image.
    template <typename Number>
    static __device__ __forceinline__ void compute(float *y, const Number *x, const Number *k)
    {
        for (int i = threadIdx.x; i < H_OUT * EACH; i += BLOCK) {
            const int row = i / EACH, column = i % EACH * PIXELS;
            float sum[PIXELS] = {};
#pragma unroll 1
            for (int c = 0; c < C; c++) {
                float of_channel[PIXELS] = {};
#pragma unroll 1
                for (int u = 0; u < K; u++) {
                    const Number *const from = x + (c * H + row + u) * W + column;
                    float pixel[K + PIXELS - 1];
#pragma unroll
                    for (int j = 0; j < K + PIXELS - 1; j++)
                        pixel[j] = column + j < W ? float_of(from[j]) : 0;
#pragma unroll
                    for (int v = 0; v < K; v++) {
                        const float weight = float_of(k[(c * K + u) * K + v]);
#pragma unroll
                        for (int j = 0; j < PIXELS; j++)
                            of_channel[j] = fmaf(pixel[v + j], weight, of_channel[j]);
                    }
                }
#pragma unroll
                for (int j = 0; j < PIXELS; j++)
                    sum[j] += of_channel[j];
            }
#pragma unroll
            for (int j = 0; j < PIXELS; j++)
                if (column + j < W_OUT)
                    y[row * W_OUT + column + j] = sum[j];
        }
    }

    // block j -> every n-th of the maps of all images in the list
    template <typename Number>
    static __device__ __forceinline__ void repair(float *y, const Number *x, const Number *k,
                                                  const int *list)
    {
        const int units = left_out * M;
        for (int i = blockIdx.x; i < units; i += gridDim.x) {
            const size_t image = list[i / M], m = i % M;
            compute(y + (image * M + m) * PLANE, x + image * (C * H * W), k + m * (C * K * K));
        }
        __syncthreads();
        if (threadIdx.x == 0 && atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1)
            left_out = 0;
    }
};

}  // namespace repair
