// check.cu: a few small sums, on a GPU or (with cpu.h) without one.
#include <cmath>
#include <cstdio>
#include "reduction.cu"

#ifdef __CUDACC__
template <class Kernel, class... Arguments>
void launch(Kernel kernel, dim3 grid, dim3 block, Arguments... arguments)
{
    kernel<<<grid, block>>>(arguments...);
}
#endif

int main()
{
    float *x, *sum;
    int right = 0, sums = 0;
    cudaMallocManaged(&x, 5001 * sizeof(float));
    cudaMallocManaged(&sum, sizeof(float));
    for (int i = 0; i < 5001; i++)
        x[i] = i % 7 + 1;
    for (int n : {1, 31, 512, 1000, 5001})
        for (int blocks : {1, 3}) { // fewer than n needs: each thread has several numbers
            *sum = 0;
            launch(reduce, blocks, THREADS, sum, x, n);
            if (auto error = cudaDeviceSynchronize()) {
                std::printf("CUDA error %d in a launch of %d blocks\n", (int)error, blocks);
                return 1;
            }
            float expected = 0;
            for (int i = 0; i < n; i++)
                expected += x[i];
            sums++;
            if (*sum == expected)
                right++;
            else if (sums == right + 1)
                std::printf("The sum of %d numbers by %d blocks is %g and should be %g.\n", n, blocks, *sum,
                            expected);
        }
    std::printf("Correctness: %g Model: reduction\n", (double)right / sums);
}
