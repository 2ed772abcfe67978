// harness.cu: checks a team's matrix multiplication, and times it.
//
// Small products of odd sizes are compared number by number. The large one is computed in some calls that
// are timed one by one with CUDA events, each into a C of its own. These are too large to be computed
// again on the CPU: with a random vector v of 1 and -1, C * v must be A * (B * v), which takes n * n steps
// and misses no wrong row but by chance. What is printed is what rai reads: `Op Time:`, here the median,
// and `Correctness:`, 1 or 0.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

// C is M x N, A is M x K, B is K x N, row by row. At the end, with the team's kernel.
static void multiply(float *C, const float *A, const float *B, int M, int N, int K);

constexpr int LARGE = 2048, CALLS = 11;
using Matrix = std::vector<float>;
using Vector = std::vector<double>;

static void check(cudaError_t status)
{
    if (status != cudaSuccess) {
        std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(status));
        std::exit(1);
    }
}

static Matrix from_gpu(const float *matrix, size_t size)
{
    Matrix copy(size);
    check(cudaMemcpy(copy.data(), matrix, size * sizeof(float), cudaMemcpyDeviceToHost));
    return copy;
}

static Vector times(const float *matrix, const Vector &v)
{
    Vector product(v.size());
    for (size_t row = 0; row < v.size(); row++)
        for (size_t column = 0; column < v.size(); column++)
            product[row] += matrix[row * v.size() + column] * v[column];
    return product;
}

static bool right_product(const Matrix &C, const Matrix &A, const Matrix &B, int M, int N, int K)
{
    for (int row = 0; row < M; row++)
        for (int column = 0; column < N; column++) {
            double expected = 0;
            for (int k = 0; k < K; k++)
                expected += (double)A[row * K + k] * B[k * N + column];
            const float found = C[row * N + column];
            if (!(std::fabs(found - expected) <= 1e-3)) { // NaN is wrong too
                std::printf("M %d, N %d, K %d: C[%d][%d] is %g and should be %g.\n", M, N, K, row, column,
                            found, expected);
                return false;
            }
        }
    return true;
}

static bool right_rows(const Matrix &C, const Vector &v, const Vector &expected)
{
    const Vector found = times(C.data(), v);
    for (int row = 0; row < LARGE; row++)
        if (!(std::fabs(found[row] - expected[row]) <= 0.1)) {
            std::printf("M, N and K %d: row %d of C is wrong.\n", LARGE, row);
            return false;
        }
    return true;
}

int main()
{
    std::mt19937 random(std::random_device{}()); // nobody knows the numbers before
    std::uniform_real_distribution<float> number(-1, 1);
    constexpr size_t SIZE = (size_t)LARGE * LARGE, BYTES = SIZE * sizeof(float);
    Matrix A(SIZE), B(SIZE);
    std::generate(A.begin(), A.end(), [&] { return number(random); });
    std::generate(B.begin(), B.end(), [&] { return number(random); });
    float *gpu_A, *gpu_B, *gpu_C;
    check(cudaMalloc(&gpu_A, BYTES));
    check(cudaMalloc(&gpu_B, BYTES));
    check(cudaMalloc(&gpu_C, CALLS * BYTES));
    check(cudaMemcpy(gpu_A, A.data(), BYTES, cudaMemcpyHostToDevice));
    check(cudaMemcpy(gpu_B, B.data(), BYTES, cudaMemcpyHostToDevice));
    check(cudaMemset(gpu_C, 0xff, CALLS * BYTES)); // NaN, until it is written

    bool correct = true;
    for (auto [M, N, K] : {std::array{1, 1, 1}, {64, 64, 64}, {100, 37, 251}, {5, 300, 17}}) {
        multiply(gpu_C, gpu_A, gpu_B, M, N, K);
        check(cudaGetLastError());
        correct = right_product(from_gpu(gpu_C, (size_t)M * N), A, B, M, N, K) && correct;
        check(cudaMemset(gpu_C, 0xff, BYTES));
    }

    std::vector<float> ms(CALLS);
    cudaEvent_t start, end;
    check(cudaEventCreate(&start));
    check(cudaEventCreate(&end));
    for (int call = 0; call < CALLS; call++) {
        check(cudaEventRecord(start));
        multiply(gpu_C + call * SIZE, gpu_A, gpu_B, LARGE, LARGE, LARGE);
        check(cudaEventRecord(end));
        check(cudaEventSynchronize(end));
        check(cudaEventElapsedTime(&ms[call], start, end));
    }
    Vector v(LARGE);
    std::generate(v.begin(), v.end(), [&] { return number(random) < 0 ? -1 : 1; });
    const Vector expected = times(A.data(), times(B.data(), v));
    for (int call = 0; call < CALLS && correct; call++)
        correct = right_rows(from_gpu(gpu_C + call * SIZE, SIZE), v, expected);

    if (correct) {
        std::sort(ms.begin(), ms.end());
        std::printf("Op Time: %.6f ms\n", ms[CALLS / 2]);
    }
    std::printf("Correctness: %d Model: matmul\n", correct);
}

// The team's file comes last, so that its macros change nothing above.
#include "matmul.cu"

static void multiply(float *C, const float *A, const float *B, int M, int N, int K)
{
    const dim3 blocks((N + TILE - 1) / TILE, (M + TILE - 1) / TILE);
    matmul<<<blocks, dim3(TILE, ROWS)>>>(C, A, B, M, N, K);
}
