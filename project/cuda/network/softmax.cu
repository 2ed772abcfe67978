// softmax: convert every image's scores to probabilities in place.
//
// thread t of block n -> all scores (ten) of image n * THREADS + t
// Per output: one exponential. The largest score is subtracted, so that none overflows.

#ifndef THREADS
#error "THREADS is set by project/plans/layers.py"
#endif

extern "C" __global__ void softmax(float *y, int images, int classes)
{
    const int image = blockIdx.x * THREADS + threadIdx.x;
    if (image >= images)
        return;
    float *scores = y + (size_t)image * classes;
    float largest = scores[0];
    for (int i = 1; i < classes; i++)
        largest = fmaxf(largest, scores[i]);
    float sum = 0;
    for (int i = 0; i < classes; i++)
        sum += scores[i] = expf(scores[i] - largest);
    for (int i = 0; i < classes; i++)
        scores[i] /= sum;
}
