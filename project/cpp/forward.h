// One call of the operator: where it computes, and how long that took.
#ifndef RAI_FORWARD_H
#define RAI_FORWARD_H

#include <mutex>
#include <string>

namespace rai {

// B images of C x H x W, M maps of C x K x K weights; no padding, stride 1.
struct Shape {
    int B, M, C, H, W, K;

    int rows() const { return H - K + 1; }
    int columns() const { return W - K + 1; }
    bool operator==(const Shape &other) const;
    std::string text() const;
};

// Held by whoever convolves, and by whoever changes where that is: MXNet calls on
// threads of its own, the arrays on the GPU are there once, and a convolution on the
// processor has all its threads.
extern std::mutex computing;

// Convolve x by k into y, all three contiguous and in the host's memory, by what was
// chosen last. The time from a y of zeros to the last sum is kept for whoever asks.
// Throws std::exception.
void forward(float *y, const float *x, const float *k, const Shape &shape);

// Keep a sentence for rai_operator_problem.
void say(const std::string &problem);

} // namespace rai

// What Python calls. What returns int gives 0, or -1 and a sentence in ..._problem.
extern "C" {

// Compute on so many threads of the processor; what was on a GPU is freed.
void rai_operator_use_cpu(int threads);

// Give the last sentence of what went wrong, and forget it; "" where nothing did.
const char *rai_operator_problem();

// Count the calls whose times are kept.
int rai_operator_calls();

// Copy the first so many times in seconds, in the order of the calls, and forget them.
void rai_operator_take_times(double *seconds, int count);
}

#endif
