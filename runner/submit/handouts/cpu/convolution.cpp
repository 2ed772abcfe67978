// convolution.cpp: the convolution on the CPU.
//
//     y[b][m][h][w] = sum over c, p, q of x[b][c][h + p][w + q] * k[m][c][p][q]
//
// x is B x C x H x W, k is M x C x K x K, y is B x M x (H - K + 1) x (W - K + 1), float, row
// by row. `threads` is how many threads may work at once; one is enough to be right.
#include <cstddef>

extern "C" void rai_convolve(float *y, const float *x, const float *k, int B, int M, int C,
                             int H, int W, int K, int threads)
{
    // TODO: write every number of y.
}
