// gpu-new-forward.h: what the program calls for each of the network's two convolutions, in this order.
//
// Of B images, each of C maps of H x W numbers, a convolution makes M maps of (H - K + 1) x (W - K + 1); the
// weights are M x C x K x K. Arrays lie in this order: image, map, row, column.
#pragma once

class GPUInterface {
public:
    void get_device_properties(); // to print what you like to know; it is not called

    // Allocate memory of the GPU for all numbers of each array, put its addresses into *device_..., and copy input and
    // mask (the weights) there.
    void conv_forward_gpu_prolog(const float *host_output, const float *host_input, const float *host_mask,
                                 float **device_output_ptr, float **device_input_ptr, float **device_mask_ptr,
                                 const int B, const int M, const int C, const int H, const int W, const int K);

    // Convolve. The time of this function, until the GPU has done all, is the `Op Time:`.
    void conv_forward_gpu(float *device_output, const float *device_input, const float *device_mask,
                          const int B, const int M, const int C, const int H, const int W, const int K);

    // Copy the output back, and free the memory.
    void conv_forward_gpu_epilog(float *host_output, float *device_output, float *device_input, float *device_mask,
                                 const int B, const int M, const int C, const int H, const int W, const int K);
};
