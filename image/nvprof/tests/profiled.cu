// A program for a profiler to watch: it says by CUDA's events how long its kernels took, in ms, all
// and the shortest.
// profiled [MODE]: `range` profiles its second half only, `fault` ends with a bad address
// after a while, in which a profiler can take what came before.

#include <cuda_profiler_api.h>
#include <cuda_runtime.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

constexpr int BYTES = 1 << 22, TIMES = 50;

template <int ROUNDS, typename T> __global__ void spin(T *y, long long clocks)
{
    __shared__ T part[64];
    for (int round = 0; round < ROUNDS; round++) {
        const long long start = clock64();
        while (clock64() - start < clocks)
            part[threadIdx.x % 64] = clocks;
    }
    if (y)
        y[threadIdx.x] = part[threadIdx.x % 64];
}

__global__ void stray(int *y) { *y = 1; }

static float shortest_ms = 1e9;

static float spin_ms(float *y)
{
    cudaEvent_t before, after;
    cudaEventCreate(&before);
    cudaEventCreate(&after);
    float sum = 0;
    for (int i = 0; i < TIMES; i++) {
        float ms = 0;
        cudaEventRecord(before);
        spin<2, float><<<dim3(4, 3, 2), dim3(32, 2), 1024>>>(y, 2'000'000);
        cudaEventRecord(after);
        cudaEventSynchronize(after);
        cudaEventElapsedTime(&ms, before, after);
        sum += ms;
        shortest_ms = ms < shortest_ms ? ms : shortest_ms;
    }
    return sum;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    static char host[BYTES];
    float *y;
    cudaMalloc(&y, BYTES);
    cudaMemcpy(y, host, BYTES, cudaMemcpyHostToDevice);
    cudaMemset(y, 0, BYTES);
    if (!strcmp(mode, "range")) {
        spin_ms(y);
        cudaProfilerStart();
    }
    printf("%.4f\n", spin_ms(y));
    printf("%.4f\n", shortest_ms);
    if (!strcmp(mode, "range"))
        cudaProfilerStop();
    if (!strcmp(mode, "fault")) {
        usleep(500'000);
        stray<<<1, 1>>>((int *)16);
    }
    const cudaError_t error = cudaMemcpy(host, y, BYTES, cudaMemcpyDeviceToHost);
    return error != cudaSuccess;
}
