// matmul.cu: C = A * B, row by row: C is M x N, A is M x K, B is K x N.
//
// Each block computes TILE x TILE numbers of C with TILE x ROWS threads; blockIdx.x counts the tiles of a
// row, blockIdx.y those of a column. At the edges tiles reach over C, A and B. With fewer ROWS than TILE
// each thread has several numbers to compute. Change both as you like.
#define TILE 16
#define ROWS 16

__global__ void matmul(float *C, const float *A, const float *B, int M, int N, int K)
{
    __shared__ float tile_A[TILE][TILE], tile_B[TILE][TILE];
    const int column = blockIdx.x * TILE + threadIdx.x;
    const int row = blockIdx.y * TILE + threadIdx.y;

    // TODO: go over K in steps of TILE. In each, let the threads copy a tile of A and one of B, with 0 where
    // these end, wait for each other, add up the products of the tiles, and wait again. Then write C.
}
