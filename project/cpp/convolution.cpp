// The convolution of the project on the CPU: direct, its sums in vector registers.
//
// The output's pixels of a map lie in one row of numbers, and a vector takes so many of
// them that follow each other, across the ends of the picture's rows. For each weight of
// a map there is then one load from the image; where a vector crosses the end of a row,
// the lanes behind it come from a second load, K - 1 numbers further on. So no lane
// computes what nobody asked for, nothing is padded and nothing is unrolled.
//
// A block of sums, some maps by some vectors, stays in registers from the first weight
// to the last. For each weight's place there are as many multiplications as sums, and
// only maps + 2 vectors loads.
#include "convolution.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

namespace {

// Numbers of a vector, and vectors of sums that leave registers for all else.
#if defined(__AVX512F__)
constexpr int LANES = 16, SUMS = 24;
#elif defined(__AVX__)
constexpr int LANES = 8, SUMS = 12;
#elif defined(__aarch64__)
constexpr int LANES = 4, SUMS = 24;
#else
constexpr int LANES = 4, SUMS = 12;
#endif
constexpr int MOST_VECTORS = 8;

typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef std::int32_t Ints __attribute__((vector_size(4 * LANES)));

struct Sizes {
    int maps, channels, height, width, kernel, rows, columns;
    std::size_t pixels; // of a map of the output

    std::size_t image() const { return std::size_t(channels) * height * width; }
    std::size_t weights() const { return std::size_t(channels) * kernel * kernel; }
    // Where the window of an output's pixel begins in its image.
    std::size_t window(std::size_t pixel) const {
        return pixel / columns * width + pixel % columns;
    }
    // How many pixels are left in the row of this one.
    int left(std::size_t pixel) const { return columns - int(pixel % columns); }
};

// How a vector's pixels lie in the image.
enum class Pixels { IN_A_ROW, IN_TWO_ROWS, ANYWHERE };

// What is read at any place of the windows of a vector's pixels, one number a lane.
template <Pixels LIE> class Windows {
    const float *first;
    std::ptrdiff_t jump; // to where the lanes behind the row's end are loaded
    Ints behind;

  public:
    void set(const float *x, const Sizes &s, std::size_t pixel) {
        const int left = s.left(pixel);
        first = x + s.window(pixel);
        // Only what a lane needs bounds a load: nothing outside the image is read.
        jump = left < LANES ? s.kernel - 1 : 0;
        Ints lanes{};
        for (int lane = 0; lane < LANES; lane++) {
            lanes[lane] = lane;
        }
        behind = lanes >= left;
    }
    Floats at(std::ptrdiff_t place) const {
        Floats here, there;
        std::memcpy(&here, first + place, sizeof here);
        if (LIE == Pixels::IN_A_ROW) {
            return here;
        }
        std::memcpy(&there, first + place + jump, sizeof there);
        return behind ? there : here;
    }
};

template <> class Windows<Pixels::ANYWHERE> {
    const float *first[LANES];

  public:
    __attribute__((noinline)) void set(const float *x, const Sizes &s,
                                       std::size_t pixel) {
        for (int lane = 0; lane < LANES; lane++) {
            first[lane] = x + s.window(std::min(pixel + lane, s.pixels - 1));
        }
    }
    __attribute__((noinline)) Floats at(std::ptrdiff_t place) const {
        Floats lanes{};
        for (int lane = 0; lane < LANES; lane++) {
            lanes[lane] = first[lane][place];
        }
        return lanes;
    }
};

// Compute some vectors of an image's output, from `pixel` on, of MAPS maps.
template <int MAPS, int VECTORS, Pixels LIE>
void block(float *y, const float *x, const float *k, const Sizes &s,
           std::size_t pixel) {
    Windows<LIE> windows[VECTORS];
#pragma GCC unroll 16
    for (int v = 0; v < VECTORS; v++) {
        windows[v].set(x, s, pixel + v * LANES);
    }
    Floats sums[MAPS][VECTORS];
#pragma GCC unroll 16
    for (int m = 0; m < MAPS; m++) {
#pragma GCC unroll 16
        for (int v = 0; v < VECTORS; v++) {
            sums[m][v] = Floats{};
        }
    }
    const std::ptrdiff_t row = s.width - s.kernel;
    const std::ptrdiff_t channel = std::ptrdiff_t(s.height - s.kernel) * s.width;
    std::ptrdiff_t place = 0;
    for (int c = 0; c < s.channels; c++, place += channel) {
        for (int p = 0; p < s.kernel; p++, place += row) {
            for (int q = 0; q < s.kernel; q++, place++, k += MAPS) {
                Floats in[VECTORS];
#pragma GCC unroll 16
                for (int v = 0; v < VECTORS; v++) {
                    in[v] = windows[v].at(place);
                }
#pragma GCC unroll 16
                for (int m = 0; m < MAPS; m++) {
#pragma GCC unroll 16
                    for (int v = 0; v < VECTORS; v++) {
                        sums[m][v] += k[m] * in[v];
                    }
                }
            }
        }
    }
    const std::size_t wanted = std::min<std::size_t>(LANES, s.pixels);
#pragma GCC unroll 16
    for (int m = 0; m < MAPS; m++) {
#pragma GCC unroll 16
        for (int v = 0; v < VECTORS; v++) {
            float *to = y + m * s.pixels + pixel + v * LANES;
            const bool whole = LIE != Pixels::ANYWHERE || wanted == LANES;
            std::memcpy(to, &sums[m][v], (whole ? LANES : wanted) * sizeof(float));
        }
    }
}

// Compute MAPS maps of an image. The last vector begins early where it would not fit:
// it computes some pixels again.
template <int MAPS>
void maps(float *y, const float *x, const float *k, const Sizes &s) {
    constexpr int VECTORS = std::min(SUMS / MAPS, MOST_VECTORS);
    constexpr int WIDE = VECTORS * LANES;
    const std::size_t end = s.pixels;
    const bool narrow = s.columns < LANES - 1 || end < LANES;
    std::size_t pixel = 0;
    for (; pixel + WIDE <= end && !narrow; pixel += WIDE) {
        if (s.left(pixel) < WIDE) {
            block<MAPS, VECTORS, Pixels::IN_TWO_ROWS>(y, x, k, s, pixel);
        } else {
            block<MAPS, VECTORS, Pixels::IN_A_ROW>(y, x, k, s, pixel);
        }
    }
    for (; pixel < end; pixel += LANES) {
        const std::size_t last = end < LANES ? 0 : end - LANES;
        const std::size_t from = std::min(pixel, last);
        if (narrow) {
            block<MAPS, 1, Pixels::ANYWHERE>(y, x, k, s, from);
        } else {
            block<MAPS, 1, Pixels::IN_TWO_ROWS>(y, x, k, s, from);
        }
    }
}

using Maps = void (*)(float *, const float *, const float *, const Sizes &);
constexpr Maps MAPS[] = {maps<1>, maps<2>, maps<3>, maps<4>,  maps<5>,  maps<6>,
#if defined(__AVX512F__) || defined(__aarch64__)
                         maps<7>, maps<8>, maps<9>, maps<10>, maps<11>, maps<12>
#endif
};
constexpr int MOST_MAPS = sizeof MAPS / sizeof *MAPS;

// Some of the maps, and their weights in the order in which a block reads them.
struct Group {
    int first, count;
    std::vector<float> weights;
};

// Share the maps out evenly to as few groups as there can be.
std::vector<Group> groups(const float *k, const Sizes &s) {
    const int count = (s.maps + MOST_MAPS - 1) / MOST_MAPS;
    std::vector<Group> found;
    for (int g = 0, first = 0; g < count; g++) {
        Group group{first, (s.maps - first) / (count - g), {}};
        group.weights.reserve(group.count * s.weights());
        for (std::size_t w = 0; w < s.weights(); w++) {
            for (int m = first; m < first + group.count; m++) {
                group.weights.push_back(k[m * s.weights() + w]);
            }
        }
        first += group.count;
        found.push_back(std::move(group));
    }
    return found;
}

} // namespace

extern "C" void rai_convolve(float *y, const float *x, const float *k, int B, int M,
                             int C, int H, int W, int K, int threads) {
    Sizes s{M, C, H, W, K, H - K + 1, W - K + 1, 0};
    s.pixels = std::size_t(s.rows) * s.columns;
    const std::vector<Group> every = groups(k, s);
    std::atomic<int> next{0};
    // One image at a time to whoever is free: cores are not equally fast.
    auto work = [&] {
        for (int b; (b = next++) < B;) {
            for (const Group &group : every) {
                float *to = y + (std::size_t(b) * M + group.first) * s.pixels;
                MAPS[group.count - 1](to, x + b * s.image(), group.weights.data(), s);
            }
        }
    };
    std::vector<std::thread> others;
    try {
        for (int t = 1; t < std::min(threads, B); t++) {
            others.emplace_back(work);
        }
    } catch (const std::system_error &) {
        // The system allows no more threads: those that there are do the work.
    }
    work();
    for (std::thread &other : others) {
        other.join();
    }
}
