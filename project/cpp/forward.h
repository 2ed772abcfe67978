// A call of the operator, and its time.
#ifndef RAI_FORWARD_H
#define RAI_FORWARD_H

#include <string>

namespace rai {

// B images of C x H x W, M maps of C x K x K weights; no padding, stride 1.
struct Shape {
    int B, M, C, H, W, K;

    int rows() const { return H - K + 1; }
    int columns() const { return W - K + 1; }
};

// Write the convolution of x with k to y, all contiguous. Records the time, without
// clearing y. Throws std::exception.
void forward(float *y, const float *x, const float *k, const Shape &shape);

// Store an error message for rai_operator_problem.
void say(const std::string &problem);

} // namespace rai

// The functions for Python.
extern "C" {

// Compute with a number of threads.
void rai_operator_use(int threads);

// Return and clear the last error message; "" if there is none.
const char *rai_operator_problem();

// Return the number of recorded times.
int rai_operator_calls();

// Copy the first recorded times, in seconds and in the order of calls, and clear them.
void rai_operator_take_times(double *seconds, int count);
}

#endif
