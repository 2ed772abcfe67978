// Convolutions on an NVIDIA GPU, through the driver's library only.
#ifndef RAI_GPU_H
#define RAI_GPU_H

#include "forward.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace rai {

struct Driver; // the functions of libcuda

// A launch of a kernel, whose arguments are pointers, then ints. Python has the same
// layout in operator_library.py.
struct Launch {
    enum Buffer { Y, X, K, SCRATCH }; // scratch arrays are numbered from SCRATCH

    const char *kernel;
    unsigned int grid[3], block[3], shared_bytes;
    int buffer_count, number_count;
    int buffers[8]; // of enum Buffer
    int numbers[16];
};

// The first GPU, open for the lifetime of the object.
class Gpu {
  public:
    // The GPU in use, or null for the CPU.
    static Gpu *chosen();
    static void choose(std::unique_ptr<Gpu> gpu);

    // Open the driver's library by its name or path. Like all functions, throws
    // std::runtime_error.
    explicit Gpu(const char *library);
    ~Gpu();
    Gpu(const Gpu &) = delete;

    // Major and minor of the GPU's compute capability, the number of its multiprocessors;
    // major and minor of the driver's CUDA version.
    void facts(int *gpu, int *cuda) const;

    // Start to use it.
    void start();

    // Load machine code; returns its index.
    int load(const void *cubin);

    // Plan the convolutions of a shape: the constants to fill with the weights first, the
    // bytes of scratch arrays, and the launches.
    void plan(const Shape &shape, int module, const char *const *constants,
              int constant_count, const std::size_t *scratch, int scratch_count,
              const Launch *launches, int launch_count);

    // Convolve arrays in the host's memory; returns the seconds without clearing y.
    double convolve(float *y, const float *x, const float *k, const Shape &shape);

  private:
    using Address = std::uint64_t;

    struct Buffer {
        Address address = 0;
        std::size_t bytes = 0;
    };

    struct Step {
        void *function;
        Launch launch;
    };

    struct Constant {
        Address address;
        std::size_t bytes;
    };

    struct Plan {
        Shape shape;
        std::vector<Constant> constants;
        std::vector<std::size_t> scratch; // bytes
        std::vector<Step> steps;
    };

    // Makes the GPU's context current for the lifetime of the object: MXNet calls from its
    // own threads, and other code may use the GPU on ours.
    class Inside {
      public:
        explicit Inside(const Gpu &gpu);
        ~Inside();
        Inside(const Inside &) = delete;

      private:
        const Driver &driver_;
    };

    void check(int result, const char *function) const;
    void make_room(Buffer &buffer, std::size_t bytes);
    const Plan &planned(const Shape &shape) const;
    void launch(const Step &step);

    std::unique_ptr<Driver> driver_;
    int device_ = 0;
    void *context_ = nullptr;
    std::vector<void *> modules_;
    std::vector<Plan> plans_;
    std::vector<Buffer> buffers_{Launch::SCRATCH}; // by Launch::Buffer
};

} // namespace rai

// The functions for Python. Those returning int return 0 or more, or -1 and set
// rai_operator_problem.
extern "C" {

// Open a GPU by the driver's library; set its Gpu::facts.
int rai_gpu_open(const char *library, int *gpu, int *cuda);

// Compute on the GPU from now on.
int rai_gpu_start();

int rai_gpu_load(const void *cubin);

int rai_gpu_plan(const int *sizes, int module, const char *const *constants,
                 int constant_count, const std::size_t *scratch, int scratch_count,
                 const rai::Launch *launches, int launch_count);
}

#endif
