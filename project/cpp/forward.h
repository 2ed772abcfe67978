// A call of the operator: where it computes, and its time.
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

// Serialises convolutions and changes of where they run: MXNet calls from several
// threads, there is one set of arrays on the GPU, and a convolution on the CPU uses all
// cores.
extern std::mutex computing;

// Write the convolution of x with k to y, all contiguous and in the host's memory, where
// chosen last. Records the time, without clearing y. Throws std::exception.
void forward(float *y, const float *x, const float *k, const Shape &shape);

// Store an error message for rai_operator_problem.
void say(const std::string &problem);

} // namespace rai

// The functions for Python. Those returning int return 0, or -1 and set ..._problem.
extern "C" {

// Compute on the CPU with a number of threads; free everything on the GPU.
void rai_operator_use_cpu(int threads);

// Return and clear the last error message; "" if there is none.
const char *rai_operator_problem();

// Return the number of recorded times.
int rai_operator_calls();

// Copy the first recorded times, in seconds and in the order of calls, and clear them.
void rai_operator_take_times(double *seconds, int count);
}

#endif
