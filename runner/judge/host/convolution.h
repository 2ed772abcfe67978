// The interface of the project's convolution on the CPU.
#ifndef RAI_CONVOLUTION_H
#define RAI_CONVOLUTION_H

// Convolve B images of C x H x W with M maps of C x K x K weights: no padding, stride 1.
// x is B x C x H x W, k is M x C x K x K, y is B x M x (H-K+1) x (W-K+1), all of them
// contiguous; y is overwritten. `threads` includes the caller's. The function may be
// called from several threads at once.
extern "C" void rai_convolve(float *y, const float *x, const float *k, int B, int M,
                             int C, int H, int W, int K, int threads);

#endif
