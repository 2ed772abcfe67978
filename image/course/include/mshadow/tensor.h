// Tensors on the CPU and the GPU: a pointer, a shape, and little arithmetic.
#pragma once

#include <dmlc/base.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif
typedef struct CUstream_st *cudaStream_t;

#define MSHADOW_CUDA_CALL(call)                                                                    \
    {                                                                                              \
        const auto course_error = (call);                                                          \
        CHECK(!course_error) << "CUDA: " << cudaGetErrorString(course_error);                      \
    }

// All arrays of the course's networks are float.
#define MSHADOW_TYPE_SWITCH(type, DType, ...)                                                      \
    {                                                                                              \
        typedef float DType;                                                                       \
        __VA_ARGS__                                                                                \
    }
#define MSHADOW_REAL_TYPE_SWITCH MSHADOW_TYPE_SWITCH

namespace mshadow {

using index_t = unsigned;
struct cpu {};
struct gpu {};
template <typename Device> struct Stream {
    cudaStream_t stream_ = nullptr;
};

template <std::size_t N> using Shape = std::array<index_t, N>;
inline Shape<1> Shape1(index_t a) { return {a}; }
inline Shape<2> Shape2(index_t a, index_t b) { return {a, b}; }
inline Shape<3> Shape3(index_t a, index_t b, index_t c) { return {a, b, c}; }
inline Shape<4> Shape4(index_t a, index_t b, index_t c, index_t d) { return {a, b, c, d}; }

namespace expr {
template <typename DType> DType scalar(DType value) { return value; }
} // namespace expr

#ifdef __CUDACC__
template <typename DType>
__global__ void assign_kernel(DType *y, const DType *x, DType by, std::size_t length) {
    const std::size_t i = blockIdx.x * std::size_t(blockDim.x) + threadIdx.x;
    if (i < length)
        y[i] = x ? x[i] * by : by;
}
#endif

// All elements are contiguous, but for those that the last axis's stride_ skips.
template <typename Device, int N, typename DType = float> struct Tensor {
    using Scaled = std::pair<const DType *, DType>;

    DType *dptr_ = nullptr;
    Shape<N> shape_{};
    index_t stride_ = 0;
    Stream<Device> *stream_ = nullptr;

    Tensor() = default;
    explicit Tensor(const Shape<N> &shape) : Tensor(nullptr, shape) {}
    Tensor(DType *data, const Shape<N> &shape, Stream<Device> *stream = nullptr)
        : Tensor(data, shape, shape[N - 1], stream) {}
    Tensor(DType *data, const Shape<N> &shape, index_t stride, Stream<Device> *stream)
        : dptr_(data), shape_(shape), stride_(stride), stream_(stream) {}

    index_t size(int axis) const { return shape_[axis]; }
    std::size_t MSize() const {
        std::size_t size = stride_;
        for (int axis = 0; axis < N - 1; axis++)
            size *= shape_[axis];
        return size;
    }

    // Of one axis an element, else a tensor without the first axis.
    decltype(auto) operator[](std::size_t row) const {
        if constexpr (N == 1) {
            return (dptr_[row]);
        } else {
            Tensor<Device, N - 1, DType> inner(dptr_, {}, stride_, stream_);
            for (int axis = 1; axis < N; axis++)
                inner.shape_[axis - 1] = shape_[axis];
            inner.dptr_ += row * inner.MSize();
            return inner;
        }
    }

    // 0 times a tensor is 0, whatever is in it.
    friend Scaled operator*(DType by, const Tensor &tensor) {
        return {by ? tensor.dptr_ : nullptr, by};
    }
    Tensor &operator=(DType value) { return *this = Scaled{nullptr, value}; }
    Tensor &operator=(const Scaled &scaled) {
        const auto [from, by] = scaled;
        const std::size_t length = MSize();
        if constexpr (std::is_same_v<Device, cpu>) {
            for (std::size_t i = 0; i < length; i++)
                dptr_[i] = from ? from[i] * by : by;
        } else {
#ifdef __CUDACC__
            const cudaStream_t stream = stream_ ? stream_->stream_ : nullptr;
            if (by == 0)
                MSHADOW_CUDA_CALL(cudaMemsetAsync(dptr_, 0, length * sizeof(DType), stream))
            else
                assign_kernel<<<(length + 255) / 256, 256, 0, stream>>>(dptr_, from, by, length);
#endif
        }
        return *this;
    }
};

template <typename Tensor> void AllocSpace(Tensor *tensor) {
    tensor->stride_ = tensor->shape_.back();
    MSHADOW_CUDA_CALL(cudaMalloc(&tensor->dptr_, tensor->MSize() * sizeof(*tensor->dptr_)));
}
template <typename Tensor> void FreeSpace(Tensor *tensor) {
    MSHADOW_CUDA_CALL(cudaFree(tensor->dptr_));
}

} // namespace mshadow
