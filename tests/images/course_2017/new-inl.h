#include "../operator_common.h"

#include <dmlc/optional.h>
#include <mxnet/operator.h>

namespace mxnet {
namespace op {

struct NewParam : public dmlc::Parameter<NewParam> {
    TShape kernel;
    uint32_t num_filter;
    DMLC_DECLARE_PARAMETER(NewParam) {
        DMLC_DECLARE_FIELD(kernel).describe("rows and columns");
        DMLC_DECLARE_FIELD(num_filter).set_range(1, 1000).describe("maps");
    }
};

template <typename xpu, typename DType>
void forward(mshadow::Tensor<xpu, 4, DType> &y, const mshadow::Tensor<xpu, 4, DType> &x,
             const mshadow::Tensor<xpu, 4, DType> &w);

template <typename xpu, typename DType> class NewOp : public Operator {
  public:
    explicit NewOp(NewParam param) : param_(param) {}

    virtual void Forward(const OpContext &ctx, const std::vector<TBlob> &in,
                         const std::vector<OpReqType> &req, const std::vector<TBlob> &out,
                         const std::vector<TBlob> &) {
        using namespace mshadow::expr;
        CHECK_EQ(req[0], kWriteTo);
        mshadow::Stream<xpu> *s = ctx.get_stream<xpu>();
        const TShape &shape = out[0].shape_;
        auto y = out[0].get_with_shape<xpu, 4, DType>(
            mshadow::Shape4(shape[0], shape[1], shape[2], shape[3]), s);
        y = scalar<DType>(0) * y;
        forward<xpu, DType>(y, in[0].get<xpu, 4, DType>(s), in[1].get<xpu, 4, DType>(s));
        LOG(INFO) << param_.num_filter << " maps by 2017's operator";
    }

  private:
    NewParam param_;
};

template <typename xpu>
Operator *CreateOp(NewParam param, int dtype, std::vector<TShape> *, std::vector<TShape> *, Context);

class NewProp : public OperatorProperty {
  public:
    void Init(const std::vector<std::pair<std::string, std::string>> &texts) override {
        param_.Init(texts);
    }
    std::map<std::string, std::string> GetParams() const override { return param_.__DICT__(); }
    bool InferShape(std::vector<TShape> *in, std::vector<TShape> *out,
                    std::vector<TShape> *) const override {
        CHECK_EQ(param_.kernel.ndim(), 2U) << param_.kernel;
        const mshadow::Shape<4> x = (*in)[0].get<4>();
        const int K = param_.kernel[0];
        SHAPE_ASSIGN_CHECK(*in, 1, mshadow::Shape4(param_.num_filter, x[1], K, K));
        out->resize(1, TShape());
        SHAPE_ASSIGN_CHECK(*out, 0,
                           mshadow::Shape4(x[0], param_.num_filter, x[2] - K + 1, x[3] - K + 1));
        return true;
    }
    OperatorProperty *Copy() const override { return new NewProp(*this); }
    std::string TypeString() const override { return "New"; }
    Operator *CreateOperator(Context) const override { return nullptr; }
    Operator *CreateOperatorEx(Context ctx, std::vector<TShape> *in,
                               std::vector<int> *types) const override;

  private:
    NewParam param_;
};

} // namespace op
} // namespace mxnet
