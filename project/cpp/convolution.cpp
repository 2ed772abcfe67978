// The convolution of the project on the CPU.
#include "convolution.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace {

struct Sizes {
    int M, C, H, W, K, rows, columns;
};

void image(float *y, const float *x, const float *k, const Sizes &s) {
    for (int m = 0; m < s.M; m++) {
        for (int h = 0; h < s.rows; h++, y += s.columns) {
            std::fill(y, y + s.columns, 0.0f);
            const float *weight = k + std::size_t(m) * s.C * s.K * s.K;
            for (int c = 0; c < s.C; c++) {
                for (int p = 0; p < s.K; p++) {
                    const float *row = x + (std::size_t(c) * s.H + h + p) * s.W;
                    for (int q = 0; q < s.K; q++, weight++) {
                        for (int w = 0; w < s.columns; w++) {
                            y[w] += *weight * row[w + q];
                        }
                    }
                }
            }
        }
    }
}

} // namespace

extern "C" void rai_convolve(float *y, const float *x, const float *k, int B, int M,
                             int C, int H, int W, int K, int threads) {
    const Sizes sizes{M, C, H, W, K, H - K + 1, W - K + 1};
    const std::size_t in = std::size_t(C) * H * W;
    const std::size_t out = std::size_t(M) * sizes.rows * sizes.columns;
    std::atomic<int> next{0};
    auto work = [&] {
        for (int b; (b = next++) < B;) {
            image(y + out * b, x + in * b, k, sizes);
        }
    };
    std::vector<std::thread> others;
    for (int t = 1; t < std::min(threads, B); t++) {
        others.emplace_back(work);
    }
    work();
    for (std::thread &other : others) {
        other.join();
    }
}
