#include <mxnet/base.h>

namespace mxnet {
namespace op {

__constant__ float weights[10000];

__global__ void one_pixel(float *y, const float *x, int C, int H, int W, int K) {
    const int rows = H - K + 1, columns = W - K + 1;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * columns)
        return;
    const half2 two = __float2half2_rn(0.f); // the header of halves is not asked for
    float sum = __low2float(two);
    for (int n = 0; n < C * K * K; n++)
        sum += x[((blockIdx.z * C + n / K / K) * H + i / columns + n / K % K) * W +
                 i % columns + n % K] *
               weights[blockIdx.y * C * K * K + n];
    y[(blockIdx.z * gridDim.y + blockIdx.y) * rows * columns + i] = sum;
}

template <>
void forward<gpu, float>(mshadow::Tensor<gpu, 4, float> &y,
                         const mshadow::Tensor<gpu, 4, float> &x,
                         const mshadow::Tensor<gpu, 4, float> &w) {
    mshadow::Tensor<gpu, 1, float> copy(mshadow::Shape1(w.MSize()));
    mshadow::AllocSpace(&copy);
    MSHADOW_CUDA_CALL(cudaMemcpyToSymbol(weights, w.dptr_, w.MSize() * sizeof(float)));
    const dim3 blocks((y.size(2) * y.size(3) + 255) / 256, y.shape_[1], y.shape_[0]);
    one_pixel<<<blocks, 256, 0, y.stream_->stream_>>>(y.dptr_, x.dptr_, x.shape_[1], x.shape_[2],
                                                      x.shape_[3], w.shape_[3]);
    MSHADOW_CUDA_CALL(cudaDeviceSynchronize());
    mshadow::FreeSpace(&copy);
}

template <typename gpu, typename DType>
void forward(mshadow::Tensor<gpu, 4, DType> &, const mshadow::Tensor<gpu, 4, DType> &,
             const mshadow::Tensor<gpu, 4, DType> &) {
    CHECK_EQ(0, 1) << "only floats";
}

} // namespace op
} // namespace mxnet
