#include "./new-inl.h"
#include "./new-forward.h"

namespace mxnet {
namespace op {

DMLC_REGISTER_PARAMETER(NewParam);

template <>
Operator *CreateOp<cpu>(NewParam param, int dtype, std::vector<TShape> *, std::vector<TShape> *,
                        Context) {
    MSHADOW_REAL_TYPE_SWITCH(dtype, DType, { return new NewOp<cpu, DType>(param); })
    return NULL;
}

Operator *NewProp::CreateOperatorEx(Context ctx, std::vector<TShape> *in,
                                    std::vector<int> *types) const {
    std::vector<TShape> out, aux;
    CHECK(InferShape(in, &out, &aux));
    DO_BIND_DISPATCH(CreateOp, param_, (*types)[0], in, &out, ctx);
}

MXNET_REGISTER_OP_PROPERTY(New, NewProp)
    .describe(R"code(a convolution)code" ADD_FILELINE)
    .add_argument("data", "NDArray-or-Symbol", "images")
    .add_arguments(NewParam::__FIELDS__());

} // namespace op
} // namespace mxnet
