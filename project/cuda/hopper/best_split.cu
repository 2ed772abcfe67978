// best_split: fp32's accuracy on Hopper's tensor cores, with operands split into two halves
//
// After wgmma_split: an input row is multiplied once for all rows that depend on it, into a ring
// buffer of output rows. x and k are pairs of halves (halves.cuh), each image and map with its
// scale; high high and high low + low high have an accumulator each.
// An input row of two images side by side is 64 rows of a product; its depth is (column of
// the filter, channel); its columns are the maps of all K output rows that depend on the input
// row, so a row is read once for all of them.
// warps 0-3, 4-7: multiply, for a pair of images each; 8-11: convert the rows of an image to fp16;
// 12-15: store the outputs of an image by bulk copies; all: images that halves do not hold, at last
// Per output: 3 C K K products on tensor cores, 4 bytes out, 4 C H W / (M H_out W_out) in.

#if !defined SHAPE_C || !defined SHAPE_M || !defined SHAPE_K || !defined SHAPE_H || \
    !defined SHAPE_W || !defined ROWS_IN || !defined ROWS_AHEAD
#error "SHAPE_*, ROWS_* are set by project/plans/best_split.py"
#endif

#include "hopper/best_split/outputs.cuh"
#include "hopper/best_split/products.cuh"
#include "hopper/best_split/weights.cuh"

extern "C" __global__ void __launch_bounds__(512, 1)
    conv_best_split(float *__restrict__ y, const float *__restrict__ x, const float *__restrict__ k,
                    int B, int periods)
{
    extern __shared__ __align__(128) char memory[];
    Notes *notes = (Notes *)(memory + AT_NOTES);
    float *out = (float *)(memory + AT_OUT);
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), role = warp / 4;
    const int group = role < 2 ? role : warp / 2 % 2, image = warp % 2;
    constexpr int OF_GROUP = 16 * (ROWS_IN + 2);
    const unsigned barriers = shared_address(memory + AT_BARRIERS) + group * OF_GROUP;
    const unsigned full = barriers, empty = full + 8 * ROWS_IN, out_full = empty + 8 * ROWS_IN,
                   out_empty = out_full + 8 * 2;
    const Plan plan(B, periods);
    const int first = blockIdx.x + group * gridDim.x;
    float w[EACH];  // loaded while the rest is initialised
    const int t = threadIdx.x - (role == 3) * 128;
    if (role != 2)
        load_weights(w, k, t);
    if (role < 2 && threadIdx.x % 128 == 0) {
        // Every thread arrives: racecheck does not understand one arrival for a whole warp.
        for (int i = 0; i < ROWS_IN; i++) {
            expect(full + 8 * i, 64);
            expect(empty + 8 * i, 128);
        }
        for (int i = 0; i < 2; i++) {
            expect(out_full + 8 * i, 128);
            expect(out_empty + 8 * i, 64);
        }
        notes->doubtful = notes->contrast = 0;
        expected();
    }
    for (int i = threadIdx.x * 16; i < 2 * ROWS_IN * ROW_BYTES; i += 512 * 16)
        *(uint4 *)(memory + AT_ROWS + i) = make_uint4(0, 0, 0, 0);
    __syncthreads();

    if (role < 2) {
        prepare_weights(memory, out, w, notes, t);
        asm volatile("setmaxnreg.inc.sync.aligned.u32 184;");
        const int second = threadIdx.x % 128 / 64;  // of a pair's images
        int memo = 0;
        Math math;
        math.weights = wgmma::descriptor(shared_address(memory), UNIT_BYTES);
        math.rows = shared_address(memory + AT_ROWS) + group * ROWS_IN * ROW_BYTES;
        math.full = full, math.empty = empty, math.out_full = out_full, math.out_empty = out_empty;
        math.lane_at = Fragments::lane_at(), math.later_at = Fragments::later_at();
        math.none = B >> 31;
        math.out = out + group * OUT_FLOATS + second * IMAGE_FLOATS + map_at(Math::first_map());
        math.column = threadIdx.x % 128 / 4 * 2 - second * APART;
#pragma unroll
        for (int e = 0; e < 2; e++) {
            math.at[e] = math.column + map_phase(Math::first_map() + 2 * e);
            asm volatile("" : "+r"(math.at[e]));  // not computed again for each row
        }
        math.begin();
        math.left = plan.rows(first);
        if (math.left)
            math.load_low();
        for (int item = first; item < plan.items; item += plan.step) {
            // The scale is known, since the first row has been converted.
            const int shift = notes->shift[group][memo][second];
#pragma unroll
            for (int i = 0; i < M / 4; i++) {
                float &back = math.back[i / 2][i % 2];
                back = power_of_two(-shift - notes->map[Math::first_map() + i / 2 * 8 + i % 2 * 2]);
                asm volatile("" : "+f"(back));  // not computed again for each row
            }
            memo = (memo + 1) % MEMO;
            math.run(plan.part(item));
        }
    } else if (role == 2) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 96;");
        Reader reader{x, plan, first, image};
        convert(reader, memory + AT_ROWS + group * ROWS_IN * ROW_BYTES, full, empty, notes, group);
    } else {
        prepare_weights(memory, out, w, notes, t);
        asm volatile("setmaxnreg.dec.sync.aligned.u32 48;");
        store(y, out + group * OUT_FLOATS, out_full, out_empty, notes, plan, group, image);
    }
    __syncthreads();
    if (notes->doubtful == 0)
        return;
    if (role < 2)
        asm volatile("setmaxnreg.dec.sync.aligned.u32 128;");
    else
        asm volatile("setmaxnreg.inc.sync.aligned.u32 128;");
    look_again(y, x, k, notes, plan);
}
