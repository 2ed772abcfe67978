// float64: compare a convolution's outputs with sums in double
//
// A block compares an image: each thread computes every THREADS-th output by the formula, and the
// sum of its |x||k|, by which its error is measured. Products of floats are exact in double.
// Cost: the arithmetic of the convolution, twice, in double; only four numbers an image are stored.

#ifndef THREADS
#error "THREADS is set by project/lab/float64.py"
#endif

// image b -> found[b]: the sum of squares of errors, that of the right outputs, the worst error by
// element, and the number of outputs that are not finite or else where they should be
extern "C" __global__ void compare(double (*found)[4], const float *y, const float *x,
                                   const float *k, int M, int C, int H, int W, int K)
{
    const double largest = 0x1.fffffep127, smallest = 0x1p-149;  // floats
    const int H_out = H - K + 1, W_out = W - K + 1, outputs = M * H_out * W_out;
    x += (size_t)blockIdx.x * C * H * W;
    y += (size_t)blockIdx.x * outputs;
    double wrong = 0, right = 0, worst = 0, missing = 0;
    for (int i = threadIdx.x; i < outputs; i += THREADS) {
        const int w = i % W_out, h = i / W_out % H_out, m = i / W_out / H_out;
        double sum = 0, size = 0;
        for (int c = 0; c < C; c++)
            for (int u = 0; u < K; u++)
                for (int v = 0; v < K; v++) {
                    const double pixel = x[(c * H + h + u) * W + w + v];
                    const double product = pixel * k[((m * C + c) * K + u) * K + v];
                    sum += product;
                    size += fabs(product);
                }
        const double found_here = y[i], error = fabs(found_here - sum);
        if (!isfinite(size)) {  // Inf or NaN among the inputs
            missing += isnan(sum) ? !isnan(found_here) : found_here != sum;
        } else if (size <= largest) {  // else a sum of floats may overflow
            if (isfinite(found_here)) {
                wrong += error * error;
                right += sum * sum;
                const double beyond = error - smallest * C * K * K;
                if (beyond > 0)
                    worst = fmax(worst, fmin(beyond / size, 1e300));  // of no size: 1e300
            } else {
                missing += 1;
            }
        }
    }
    __shared__ double all[4][THREADS];
    const double mine[4] = {wrong, right, worst, missing};
    for (int n = 0; n < 4; n++)
        all[n][threadIdx.x] = mine[n];
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            for (int n = 0; n < 4; n++) {
                const double a = all[n][threadIdx.x], b = all[n][threadIdx.x + half];
                all[n][threadIdx.x] = n == 2 ? fmax(a, b) : a + b;
            }
    }
    __syncthreads();
    if (threadIdx.x < 4)
        found[blockIdx.x][threadIdx.x] = all[threadIdx.x][0];
}
