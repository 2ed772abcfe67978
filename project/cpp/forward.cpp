// A call of the operator: where it computes, and its time.
#include "forward.h"

#include "convolution.h"
#include "gpu.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <vector>

namespace rai {

std::mutex computing;

namespace {

std::mutex guard; // of what Python reads from another thread
std::vector<double> times;
std::string problem, asked;
int threads = 1;

double on_cpu(float *y, const float *x, const float *k, const Shape &s) {
    std::fill_n(y, std::size_t(s.B) * s.M * s.rows() * s.columns(), 0.0f);
    const auto start = std::chrono::steady_clock::now();
    rai_convolve(y, x, k, s.B, s.M, s.C, s.H, s.W, s.K, threads);
    const auto stop = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(stop - start).count();
}

} // namespace

bool Shape::operator==(const Shape &o) const {
    return B == o.B && M == o.M && C == o.C && H == o.H && W == o.W && K == o.K;
}

std::string Shape::text() const {
    const auto by = [](auto... sizes) {
        std::string joined;
        ((joined += (joined.empty() ? "" : " x ") + std::to_string(sizes)), ...);
        return joined;
    };
    return by(B, C, H, W) + " by " + by(M, C, K, K);
}

void forward(float *y, const float *x, const float *k, const Shape &shape) {
    const std::lock_guard<std::mutex> alone(computing);
    Gpu *const gpu = Gpu::chosen();
    const double seconds =
        gpu ? gpu->convolve(y, x, k, shape) : on_cpu(y, x, k, shape);
    const std::lock_guard<std::mutex> held(guard);
    times.push_back(seconds);
}

void say(const std::string &sentence) {
    const std::lock_guard<std::mutex> held(guard);
    problem = sentence;
}

} // namespace rai

using namespace rai;

void rai_operator_use_cpu(int count) {
    const std::lock_guard<std::mutex> alone(computing);
    Gpu::choose(nullptr);
    threads = count;
}

const char *rai_operator_problem() {
    const std::lock_guard<std::mutex> held(guard);
    asked.swap(problem);
    problem.clear();
    return asked.c_str();
}

int rai_operator_calls() {
    const std::lock_guard<std::mutex> held(guard);
    return int(times.size());
}

void rai_operator_take_times(double *seconds, int count) {
    const std::lock_guard<std::mutex> held(guard);
    const auto end = times.begin() + std::min(count, int(times.size()));
    std::copy(times.begin(), end, seconds);
    times.erase(times.begin(), end);
}
