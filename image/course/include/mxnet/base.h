// What an operator of the course's is written with, and how its library calls it.
#ifndef MXNET_BASE_H_
#define MXNET_BASE_H_

#include <dmlc/parameter.h>
#include <mshadow/tensor.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mxnet {

using mshadow::cpu;
using mshadow::gpu;
using mshadow::index_t;
typedef mshadow::default_real_t real_t;

struct TShape : std::vector<index_t> {
    using std::vector<index_t>::vector;
    TShape() {}
    template <int N>
    TShape(const mshadow::Shape<N> &shape) : std::vector<index_t>(shape.shape_, shape.shape_ + N) {}

    index_t ndim() const { return index_t(size()); }
    template <int N> mshadow::Shape<N> get() const {
        CHECK_EQ(ndim(), N);
        mshadow::Shape<N> shape;
        std::copy(begin(), end(), shape.shape_);
        return shape;
    }
};

// Read and write a shape as Python does: (5, 5).
inline std::istream &operator>>(std::istream &text, TShape &shape) {
    shape.clear();
    char mark = 0;
    index_t length;
    text >> mark;
    while (mark != ')' && mark != ']' && text >> length >> mark)
        shape.push_back(length);
    return text;
}
inline std::ostream &operator<<(std::ostream &text, const TShape &shape) {
    text << '(';
    for (std::size_t axis = 0; axis < shape.size(); axis++)
        text << (axis ? ", " : "") << shape[axis];
    return text << ')';
}

struct TBlob {
    void *dptr_ = nullptr;
    TShape shape_;
    int type_flag_ = mshadow::kFloat32;

    template <typename Device, int N, typename DType>
    mshadow::Tensor<Device, N, DType>
    get_with_shape(const mshadow::Shape<N> &shape, mshadow::Stream<Device> *stream = nullptr) const {
        return {static_cast<DType *>(dptr_), shape, stream};
    }
    template <typename Device, int N, typename DType>
    mshadow::Tensor<Device, N, DType> get(mshadow::Stream<Device> *stream = nullptr) const {
        return get_with_shape<Device, N, DType>(shape_.get<N>(), stream);
    }
};

struct Context {
    enum DeviceType { kCPU = cpu::kDevMask, kGPU = gpu::kDevMask };
    DeviceType dev_type = kCPU;
    int dev_id = 0;

    int dev_mask() const { return dev_type; }
};

struct OpContext {
    int is_train = 0;
    void *stream = nullptr;

    template <typename Device> mshadow::Stream<Device> *get_stream() const {
        return static_cast<mshadow::Stream<Device> *>(stream);
    }
};

enum OpReqType { kNullOp, kWriteTo, kWriteInplace, kAddTo };

class Operator {
  public:
    virtual ~Operator() {}
    virtual void Forward(const OpContext &, const std::vector<TBlob> &in,
                         const std::vector<OpReqType> &, const std::vector<TBlob> &out,
                         const std::vector<TBlob> &) = 0;
    virtual void Backward(const OpContext &, const std::vector<TBlob> &, const std::vector<TBlob> &,
                          const std::vector<TBlob> &, const std::vector<OpReqType> &,
                          const std::vector<TBlob> &, const std::vector<TBlob> &) {}
};

class OperatorProperty {
  public:
    virtual ~OperatorProperty() {}
    virtual void Init(const std::vector<std::pair<std::string, std::string>> &) = 0;
    virtual std::map<std::string, std::string> GetParams() const = 0;
    virtual std::vector<std::string> ListArguments() const { return {"data", "weight"}; }
    virtual bool InferShape(std::vector<TShape> *, std::vector<TShape> *,
                            std::vector<TShape> *) const = 0;
    virtual bool InferType(std::vector<int> *, std::vector<int> *, std::vector<int> *) const {
        return true;
    }
    virtual OperatorProperty *Copy() const = 0;
    virtual std::string TypeString() const = 0;
    virtual Operator *CreateOperator(Context) const = 0;
    virtual Operator *CreateOperatorEx(Context context, std::vector<TShape> *,
                                       std::vector<int> *) const {
        return CreateOperator(context);
    }
};

// Operator New on the CPU and on the GPU, as course.cpp calls it: y from x and w.
typedef void (*New)(Context, const OpContext &, const TBlob &x, const TBlob &w, const TBlob &y);

struct Registered {
    static New on_cpu, on_gpu;

    Registered(Context::DeviceType device, New function) {
        (device == Context::kGPU ? on_gpu : on_cpu) = function;
    }
    template <typename... Any> Registered describe(Any &&...) const { return *this; }
    template <typename... Any> Registered add_argument(Any &&...) const { return *this; }
    template <typename... Any> Registered add_arguments(Any &&...) const { return *this; }
};

template <typename Property>
void forward_by(Context context, const OpContext &how, const TBlob &x, const TBlob &w,
                const TBlob &y) {
    Property property;
    std::ostringstream kernel;
    kernel << TShape{w.shape_[2], w.shape_[3]};
    property.Init({{"kernel", kernel.str()}, {"num_filter", std::to_string(w.shape_[0])}});
    std::vector<TShape> shapes{x.shape_, w.shape_};
    std::vector<int> types{x.type_flag_, w.type_flag_};
    const std::unique_ptr<Operator> made(property.CreateOperatorEx(context, &shapes, &types));
    made->Forward(how, {x, w}, {kWriteTo}, {y}, {});
}

template <typename Property> Registered register_property() {
    Registered(Context::kCPU, forward_by<Property>);
    return Registered(Context::kGPU, forward_by<Property>);
}

} // namespace mxnet

#define MXNET_REGISTER_OP_PROPERTY(name, Property)                                                 \
    static const ::mxnet::Registered registered_##name = ::mxnet::register_property<Property>()
#define ADD_FILELINE ""

#if MXNET_USE_CUDA
#define DO_BIND_DISPATCH(create, ...)                                                              \
    return ctx.dev_mask() == ::mxnet::gpu::kDevMask ? create<::mxnet::gpu>(__VA_ARGS__)            \
                                                    : create<::mxnet::cpu>(__VA_ARGS__)
#else
#define DO_BIND_DISPATCH(create, ...) return create<::mxnet::cpu>(__VA_ARGS__)
#endif

#define SHAPE_ASSIGN_CHECK(shapes, index, shape)                                                   \
    {                                                                                              \
        ::mxnet::TShape &course_shape = (shapes)[index];                                           \
        const ::mxnet::TShape course_found(shape);                                                 \
        CHECK(course_shape.empty() || course_shape == course_found)                                \
            << course_shape << " is not " << course_found;                                         \
        course_shape = course_found;                                                               \
    }

#endif
