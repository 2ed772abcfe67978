// What an operator of the course's is written with, and how its library calls it.
#pragma once

#include <mshadow/tensor.h>

#include <memory>

namespace mxnet {

using namespace mshadow;

struct TShape : std::vector<index_t> {
    using std::vector<index_t>::vector;
    TShape() = default;
    template <std::size_t N>
    TShape(const Shape<N> &shape) : std::vector<index_t>(shape.begin(), shape.end()) {}

    index_t ndim() const { return index_t(size()); }
    template <int N> Shape<N> get() const {
        CHECK_EQ(ndim(), N);
        Shape<N> shape;
        std::copy(begin(), end(), shape.begin());
        return shape;
    }
};

// Read and write a shape as Python does: (5, 5).
inline std::istream &operator>>(std::istream &text, TShape &shape) {
    index_t length;
    for (char mark; text >> mark && mark != ')' && text >> length;)
        shape.push_back(length);
    return text;
}
inline std::ostream &operator<<(std::ostream &text, const TShape &shape) {
    for (std::size_t axis = 0; axis < shape.size(); axis++)
        text << (axis ? ", " : "(") << shape[axis];
    return text << ')';
}

struct TBlob {
    void *dptr_;
    TShape shape_;

    template <typename Device, int N, typename DType>
    Tensor<Device, N, DType> get_with_shape(const Shape<N> &shape, Stream<Device> *stream) const {
        return {static_cast<DType *>(dptr_), shape, stream};
    }
    template <typename Device, int N, typename DType>
    Tensor<Device, N, DType> get(Stream<Device> *stream = nullptr) const {
        return get_with_shape<Device, N, DType>(shape_.get<N>(), stream);
    }
};

struct Context {
    enum { kCPU, kGPU } dev_type;
};
struct OpContext {
    int is_train;
    void *stream;

    template <typename Device> Stream<Device> *get_stream() const {
        return static_cast<Stream<Device> *>(stream);
    }
};
enum OpReqType { kNullOp, kWriteTo, kWriteInplace, kAddTo };

using Blobs = std::vector<TBlob>;
using Shapes = std::vector<TShape>;
using Types = std::vector<int>;

struct Operator {
    virtual ~Operator() {}
    virtual void Forward(const OpContext &, const Blobs &in, const std::vector<OpReqType> &,
                         const Blobs &out, const Blobs &) = 0;
};

struct OperatorProperty {
    virtual ~OperatorProperty() {}
    virtual void Init(const std::vector<std::pair<std::string, std::string>> &) = 0;
    virtual dmlc::Texts GetParams() const = 0;
    virtual std::vector<std::string> ListArguments() const { return {}; }
    virtual bool InferShape(Shapes *, Shapes *, Shapes *) const = 0;
    virtual bool InferType(Types *, Types *, Types *) const { return true; }
    virtual OperatorProperty *Copy() const = 0;
    virtual std::string TypeString() const = 0;
    virtual Operator *CreateOperator(Context) const = 0;
    virtual Operator *CreateOperatorEx(Context, Shapes *, Types *) const = 0;
};

// Operator New on the CPU and on the GPU, as course.cpp calls it: y from x and w.
using New = void (*)(Context, const OpContext &, const TBlob &x, const TBlob &w, const TBlob &y);
struct Registered {
    static New on_cpu, on_gpu;
};

template <typename Property> dmlc::Described register_property() {
    Registered::on_cpu = Registered::on_gpu = [](Context context, const OpContext &how,
                                                 const TBlob &x, const TBlob &w, const TBlob &y) {
        const std::string maps = std::to_string(w.shape_[0]), side = std::to_string(w.shape_[2]);
        Property property;
        property.Init({{"kernel", "(" + side + ", " + side + ")"}, {"num_filter", maps}});
        Shapes shapes{x.shape_, w.shape_};
        Types types(2);
        const std::unique_ptr<Operator> made(property.CreateOperatorEx(context, &shapes, &types));
        made->Forward(how, {x, w}, {kWriteTo}, {y}, {});
    };
    return {};
}

inline void assign_shape(TShape &shape, const TShape &found) {
    CHECK(shape.empty() || shape == found) << shape << " is not " << found;
    shape = found;
}

} // namespace mxnet

#define MXNET_REGISTER_OP_PROPERTY(name, Property)                                                 \
    static const auto registered_##name = ::mxnet::register_property<Property>()
#define SHAPE_ASSIGN_CHECK(shapes, index, shape) ::mxnet::assign_shape((shapes)[index], shape)
#define ADD_FILELINE ""

#if MXNET_USE_CUDA
#define DO_BIND_DISPATCH(create, ...)                                                              \
    return ctx.dev_type == ::mxnet::Context::kGPU ? create<::mxnet::gpu>(__VA_ARGS__)              \
                                                  : create<::mxnet::cpu>(__VA_ARGS__)
#else
#define DO_BIND_DISPATCH(create, ...) return create<::mxnet::cpu>(__VA_ARGS__)
#endif
