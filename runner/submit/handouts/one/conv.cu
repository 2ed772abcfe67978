// conv.cu: the convolution on the GPU.
//
//     y[b][m][h][w] = sum over c, p, q of x[b][c][h + p][w + q] * k[m][c][p][q]
//
// x is B x C x H x W, k is M x C x K x K, y is B x M x H_out x W_out, float, row by row.
// plan.json says how the kernel is launched: blocks of TILE x TILE threads; blockIdx.x
// counts the tiles of a map row by row, blockIdx.y is the map m, blockIdx.z the image b.
// It also sets TILE, and passes the arguments in the order in which they stand here.
//
// `extern "C"` keeps the kernel's name as it is, so that rai finds it.
extern "C" __global__ void conv_forward(float *y, const float *x, const float *k, int B,
                                        int M, int C, int H, int W, int K)
{
    const int H_out = H - K + 1, W_out = W - K + 1;
#define y4d(b, m, h, w) y[(((size_t)(b) * M + (m)) * H_out + (h)) * W_out + (w)]
#define x4d(b, c, h, w) x[(((size_t)(b) * C + (c)) * H + (h)) * W + (w)]
#define k4d(m, c, p, q) k[(((m) * C + (c)) * K + (p)) * K + (q)]

    // TODO: find this thread's b, m, h and w. The last tiles reach over the map's edge,
    // so a thread with h >= H_out or w >= W_out has nothing to do. Then sum, and write y.
}
