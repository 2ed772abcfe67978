// Operator New around the project's forward(), and its time.
#ifndef MXNET_OPERATOR_NEW_INL_H_
#define MXNET_OPERATOR_NEW_INL_H_

#include <mxnet/base.h>

#include <chrono>

namespace mxnet {
namespace op {

template <typename xpu, typename DType>
void forward(mshadow::Tensor<xpu, 4, DType> &y, const mshadow::Tensor<xpu, 4, DType> &x,
             const mshadow::Tensor<xpu, 4, DType> &w);

// A template, since new.cc and new.cu have different ones.
template <typename xpu> void wait() {
#ifdef __CUDACC__
    MSHADOW_CUDA_CALL(cudaDeviceSynchronize());
#endif
}

template <typename xpu>
void timed(Context, const OpContext &how, const TBlob &x, const TBlob &w, const TBlob &y) {
    using namespace std::chrono;
    mshadow::Stream<xpu> *stream = how.get_stream<xpu>();
    auto to = y.get<xpu, 4, float>(stream);
    const auto from = x.get<xpu, 4, float>(stream), weights = w.get<xpu, 4, float>(stream);
    to = 0;
    wait<xpu>();
    const auto start = steady_clock::now();
    forward<xpu, float>(to, from, weights);
    wait<xpu>();
    const duration<double> seconds = steady_clock::now() - start;
    std::printf("Op Time: %f\n", seconds.count());
}

} // namespace op
} // namespace mxnet

#endif
