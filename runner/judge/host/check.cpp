// Compare a convolution's y with sums in float64.
//
//   check X K Y B M C H W K
//
// prints a line: the number of wrong outputs, the index of the first, what it is, what it
// should be, and the largest error as a share of what is allowed. x is B x C x H x W, k is
// M x C x K x K, y is B x M x (H-K+1) x (W-K+1), each a file of float32.
//
// A sum of n float32 products, added in any order, is off by at most (n + 1) u of the sum
// of their absolute values, to first order, where u is 2^-24 (Higham, Accuracy and Stability of Numerical
// Algorithms, section 3.1). A product or sum that is too small to be normal may be off by,
// or become, the least normal number.
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

std::vector<float> read(const std::string &path, std::size_t count) {
    std::vector<float> values(count);
    std::ifstream file(path, std::ios::binary);
    const auto bytes = std::streamsize(count * sizeof(float));
    if (!file.read(reinterpret_cast<char *>(values.data()), bytes)) {
        throw std::runtime_error("cannot read " + path);
    }
    return values;
}

} // namespace

int main(int count, char **words) try {
    if (count != 10) {
        throw std::runtime_error("usage: check X K Y B M C H W K");
    }
    const auto size = [words](int n) { return std::strtoull(words[n], nullptr, 10); };
    const std::size_t B = size(4), M = size(5), C = size(6), H = size(7), W = size(8),
                      K = size(9), rows = H - K + 1, columns = W - K + 1;
    const std::vector<float> x = read(words[1], B * C * H * W),
                             k = read(words[2], M * C * K * K),
                             y = read(words[3], B * M * rows * columns);
    const double taps = double(C * K * K), share = (taps + 2) * FLT_EPSILON / 2;
    std::size_t wrong = 0, first = 0, index = 0;
    double found = 0, expected = 0, worst = 0;
    for (std::size_t b = 0; b < B; b++) {
        for (std::size_t m = 0; m < M; m++) {
            for (std::size_t h = 0; h < rows; h++) {
                for (std::size_t w = 0; w < columns; w++, index++) {
                    double sum = 0, size = 0;
                    const float *weight = &k[m * C * K * K];
                    for (std::size_t c = 0; c < C; c++) {
                        for (std::size_t p = 0; p < K; p++) {
                            const float *pixel = &x[((b * C + c) * H + h + p) * W + w];
                            for (std::size_t q = 0; q < K; q++, weight++) {
                                const double product = double(pixel[q]) * *weight;
                                sum += product;
                                size += std::fabs(product);
                            }
                        }
                    }
                    const double off = std::fabs(double(y[index]) - sum);
                    const double part = off / (share * size + taps * FLT_MIN);
                    if (part <= 1) {
                        worst = std::fmax(worst, part);
                    } else if (wrong++ == 0) {
                        first = index, found = y[index], expected = sum;
                    }
                }
            }
        }
    }
    std::printf("%zu %zu %.9g %.9g %.9g\n", wrong, first, found, expected, worst);
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
