// Tensors on the CPU and the GPU: a pointer, a shape, and little arithmetic.
#ifndef MSHADOW_TENSOR_H_
#define MSHADOW_TENSOR_H_

#include <dmlc/logging.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#ifdef __CUDACC__
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define MSHADOW_XINLINE __host__ __device__ __forceinline__
#else
typedef struct CUstream_st *cudaStream_t;
#define MSHADOW_XINLINE inline
#endif
#define MSHADOW_CINLINE inline

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
    static const bool kDevCPU = true;
    static const int kDevMask = 1;
};
struct gpu {
    static const bool kDevCPU = false;
    static const int kDevMask = 2;
};

template <typename Device> struct Stream {
    void Wait() {}
};
template <> struct Stream<gpu> {
    cudaStream_t stream_ = nullptr;

    static cudaStream_t GetStream(Stream<gpu> *stream) {
        return stream ? stream->stream_ : nullptr;
    }
#ifdef __CUDACC__
    void Wait() { MSHADOW_CUDA_CALL(cudaStreamSynchronize(stream_)); }
#endif
};

template <int N> struct Shape {
    static const int kDimension = N;
    index_t shape_[N];

    MSHADOW_XINLINE index_t &operator[](int axis) { return shape_[axis]; }
    MSHADOW_XINLINE const index_t &operator[](int axis) const { return shape_[axis]; }
    MSHADOW_XINLINE bool operator==(const Shape &other) const {
        for (int axis = 0; axis < N; axis++)
            if (shape_[axis] != other[axis])
                return false;
        return true;
    }
    MSHADOW_XINLINE std::size_t Size() const {
        std::size_t size = 1;
        for (int axis = 0; axis < N; axis++)
            size *= shape_[axis];
        return size;
    }
    MSHADOW_XINLINE Shape<N - 1> SubShape() const {
        Shape<N - 1> inner;
        for (int axis = 1; axis < N; axis++)
            inner[axis - 1] = shape_[axis];
        return inner;
    }
};
template <> struct Shape<0> {};

MSHADOW_XINLINE Shape<1> Shape1(index_t a) { return {{a}}; }
MSHADOW_XINLINE Shape<2> Shape2(index_t a, index_t b) { return {{a, b}}; }
MSHADOW_XINLINE Shape<3> Shape3(index_t a, index_t b, index_t c) { return {{a, b, c}}; }
MSHADOW_XINLINE Shape<4> Shape4(index_t a, index_t b, index_t c, index_t d) {
    return {{a, b, c, d}};
}
MSHADOW_XINLINE Shape<5> Shape5(index_t a, index_t b, index_t c, index_t d, index_t e) {
    return {{a, b, c, d, e}};
}

namespace expr {

template <typename DType> struct Scalar {
    DType value;
};
template <typename T> struct Scaled {
    typename T::Element by;
    T tensor;
};
template <typename DType> Scalar<DType> scalar(DType value) { return {value}; }

} // namespace expr

// The last axis has stride_ elements from row to row, all others are contiguous.
template <typename Device, int N, typename DType = default_real_t> struct Tensor {
    typedef DType Element;
    static const int dim = N, kSubdim = N - 1;

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
    MSHADOW_XINLINE std::size_t MSize() const { return MemSize<0>(); }
    MSHADOW_XINLINE bool CheckContiguous() const { return stride_ == shape_[N - 1]; }
    template <int FIRST> MSHADOW_XINLINE std::size_t MemSize() const {
        std::size_t size = stride_;
        for (int axis = FIRST; axis < N - 1; axis++)
            size *= shape_[axis];
        return size;
    }
    MSHADOW_XINLINE void set_stream(Stream<Device> *stream) { stream_ = stream; }

    // One row of the first axis: a tensor of fewer axes, or of one axis an element.
    MSHADOW_XINLINE decltype(auto) operator[](std::size_t row) const {
        if constexpr (N == 1)
            return (dptr_[row]);
        else
            return Tensor<Device, N - 1, DType>(dptr_ + row * MemSize<1>(), shape_.SubShape(),
                                                stride_, stream_);
    }
    MSHADOW_XINLINE Tensor<Device, 2, DType> FlatTo2D() const {
        const index_t columns = shape_[N - 1];
        return {dptr_, Shape2(index_t(shape_.Size() / columns), columns), stride_, stream_};
    }

    Tensor &operator=(DType value) { return assign(nullptr, value); }
    Tensor &operator=(const expr::Scaled<Tensor> &from) {
        return assign(from.tensor.dptr_, from.by);
    }

  private:
    Tensor &assign(const DType *from, DType by); // this = from * by, or by without from
};

template <typename Device, int N, typename DType>
expr::Scaled<Tensor<Device, N, DType>> operator*(expr::Scalar<DType> by,
                                                 const Tensor<Device, N, DType> &tensor) {
    return {by.value, tensor};
}
template <typename Device, int N, typename DType>
expr::Scaled<Tensor<Device, N, DType>> operator*(const Tensor<Device, N, DType> &tensor,
                                                 expr::Scalar<DType> by) {
    return {by.value, tensor};
}
template <typename Device, int N, typename DType>
expr::Scaled<Tensor<Device, N, DType>> operator*(DType by, const Tensor<Device, N, DType> &tensor) {
    return {by, tensor};
}
template <typename Device, int N, typename DType>
expr::Scaled<Tensor<Device, N, DType>> operator*(const Tensor<Device, N, DType> &tensor, DType by) {
    return {by, tensor};
}

#ifdef __CUDACC__
template <typename DType>
__global__ void assign_kernel(DType *y, const DType *x, DType by, std::size_t length) {
    const std::size_t i = blockIdx.x * std::size_t(blockDim.x) + threadIdx.x;
    if (i < length)
        y[i] = x ? x[i] * by : by;
}
#endif

template <typename Device, int N, typename DType>
Tensor<Device, N, DType> &Tensor<Device, N, DType>::assign(const DType *from, DType by) {
    const std::size_t length = MSize();
    if constexpr (Device::kDevCPU) {
        for (std::size_t i = 0; i < length; i++)
            dptr_[i] = from ? from[i] * by : by;
    } else {
#ifdef __CUDACC__
        const cudaStream_t stream = Stream<gpu>::GetStream(stream_);
        if (by == DType(0)) {
            MSHADOW_CUDA_CALL(cudaMemsetAsync(dptr_, 0, length * sizeof(DType), stream));
        } else {
            const unsigned blocks = unsigned((length + 255) / 256);
            assign_kernel<<<blocks, 256, 0, stream>>>(dptr_, from, by, length);
        }
#endif
    }
    return *this;
}

template <typename Device, int N, typename DType>
void AllocSpace(Tensor<Device, N, DType> *tensor, bool = true) {
    tensor->stride_ = tensor->shape_[N - 1];
    const std::size_t bytes = tensor->MSize() * sizeof(DType);
    if constexpr (Device::kDevCPU) {
        tensor->dptr_ = static_cast<DType *>(std::malloc(bytes));
    } else {
#ifdef __CUDACC__
        MSHADOW_CUDA_CALL(cudaMalloc(&tensor->dptr_, bytes));
#endif
    }
}

template <typename Device, int N, typename DType>
void FreeSpace(Tensor<Device, N, DType> *tensor) {
    if constexpr (Device::kDevCPU) {
        std::free(tensor->dptr_);
    } else {
#ifdef __CUDACC__
        MSHADOW_CUDA_CALL(cudaFree(tensor->dptr_));
#endif
    }
    tensor->dptr_ = nullptr;
}

template <typename Device, typename DType, int N>
Tensor<Device, N, DType> NewTensor(const Shape<N> &shape, DType value, bool = true,
                                   Stream<Device> *stream = nullptr) {
    Tensor<Device, N, DType> tensor(nullptr, shape, stream);
    AllocSpace(&tensor);
    tensor = value;
    return tensor;
}

template <typename To, typename From, int N, typename DType>
void Copy(Tensor<To, N, DType> to, const Tensor<From, N, DType> &from, Stream<gpu> * = nullptr) {
    const std::size_t bytes = from.MSize() * sizeof(DType);
#ifdef __CUDACC__
    MSHADOW_CUDA_CALL(cudaMemcpy(to.dptr_, from.dptr_, bytes, cudaMemcpyDefault));
#else
    std::memcpy(to.dptr_, from.dptr_, bytes);
#endif
}

} // namespace mshadow

#endif
