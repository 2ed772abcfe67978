#include "./new-inl.h"
#include "./new-forward.cuh"

namespace mxnet {
namespace op {

template <>
Operator *CreateOp<gpu>(NewParam param, int dtype, std::vector<TShape> *, std::vector<TShape> *,
                        Context) {
    MSHADOW_REAL_TYPE_SWITCH(dtype, DType, { return new NewOp<gpu, DType>(param); })
    return NULL;
}

} // namespace op
} // namespace mxnet
