// check.cu: a few small products, on a GPU or (with cpu.h) without one.
#include <cmath>
#include <cstdio>
#include "matmul.cu"

#ifdef __CUDACC__
template <class Kernel, class... Arguments>
void launch(Kernel kernel, dim3 grid, dim3 block, Arguments... arguments)
{
    kernel<<<grid, block>>>(arguments...);
}
#endif

constexpr int SIZES[][3] = {{1, 1, 1}, {16, 16, 16}, {33, 17, 50}, {5, 40, 3}}; // M, N, K

int main()
{
    float *C, *A, *B;
    int right = 0, numbers = 0;
    for (float **matrix : {&C, &A, &B})
        cudaMallocManaged(matrix, 2000 * sizeof(float));
    for (int i = 0; i < 2000; i++)
        A[i] = i % 7 - 3, B[i] = i % 5 - 2;
    for (auto [M, N, K] : SIZES) {
        for (int i = 0; i < M * N; i++)
            C[i] = NAN;
        const dim3 grid((N + TILE - 1) / TILE, (M + TILE - 1) / TILE);
        launch(matmul, grid, dim3(TILE, ROWS), C, A, B, M, N, K);
        if (auto error = cudaDeviceSynchronize()) {
            std::printf("CUDA error %d for M %d, N %d, K %d\n", (int)error, M, N, K);
            return 1;
        }
        for (int i = 0; i < M * N; i++) {
            float expected = 0;
            for (int k = 0; k < K; k++)
                expected += A[i / N * K + k] * B[k * N + i % N];
            numbers++;
            if (C[i] == expected)
                right++;
            else if (numbers == right + 1)
                std::printf("M %d, N %d, K %d: C[%d][%d] is %g and should be %g.\n", M, N, K, i / N, i % N,
                            C[i], expected);
        }
    }
    std::printf("Correctness: %g Model: matmul\n", (double)right / numbers);
}
