// The other layers on the GPU, by the kernels of project/cuda/network.
#include "course.h"

#include <mshadow/tensor.h>

#include <list>
#include <vector>

#define THREADS 256
#include "network/pooling.cu"
#include "network/tanh.cu"
#undef THREADS
#define THREADS 64
#include "network/softmax.cu"
#undef THREADS
#define ROWS 64
#define COLUMNS 80
#define DEPTH 16
#include "network/dense.cu"

namespace {

constexpr std::size_t SLACK = 1 << 20; // floats; some projects read or write beyond an array

// One thread per output; not a file of the ladder, since who edits one would rebuild the image.
__global__ void convolve(float *y, const float *x, const float *weights, int M, int C, int H, int W,
                         int K) {
    const int rows = H - K + 1, columns = W - K + 1, at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= M * rows * columns)
        return;
    const int m = at / (rows * columns), row = at / columns % rows, column = at % columns;
    const float *image = x + (std::size_t)blockIdx.y * C * H * W;
    float sum = 0;
    for (int c = 0; c < C; c++)
        for (int p = 0; p < K; p++)
            for (int q = 0; q < K; q++)
                sum += image[(c * H + row + p) * W + column + q] *
                       weights[((m * C + c) * K + p) * K + q];
    y[(std::size_t)blockIdx.y * M * rows * columns + at] = sum;
}

// An array on the GPU, of values or zeros, with room on both sides that may be read and written.
struct Array {
    float *at = nullptr;

    Array(std::size_t floats, const float *values) {
        MSHADOW_CUDA_CALL(cudaMalloc(&at, 4 * (floats + 2 * SLACK)));
        MSHADOW_CUDA_CALL(cudaMemset(at, 0, 4 * (floats + 2 * SLACK)));
        at += SLACK;
        if (values)
            MSHADOW_CUDA_CALL(cudaMemcpy(at, values, 4 * floats, cudaMemcpyHostToDevice));
    }
    ~Array() { cudaFree(at - SLACK); }
};

void get(float *values, const float *array, std::size_t floats) {
    MSHADOW_CUDA_CALL(cudaMemcpy(values, array, 4 * floats, cudaMemcpyDeviceToHost));
}

constexpr unsigned tiles(int length, int tile) { return unsigned((length + tile - 1) / tile); }

// Compute operator New, and compare the first and the last image; not under a profiler, whose
// tables would have the copies.
void compute_new(float *y, const float *x, const float *w, const float *weights, const int *sizes) {
    static cudaStream_t stream; // not the default one, which cannot be captured
    if (!stream)
        MSHADOW_CUDA_CALL(cudaStreamCreate(&stream));
    course::compute_new(1, y, x, w, sizes, stream);
    if (std::getenv("CUDA_INJECTION64_PATH"))
        return;
    const auto [B, M, C, H, W, K] = reinterpret_cast<const int(&)[6]>(*sizes);
    std::vector<float> in(std::size_t(C) * H * W), out(std::size_t(M) * (H - K + 1) * (W - K + 1));
    for (int image = 0; image < B; image += std::max(1, B - 1)) {
        get(in.data(), x + in.size() * image, in.size());
        get(out.data(), y + out.size() * image, out.size());
        course::compare(out.data(), in.data(), weights, sizes, image);
    }
}

void launch(const CourseLayer &layer, float *y, const float *x, const float *w, const float *bias,
            const int *sizes) {
    const auto [B, M, C, H, W, K] = reinterpret_cast<const int(&)[6]>(*sizes);
    const std::string name = layer.name;
    const int length = C * H * W, rows = layer.shape[2], columns = layer.shape[3];
    if (name == "New")
        compute_new(y, x, w, layer.weights, sizes);
    else if (name == "Convolution")
        convolve<<<dim3(tiles(M * rows * columns, 256), B), 256>>>(y, x, w, M, C, H, W, K);
    else if (name == "Pooling")
        pooling<<<dim3(tiles(C * rows * columns, 256), B), 256>>>(y, x, C, H, W);
    else if (name == "Activation")
        tanh_in_place<<<dim3(tiles(length, 256), B), 256>>>(y, length);
    else if (name == "FullyConnected")
        dense<<<dim3(tiles(B, ROWS), tiles(M, COLUMNS)), dim3(SIDE, SIDE)>>>(y, x, w, bias, B,
                                                                             length, M);
    else if (name == "SoftmaxOutput")
        softmax<<<tiles(B, 64), 64>>>(y, B, C);
    else
        LOG(FATAL) << "mx.gpu(): this image has no layer " << name;
    MSHADOW_CUDA_CALL(cudaGetLastError());
}

} // namespace

const char *course_forward(const CourseLayer *layers, int count, float *found, const float *images,
                           const int *shape) try {
    std::list<Array> arrays;
    const auto make = [&](std::size_t floats, const float *values) {
        return arrays.emplace_back(floats, values).at;
    };
    const auto floats = [&] { return std::size_t(shape[0]) * shape[1] * shape[2] * shape[3]; };
    float *x = make(floats(), images);
    for (const CourseLayer *layer = layers; layer < layers + count; layer++) {
        const int C = shape[1], H = shape[2], M = layer->shape[1];
        const int sizes[]{shape[0], M, C, H, shape[3], H - layer->shape[2] + 1};
        const float *w = layer->weights ? make(layer->floats, layer->weights) : nullptr;
        const float *bias = layer->bias ? make(M, layer->bias) : nullptr;
        shape = layer->shape;
        const std::string name = layer->name;
        const bool in_place = name == "Activation" || name == "SoftmaxOutput";
        float *y = in_place ? x : make(floats(), nullptr);
        launch(*layer, y, x, w, bias, sizes);
        x = y;
    }
    get(found, x, floats());
    return nullptr;
} catch (const std::exception &error) {
    static thread_local std::string said;
    return (said = error.what()).c_str();
}
