#include <mxnet/base.h>

namespace mxnet {
namespace op {

// Rows and columns beyond the output are written, too, as by some projects.
template <typename cpu, typename DType>
void forward(mshadow::Tensor<cpu, 4, DType> &y, const mshadow::Tensor<cpu, 4, DType> &x,
             const mshadow::Tensor<cpu, 4, DType> &k) {
    const int K = k.shape_[3];
    CHECK_EQ(x.shape_[1], k.size(1)) << "channels";
    for (int b = 0; b < (int)x.shape_[0]; b++)
        for (int m = 0; m < (int)y.shape_[1]; m++)
            for (int h = 0; h < (int)x.shape_[2]; h++)
                for (int w = 0; w < (int)x.shape_[3]; w++) {
                    y[b][m][h][w] = 0;
                    for (int c = 0; c < (int)x.shape_[1]; c++)
                        for (int p = 0; p < K; p++)
                            for (int q = 0; q < K; q++)
                                y[b][m][h][w] += x[b][c][h + p][w + q] * k[m][c][p][q];
                }
}

} // namespace op
} // namespace mxnet
