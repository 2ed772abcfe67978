// reduction.cu: add the sum of x[0], ..., x[n - 1] to *sum, which is 0 before.
//
// It is launched with blocks of THREADS threads: as many as n numbers need, and at most MOST_BLOCKS. So
// a thread may have several numbers to add up, gridDim.x * blockDim.x apart. Change both as you like.
#define THREADS 256
#define MOST_BLOCKS 1024

__global__ void reduce(float *sum, const float *x, int n)
{
    __shared__ float parts[THREADS];

    // TODO: 1. Let each thread add up its numbers, and put the result into parts[threadIdx.x].
    //       2. Add up `parts`: half as many threads in each step, with __syncthreads() between.
    //       3. Let one thread of the block add the result to *sum, by atomicAdd(sum, ...).
}
