// Tensors on the CPU and the GPU: a pointer, a shape, and little arithmetic.
#ifndef MSHADOW_TENSOR_H_
#define MSHADOW_TENSOR_H_

#include <dmlc/logging.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#ifdef __CUDACC__
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define MSHADOW_XINLINE __host__ __device__ __forceinline__
#else
typedef struct CUstream_st *cudaStream_t;
#define MSHADOW_XINLINE inline
#endif

#define MSHADOW_CUDA_CALL(call)                                                                    \
    {                                                                                              \
        const cudaError_t course_error = (call);                                                   \
        CHECK(course_error == cudaSuccess) << "CUDA: " << cudaGetErrorString(course_error);        \
    }

// All arrays of the course's networks are float.
#define MSHADOW_TYPE_SWITCH(type, DType, ...)                                                      \
    {                                                                                              \
        typedef float DType;                                                                       \
        CHECK_EQ(type, mshadow::kFloat32);                                                         \
        { __VA_ARGS__ }                                                                            \
    }
#define MSHADOW_REAL_TYPE_SWITCH MSHADOW_TYPE_SWITCH

namespace mshadow {

typedef unsigned index_t;
typedef float default_real_t;
enum TypeFlag { kFloat32 = 0 };

struct cpu {
    static const int kDevMask = 1;
};
struct gpu {
    static const int kDevMask = 2;
};

template <typename Device> struct Stream {};
template <> struct Stream<gpu> {
    cudaStream_t stream_ = nullptr;

    static cudaStream_t GetStream(Stream *stream) { return stream ? stream->stream_ : nullptr; }
};

template <int N> struct Shape {
    index_t shape_[N];

    MSHADOW_XINLINE index_t &operator[](int axis) { return shape_[axis]; }
    MSHADOW_XINLINE const index_t &operator[](int axis) const { return shape_[axis]; }
    MSHADOW_XINLINE std::size_t Size() const {
        std::size_t size = 1;
        for (int axis = 0; axis < N; axis++)
            size *= shape_[axis];
        return size;
    }
};

MSHADOW_XINLINE Shape<1> Shape1(index_t a) { return {{a}}; }
MSHADOW_XINLINE Shape<2> Shape2(index_t a, index_t b) { return {{a, b}}; }
MSHADOW_XINLINE Shape<3> Shape3(index_t a, index_t b, index_t c) { return {{a, b, c}}; }
MSHADOW_XINLINE Shape<4> Shape4(index_t a, index_t b, index_t c, index_t d) {
    return {{a, b, c, d}};
}

namespace expr {

template <typename DType> struct Scalar {
    DType value;
};
template <typename Tensor> struct Scaled {
    typename Tensor::Element by;
    const Tensor &tensor;
};
template <typename DType> Scalar<DType> scalar(DType value) { return {value}; }

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
    typedef DType Element;

    DType *dptr_ = nullptr;
    Shape<N> shape_;
    index_t stride_ = 0;
    Stream<Device> *stream_ = nullptr;

    MSHADOW_XINLINE Tensor() {}
    MSHADOW_XINLINE explicit Tensor(const Shape<N> &shape) : Tensor(nullptr, shape) {}
    MSHADOW_XINLINE Tensor(DType *data, const Shape<N> &shape, Stream<Device> *stream = nullptr)
        : Tensor(data, shape, shape[N - 1], stream) {}
    MSHADOW_XINLINE Tensor(DType *data, const Shape<N> &shape, index_t stride,
                           Stream<Device> *stream)
        : dptr_(data), shape_(shape), stride_(stride), stream_(stream) {}

    MSHADOW_XINLINE index_t size(int axis) const { return shape_[axis]; }
    MSHADOW_XINLINE std::size_t MSize() const { return shape_.Size() / shape_[N - 1] * stride_; }

    // Of one axis an element, else a tensor without the first axis.
    MSHADOW_XINLINE decltype(auto) operator[](std::size_t row) const {
        if constexpr (N == 1) {
            return (dptr_[row]);
        } else {
            Tensor<Device, N - 1, DType> inner;
            std::size_t each = stride_;
            for (int axis = 1; axis < N; axis++) {
                inner.shape_[axis - 1] = shape_[axis];
                each *= axis < N - 1 ? shape_[axis] : 1;
            }
            inner.dptr_ = dptr_ + row * each;
            inner.stride_ = stride_;
            inner.stream_ = stream_;
            return inner;
        }
    }

    Tensor &operator=(DType value) { return assign(nullptr, value); }
    Tensor &operator=(const expr::Scaled<Tensor> &from) {
        return assign(from.tensor.dptr_, from.by);
    }
    friend expr::Scaled<Tensor> operator*(expr::Scalar<DType> by, const Tensor &tensor) {
        return {by.value, tensor};
    }
    friend expr::Scaled<Tensor> operator*(const Tensor &tensor, expr::Scalar<DType> by) {
        return {by.value, tensor};
    }

  private:
    // this = from * by, or by if there is no `from`
    Tensor &assign(const DType *from, DType by) {
        const std::size_t length = MSize();
        if constexpr (std::is_same<Device, cpu>::value) {
            for (std::size_t i = 0; i < length; i++)
                dptr_[i] = from ? from[i] * by : by;
        } else {
#ifdef __CUDACC__
            const cudaStream_t stream = Stream<gpu>::GetStream(stream_);
            const unsigned blocks = unsigned((length + 255) / 256);
            if (by == DType(0))
                MSHADOW_CUDA_CALL(cudaMemsetAsync(dptr_, 0, length * sizeof(DType), stream))
            else
                assign_kernel<<<blocks, 256, 0, stream>>>(dptr_, from, by, length);
#endif
        }
        return *this;
    }
};

#ifdef __CUDACC__
template <int N, typename DType> void AllocSpace(Tensor<gpu, N, DType> *tensor, bool = true) {
    tensor->stride_ = tensor->shape_[N - 1];
    MSHADOW_CUDA_CALL(cudaMalloc(&tensor->dptr_, tensor->MSize() * sizeof(DType)));
}
template <int N, typename DType> void FreeSpace(Tensor<gpu, N, DType> *tensor) {
    MSHADOW_CUDA_CALL(cudaFree(tensor->dptr_));
}
#endif

} // namespace mshadow

#endif
