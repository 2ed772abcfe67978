// pooling: 2 x 2 max pooling; an odd last row or column is dropped.
//
// thread t of block (n, b) -> the pixel n * THREADS + t of all pooled maps of image b
// Per output: four floats read, one written. NaN propagates.

#ifndef THREADS
#error "THREADS is set by project/plans/layers.py"
#endif

__device__ float larger(float a, float b) { return a > b || a != a ? a : b; }

extern "C" __global__ void pooling(float *__restrict__ y, const float *__restrict__ x, int maps,
                                   int rows, int columns)
{
    const int half_rows = rows / 2, half_columns = columns / 2;
    const int left = maps * half_rows * half_columns;
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= left)
        return;
    const int column = i % half_columns, row = i / half_columns % half_rows;
    const int map = i / half_columns / half_rows;
    const float *above =
        x + ((size_t)(blockIdx.y * maps + map) * rows + 2 * row) * columns + 2 * column;
    const float *below = above + columns;
    y[(size_t)blockIdx.y * left + i] =
        larger(larger(above[0], above[1]), larger(below[0], below[1]));
}
