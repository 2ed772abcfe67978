// tiled.cu: a block keeps the part of x that its threads share in shared memory.
//
// Launched as conv.cu of milestone 3: blocks of TILE x TILE threads, blockIdx.x counts the
// tiles of a map, blockIdx.y is the map m, blockIdx.z the image b. A tile of y needs
// (TILE + K - 1) x (TILE + K - 1) numbers of each channel of x: plan.json gives a block
// that many floats as `shared_bytes`.
extern "C" __global__ void conv_tiled(float *y, const float *x, const float *k, int B, int M,
                                      int C, int H, int W, int K)
{
    extern __shared__ float tile[];
    // TODO: for each channel, let all threads load the tile (some of it lies outside of x),
    // wait with __syncthreads(), add to the sum, and wait again before the next channel.
}
