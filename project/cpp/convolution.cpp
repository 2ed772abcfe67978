// The project's convolution on the CPU: direct, with sums in vector registers.
//
// A vector holds consecutive output pixels of a map, across the ends of rows. For each
// weight of a map there is one load from the image; if the vector crosses the end of a
// row, the lanes after it come from a second load, K - 1 elements further on. So no lane
// is idle, nothing is padded, and no matrix of windows is written.
//
// A block of sums, maps x vectors, stays in registers from the first weight to the last.
// For each position in a window there are maps x vectors multiplications, and only
// maps + vectors loads, or maps + 2 vectors at the end of a row.
#include "convolution.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <thread>
#include <vector>

namespace {

// Elements of a vector, and vectors of sums that leave registers for everything else.
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

// The sizes of a convolution, and values derived from them.
struct Layer {
    int maps, channels, height, width, kernel, rows, columns;
    std::size_t pixels; // of a map of the output
    // The offset of each weight's pixel from the first pixel of the window.
    std::vector<std::ptrdiff_t> places;

    Layer(int M, int C, int H, int W, int K)
        : maps(M), channels(C), height(H), width(W), kernel(K), rows(H - K + 1),
          columns(W - K + 1),
          pixels(rows > 0 && columns > 0 ? std::size_t(rows) * columns : 0) {
        for (int c = 0; c < C; c++) {
            for (int p = 0; p < K; p++) {
                for (int q = 0; q < K; q++) {
                    places.push_back((std::ptrdiff_t(c) * H + p) * W + q);
                }
            }
        }
    }
    std::size_t image() const { return std::size_t(channels) * height * width; }
    std::size_t window(std::size_t pixel) const {
        return pixel / columns * width + pixel % columns;
    }
    // The number of pixels left in this one's row.
    int left(std::size_t pixel) const { return columns - int(pixel % columns); }
};

// The positions of a vector's pixels in the image.
enum class Pixels { IN_A_ROW, IN_TWO_ROWS, ANYWHERE };

// The loads for one position in the windows of a vector's pixels, one element per lane.
template <Pixels LIE> class Windows {
    const float *first;
    std::ptrdiff_t jump; // offset of the load for the lanes after the row's end
    Ints behind;

  public:
    void set(const float *x, const Layer &layer, std::size_t pixel) {
        const int left = layer.left(pixel);
        first = x + layer.window(pixel);
        // Load only what lanes need, so that nothing outside the image is read.
        jump = left < LANES ? layer.kernel - 1 : 0;
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
    __attribute__((noinline)) void set(const float *x, const Layer &layer,
                                       std::size_t pixel) {
        for (int lane = 0; lane < LANES; lane++) {
            first[lane] = x + layer.window(std::min(pixel + lane, layer.pixels - 1));
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

// Compute VECTORS vectors of MAPS maps of an image's output, starting at `pixel`.
template <int MAPS, int VECTORS, Pixels LIE>
void block(float *y, const float *x, const float *k, const Layer &layer,
           std::size_t pixel) {
    Windows<LIE> windows[VECTORS];
#pragma GCC unroll 16
    for (int v = 0; v < VECTORS; v++) {
        windows[v].set(x, layer, pixel + v * LANES);
    }
    Floats sums[MAPS][VECTORS];
#pragma GCC unroll 16
    for (int m = 0; m < MAPS; m++) {
#pragma GCC unroll 16
        for (int v = 0; v < VECTORS; v++) {
            sums[m][v] = Floats{};
        }
    }
    // One loop over all weights: processors mispredict the end of short nested loops.
    for (const std::ptrdiff_t place : layer.places) {
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
        k += MAPS;
    }
    const std::size_t wanted = std::min<std::size_t>(LANES, layer.pixels);
#pragma GCC unroll 16
    for (int m = 0; m < MAPS; m++) {
#pragma GCC unroll 16
        for (int v = 0; v < VECTORS; v++) {
            float *to = y + m * layer.pixels + pixel + v * LANES;
            const bool whole = LIE != Pixels::ANYWHERE || wanted == LANES;
            std::memcpy(to, &sums[m][v], (whole ? LANES : wanted) * sizeof(float));
        }
    }
}

// Compute MAPS maps of an image. The last vector may overlap the one before it.
template <int MAPS>
void maps(float *y, const float *x, const float *k, const Layer &layer) {
    constexpr int VECTORS = std::min(SUMS / MAPS, MOST_VECTORS);
    constexpr int WIDE = VECTORS * LANES;
    const std::size_t end = layer.pixels;
    const bool narrow = layer.columns < LANES - 1 || end < LANES;
    std::size_t pixel = 0;
    for (; pixel + WIDE <= end && !narrow; pixel += WIDE) {
        if (layer.left(pixel) < WIDE) {
            block<MAPS, VECTORS, Pixels::IN_TWO_ROWS>(y, x, k, layer, pixel);
        } else {
            block<MAPS, VECTORS, Pixels::IN_A_ROW>(y, x, k, layer, pixel);
        }
    }
    for (; pixel < end; pixel += LANES) {
        const std::size_t last = end < LANES ? 0 : end - LANES;
        const std::size_t from = std::min(pixel, last);
        if (narrow) {
            block<MAPS, 1, Pixels::ANYWHERE>(y, x, k, layer, from);
        } else {
            block<MAPS, 1, Pixels::IN_TWO_ROWS>(y, x, k, layer, from);
        }
    }
}

using Maps = void (*)(float *, const float *, const float *, const Layer &);
constexpr Maps MAPS[] = {maps<1>, maps<2>, maps<3>, maps<4>,  maps<5>,  maps<6>,
#if defined(__AVX512F__) || defined(__aarch64__)
                         maps<7>, maps<8>, maps<9>, maps<10>, maps<11>, maps<12>
#endif
};
constexpr int MOST_MAPS = sizeof MAPS / sizeof *MAPS;

// A group of maps, and its weights in the order in which a block reads them.
struct Group {
    int first, count;
    std::vector<float> weights;
};

// Divide the maps evenly into the fewest groups.
std::vector<Group> groups(const float *k, const Layer &layer) {
    const std::size_t weights = layer.places.size();
    const int count = (layer.maps + MOST_MAPS - 1) / MOST_MAPS;
    std::vector<Group> found;
    for (int g = 0, first = 0; g < count; g++) {
        Group group{first, (layer.maps - first) / (count - g), {}};
        group.weights.reserve(group.count * weights);
        for (std::size_t w = 0; w < weights; w++) {
            for (int m = first; m < first + group.count; m++) {
                group.weights.push_back(k[m * weights + w]);
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
    const Layer layer(M, C, H, W, K);
    const std::vector<Group> every = groups(k, layer);
    std::atomic<int> next{0};
    // Threads take one image at a time, since cores are not equally fast.
    auto work = [&] {
        for (int b; (b = next++) < B;) {
            const float *image = x + b * layer.image();
            float *maps = y + std::size_t(b) * M * layer.pixels;
            for (const Group &group : every) {
                float *first = maps + group.first * layer.pixels;
                MAPS[group.count - 1](first, image, group.weights.data(), layer);
            }
        }
    };
    std::vector<std::thread> others;
    try {
        others.reserve(std::max(threads, 1)); // so that emplace_back cannot fail after a start
        for (int t = 1; t < std::min(threads, B); t++) {
            others.emplace_back(work);
        }
    } catch (const std::exception &) {
        // The system allows no more threads; continue with those that were started.
    }
    work();
    for (std::thread &other : others) {
        other.join();
    }
}
