// registers.cu: a thread computes MAPS maps of one pixel, so that it loads x once for all.
//
// Launched as conv.cu of milestone 3, but for blockIdx.y, which counts groups of MAPS
// maps: see `ceil(M / MAPS)` in plan.json. With MAPS fixed, the sums stay in registers.
extern "C" __global__ void conv_registers(float *y, const float *x, const float *k, int B,
                                          int M, int C, int H, int W, int K)
{
    float sums[MAPS] = {};
    // TODO: for each c, p and q load x once, and add to each of the sums (#pragma unroll).
    // The last group may have fewer than MAPS maps.
}
