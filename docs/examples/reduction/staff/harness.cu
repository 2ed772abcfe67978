// harness.cu: checks a team's reduction, and times it.
//
// First come sizes that are odd in some way. Then the large one is summed in some calls that are timed
// one by one with CUDA events; each has its own place for the sum, which is checked afterwards. What is
// printed is what rai reads: `Op Time:`, here the median, and `Correctness:`, 1 or 0.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

static void reduction(float *sum, const float *x, int n); // at the end, with the team's kernel

constexpr int LARGE = 1 << 26; // 256 MiB, which no cache holds
constexpr int CALLS = 21;

static void check(cudaError_t status)
{
    if (status != cudaSuccess) {
        std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(status));
        std::exit(1);
    }
}

static bool right(double found, double expected, int n)
{
    // Sums of floats differ by their order. NaN is wrong too.
    if (std::fabs(found - expected) <= 1e-4 * expected)
        return true;
    std::printf("The sum of %d numbers is %.8g and should be %.8g.\n", n, found, expected);
    return false;
}

int main()
{
    std::mt19937 random(std::random_device{}()); // nobody knows the numbers before
    std::uniform_real_distribution<float> some(0.25f, 1);
    std::vector<float> numbers(LARGE);
    for (float &number : numbers)
        number = some(random);

    float *x, *sums;
    check(cudaMalloc(&x, LARGE * sizeof(float)));
    check(cudaMalloc(&sums, CALLS * sizeof(float)));
    check(cudaMemcpy(x, numbers.data(), LARGE * sizeof(float), cudaMemcpyHostToDevice));

    std::vector<float> found(CALLS);
    bool correct = true;
    for (int n : {1, 31, 1000, 65537, LARGE - 1}) {
        check(cudaMemset(sums, 0, sizeof(float)));
        reduction(sums, x, n);
        check(cudaGetLastError());
        check(cudaMemcpy(found.data(), sums, sizeof(float), cudaMemcpyDeviceToHost));
        double expected = 0;
        for (int i = 0; i < n; i++)
            expected += numbers[i];
        correct = right(found[0], expected, n) && correct;
    }

    std::vector<float> ms(CALLS);
    cudaEvent_t start, end;
    check(cudaEventCreate(&start));
    check(cudaEventCreate(&end));
    check(cudaMemset(sums, 0, CALLS * sizeof(float)));
    for (int call = 0; call < CALLS; call++) {
        check(cudaEventRecord(start));
        reduction(sums + call, x, LARGE);
        check(cudaEventRecord(end));
        check(cudaEventSynchronize(end));
        check(cudaEventElapsedTime(&ms[call], start, end));
    }
    check(cudaMemcpy(found.data(), sums, CALLS * sizeof(float), cudaMemcpyDeviceToHost));
    double expected = 0;
    for (float number : numbers)
        expected += number;
    for (float sum : found)
        correct = correct && right(sum, expected, LARGE);

    if (correct) {
        std::sort(ms.begin(), ms.end());
        std::printf("Op Time: %.6f ms\n", ms[CALLS / 2]);
    }
    std::printf("Correctness: %d Model: reduction\n", correct);
}

// The team's file comes last, so that its macros change nothing above.
#include "reduction.cu"

static void reduction(float *sum, const float *x, int n)
{
    const int blocks = std::min((n + THREADS - 1) / THREADS, MOST_BLOCKS);
    reduce<<<blocks, THREADS>>>(sum, x, n);
}
