#include "minidnn.h"

#include <chrono>
#include <iostream>

#include "cpu-new-forward.h"

void conv_cpu(float *y, float *x, float *k, const Shape &s)
{
    std::cout << "Conv-CPU==" << std::endl;
    const auto start = std::chrono::steady_clock::now();
#ifdef STRIDED
    conv_forward_cpu(y, x, k, s.B, s.M, s.C, s.H, s.W, s.K, s.S);
#else
    conv_forward_cpu(y, x, k, s.B, s.M, s.C, s.H, s.W, s.K);
#endif
    const std::chrono::duration<float, std::milli> took = std::chrono::steady_clock::now() - start;
    std::cout << "Op Time: " << took.count() << " ms" << std::endl;
}
