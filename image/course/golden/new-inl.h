// Operator New around the project's forward(), and its time.
#pragma once

#include <mxnet/base.h>

#include <chrono>

namespace mxnet::op {

template <typename xpu, typename DType>
void forward(Tensor<xpu, 4, DType> &y, const Tensor<xpu, 4, DType> &x,
             const Tensor<xpu, 4, DType> &w);

// Return the time when all kernels have ended; a template, since new.cc has another.
template <typename xpu> auto finished() {
#ifdef __CUDACC__
    MSHADOW_CUDA_CALL(cudaDeviceSynchronize());
#endif
    return std::chrono::steady_clock::now();
}

template <typename xpu>
void timed(Context, const OpContext &how, const TBlob &x, const TBlob &w, const TBlob &y) {
    Stream<xpu> *stream = how.get_stream<xpu>();
    auto to = y.get<xpu, 4, float>(stream);
    to = 0;
    const auto start = finished<xpu>();
    forward<xpu, float>(to, x.get<xpu, 4, float>(stream), w.get<xpu, 4, float>(stream));
    const std::chrono::duration<double> seconds = finished<xpu>() - start;
    std::printf("Op Time: %f\n", seconds.count());
}

} // namespace mxnet::op
