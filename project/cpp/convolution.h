// The project's own convolution on the CPU, for whatever links or loads it.
#ifndef RAI_CONVOLUTION_H
#define RAI_CONVOLUTION_H

// Convolve B images of C x H x W by M maps of C x K x K weights: no padding, stride 1.
// x is B x C x H x W, k is M x C x K x K, y is B x M x (H-K+1) x (W-K+1), all of them
// contiguous; y is written entirely and never read. It works on so many threads, of
// which the caller's is one, and may be called from several threads at once.
extern "C" void rai_convolve(float *y, const float *x, const float *k, int B, int M,
                             int C, int H, int W, int K, int threads);

#endif
