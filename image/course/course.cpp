// Operator New, made of the project's sources, for MXNet on the CPU and for layers.cu.
#include "course.h"

#include "forward.h"

#include <mxnet/base.h>

mxnet::New mxnet::Registered::on_cpu, mxnet::Registered::on_gpu;

void course::compute_new(int gpu, float *y, const float *x, const float *w, const int *sizes,
                         void *stream) {
    using namespace mxnet;
    const auto [B, M, C, H, W, K] = reinterpret_cast<const unsigned(&)[6]>(*sizes);
    mshadow::Stream<mshadow::gpu> wanted;
    wanted.stream_ = static_cast<cudaStream_t>(stream);
    const New function = gpu ? Registered::on_gpu : Registered::on_cpu;
    CHECK(function) << "src/operator/custom has no operator New";
    function({gpu ? Context::kGPU : Context::kCPU}, {0, &wanted}, {const_cast<float *>(x), {B, C, H, W}},
             {const_cast<float *>(w), {M, C, K, K}}, {y, {B, M, H - K + 1, W - K + 1}});
    std::fflush(stdout); // its time, before what Python prints next
}

// Say which output of an image is not that of the formula, by more than halves explain.
void course::compare(const float *y, const float *x, const float *w, const int *sizes, int image) {
    const auto [B, M, C, H, W, K] = reinterpret_cast<const int(&)[6]>(*sizes);
    const int rows = H - K + 1, columns = W - K + 1;
    for (int at = 0; at < M * rows * columns; at++) {
        const int m = at / (rows * columns), row = at / columns % rows, column = at % columns;
        double sum = 0, most = 0;
        for (int tap = 0; tap < C * K * K; tap++) {
            const int c = tap / (K * K), p = tap / K % K, q = tap % K;
            const double product =
                double(x[(c * H + row + p) * W + column + q]) * w[m * C * K * K + tap];
            sum += product, most += std::abs(product);
        }
        if (std::abs(y[at] - sum) <= most / 100)
            continue;
        std::cerr << "forward() is wrong: map " << m << ", row " << row << ", column " << column << " of image "
                  << image << " of " << B << " is " << y[at] << " instead of " << sum << std::endl;
        return;
    }
}

// What project/cpp/operator.cpp needs to be MXNet's operator. It computes on copies with room on
// both sides, where MXNet's pools had it, too: some projects read or write beyond an array.
void rai::forward(float *y, const float *x, const float *k, const Shape &shape) {
    constexpr std::size_t SLACK = 1 << 20; // floats
    const int sizes[]{shape.B, shape.M, shape.C, shape.H, shape.W, shape.K};
    const std::size_t in = std::size_t(shape.B) * shape.C * shape.H * shape.W;
    const std::size_t out = std::size_t(shape.B) * shape.M * shape.rows() * shape.columns();
    const std::unique_ptr<float[]> from(new float[in + 2 * SLACK]), to(new float[out + 2 * SLACK]);
    std::copy_n(x, in, from.get() + SLACK);
    course::compute_new(0, to.get() + SLACK, from.get() + SLACK, k, sizes);
    std::copy_n(to.get() + SLACK, out, y);
    for (int image = 0; image < shape.B; image += std::max(1, shape.B - 1))
        course::compare(y + out / shape.B * image, x + in / shape.B * image, k, sizes, image);
}
void rai::say(const std::string &) {}
