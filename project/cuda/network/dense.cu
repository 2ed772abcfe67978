// dense: y = x weights^T + bias, a tiled matrix product in shared memory and registers.
//
// A block of 16 x 16 threads computes ROWS images x COLUMNS outputs, over DEPTH inputs at
// a time; those of the next step are loaded to registers meanwhile.
// thread (tx, ty) -> images ty + 16 i, outputs tx + 16 j of the block's tile
// Per multiply-add: (1 / ROWS + 1 / COLUMNS) floats from global memory.

#if !defined(ROWS) || !defined(COLUMNS) || !defined(DEPTH)
#error "ROWS, COLUMNS and DEPTH are set by project/plans/layers.py"
#endif

constexpr int SIDE = 16;
constexpr int THREADS = SIDE * SIDE;
constexpr int PAD = 2;  // avoids bank conflicts when a warp stores a tile
static_assert(DEPTH == SIDE && ROWS % SIDE == 0 && COLUMNS % SIDE == 0);

// Load this thread's share of rows [first, first + N) at inputs [from, from + DEPTH).
template <int N>
__device__ void fetch(float (&held)[N / SIDE], const float *__restrict__ matrix, int first,
                      int rows, int from, int inputs)
{
    const int input = from + threadIdx.x;
#pragma unroll
    for (int i = 0; i < N / SIDE; i++) {
        const int row = first + threadIdx.y + SIDE * i;
        held[i] = row < rows && input < inputs ? matrix[(size_t)row * inputs + input] : 0;
    }
}

template <int N> __device__ void store(float (&tile)[DEPTH][N + PAD], const float (&held)[N / SIDE])
{
#pragma unroll
    for (int i = 0; i < N / SIDE; i++)
        tile[threadIdx.x][threadIdx.y + SIDE * i] = held[i];
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    dense(float *__restrict__ y, const float *__restrict__ x, const float *__restrict__ weights,
          const float *__restrict__ bias, int images, int inputs, int outputs)
{
    __shared__ float x_tile[DEPTH][ROWS + PAD], w_tile[DEPTH][COLUMNS + PAD];
    const int image = blockIdx.x * ROWS, output = blockIdx.y * COLUMNS;
    float x_held[ROWS / SIDE], w_held[COLUMNS / SIDE];
    float sums[ROWS / SIDE][COLUMNS / SIDE] = {};

    fetch<ROWS>(x_held, x, image, images, 0, inputs);
    fetch<COLUMNS>(w_held, weights, output, outputs, 0, inputs);
    for (int from = 0; from < inputs; from += DEPTH) {
        store<ROWS>(x_tile, x_held);
        store<COLUMNS>(w_tile, w_held);
        __syncthreads();
        fetch<ROWS>(x_held, x, image, images, from + DEPTH, inputs);
        fetch<COLUMNS>(w_held, weights, output, outputs, from + DEPTH, inputs);
#pragma unroll
        for (int d = 0; d < DEPTH; d++)
#pragma unroll
            for (int i = 0; i < ROWS / SIDE; i++)
#pragma unroll
                for (int j = 0; j < COLUMNS / SIDE; j++)
                    sums[i][j] +=
                        x_tile[d][threadIdx.y + SIDE * i] * w_tile[d][threadIdx.x + SIDE * j];
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < ROWS / SIDE; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS / SIDE; j++) {
            const int row = image + threadIdx.y + SIDE * i;
            const int column = output + threadIdx.x + SIDE * j;
            if (row < images && column < outputs)
                y[(size_t)row * outputs + column] = sums[i][j] + bias[column];
        }
}
