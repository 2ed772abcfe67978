#pragma once

#include <string>
#include <vector>

struct Shape { // of a convolution: images, output and input maps, input pixels, weights
    int B, M, C, H, W, K, S = 1;
    int rows() const { return (H - K) / S + 1; }
    int columns() const { return (W - K) / S + 1; }
    size_t inputs() const { return (size_t)B * C * H * W; }
    size_t outputs() const { return (size_t)B * M * rows() * columns(); }
    size_t weights() const { return (size_t)M * C * K * K; }
};

// y, x and k are on the host, in the order image, map, row, column; y is 0.
using Convolution = void(float *y, float *x, float *k, const Shape &);
Convolution conv_cpu, conv_gpu; // the project's, timed
Convolution reference;          // ours, to compare with
// An array that stays, as the course's did: some projects let CUDA register it.
float *make(size_t floats, const float *values = nullptr);
// The first place where y is not what is wanted, or the number of places.
size_t differs(const float *y, const std::vector<float> &wanted);

struct Weights {
    std::vector<float> conv1, conv2, fc3, fc4; // each with its bias last
    static Weights load();
};

struct Images {
    int count;
    std::vector<float> pixels; // count x 86 x 86, from 0 to 255
    std::vector<int> labels;   // none of synthetic images
};
Images test_images(int count);

// Return the class of each image.
std::vector<int> classify(const Images &, Weights &, Convolution);
