// A milestone's program, [number of images]: the network with the project's CONVOLUTION.

#include "minidnn.h"

#include <cstdlib>
#include <exception>
#include <iostream>

#ifndef IMAGES
#define IMAGES 10000
#endif

namespace {

// The strided convolutions with which 2023's programs began.
bool strides_are_right()
{
    bool right = true;
    int number = 0;
    for (const Shape &s : {Shape{1, 3, 3, 224, 224, 3, 1}, Shape{2, 3, 3, 301, 301, 3, 2},
                           Shape{3, 3, 3, 196, 196, 3, 3}, Shape{4, 3, 3, 239, 239, 3, 4}}) {
        std::cout << "Running test case " << ++number << "\nB = " << s.B << " M = " << s.M
                  << " C = " << s.C << " H = " << s.H << " W = " << s.W << " K = " << s.K
                  << " S = " << s.S << std::endl;
        std::vector<float> x(s.inputs()), k(s.weights()), wanted(s.outputs());
        unsigned state = number;
        for (auto *array : {&x, &k})
            for (float &value : *array)
                value = ((state = state * 1664525 + 1013904223) >> 8) / 16777216.f;
        float *y = make(s.outputs());
        CONVOLUTION(y, make(x.size(), x.data()), make(k.size(), k.data()), s);
        reference(wanted.data(), x.data(), k.data(), s);
        if (const size_t n = differs(y, wanted); n < wanted.size()) {
            std::cout << "Mismatch at index " << n << " a = " << y[n] << " b = " << wanted[n]
                      << "\nTest case " << number << " failed" << std::endl;
            std::cerr << "forward() is wrong: test case " << number << std::endl;
            right = false;
        }
    }
    if (right)
        std::cout << "All test cases passed" << std::endl;
    return right;
}

} // namespace

int main(int argc, char **argv)
try {
    const int count = argc == 2 ? std::atoi(argv[1]) : IMAGES;
    if (count < 1 || count > 10000) {
        std::cerr << argv[0] << ": give a number of images from 1 to 10000.\n";
        return 2;
    }
#if defined STRIDED && !defined CLEARED // where the network alone is timed
    if (!strides_are_right())
        return 1;
#endif
    std::cout << "Test batch size: " << count << "\nLoading fashion-mnist data..." << std::flush;
    Images images = test_images(count);
    std::cout << "Done\nLoading model..." << std::flush;
    Weights weights = Weights::load();
    std::cout << "Done" << std::endl;
    const std::vector<int> found = classify(images, weights, CONVOLUTION);
    const bool synthetic = images.labels.empty();
    if (synthetic) {
        std::cerr << "No Fashion-MNIST in RAI_DATA_DIR or /data: random images stand in, and what is "
                     "printed is the agreement with our own convolution.\n";
        images.labels = classify(images, weights, reference);
    }
    int right = 0;
    for (size_t n = 0; n < found.size(); n++)
        right += found[n] == images.labels[n];
    const float share = (float)right / found.size();
    std::cout << "\n" << (synthetic ? "Agreement: " : "Test Accuracy: ") << share
              << (synthetic ? " Model: minidnn (synthetic)" : "") << "\n" << std::endl;
} catch (const std::exception &error) {
    std::cerr << argv[0] << ": " << error.what() << ".\n";
    return 1;
}
