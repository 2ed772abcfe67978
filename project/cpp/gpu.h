// Convolutions on an NVIDIA GPU, through the driver's library and nothing else.
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

// A kernel over a grid of blocks: pointers come first, then whole numbers.
// Python fills it in by the same layout.
struct Launch {
    enum Buffer { Y, X, K, SCRATCH }; // and from SCRATCH on a kernel's own arrays

    const char *kernel;
    unsigned int grid[3], block[3], shared_bytes;
    int buffer_count, number_count;
    int buffers[8]; // of enum Buffer
    int numbers[16];
};

// The first GPU, for as long as the object lives.
class Gpu {
  public:
    // The GPU that computes, or null: the processor does.
    static Gpu *chosen();
    static void choose(std::unique_ptr<Gpu> gpu);

    // Open the driver's library by its name or path. Throws std::runtime_error, as
    // every other function does.
    explicit Gpu(const char *library);
    ~Gpu();
    Gpu(const Gpu &) = delete;

    // Major and minor of what the GPU computes, and of the CUDA that its driver serves.
    void facts(int *capability, int *cuda) const;

    // Begin to use it.
    void start();

    // Load machine code; the number names it later.
    int load(const void *cubin);

    // Plan the convolutions of a shape: which variables of the machine code are filled
    // with the weights first, how many bytes its own arrays have, and which kernels are
    // launched.
    void plan(const Shape &shape, int module, const char *const *constants,
              int constant_count, const std::size_t *scratch, int scratch_count,
              const Launch *launches, int launch_count);

    // Convolve arrays of the host's memory; give the seconds from zeros to the last sum.
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

    // Makes the GPU's context the thread's own, for as long as the object lives: MXNet
    // calls on threads of its own, and others may use the GPU on ours.
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

// What Python calls. What returns int gives 0 or more, or -1 and a sentence in
// rai_operator_problem.
extern "C" {

// Find a GPU by the driver's library; say its compute capability and the driver's CUDA,
// major and minor each.
int rai_gpu_open(const char *library, int *capability, int *cuda);

// Let the operator compute on it from now on.
int rai_gpu_start();

int rai_gpu_load(const void *cubin);

int rai_gpu_plan(const int *sizes, int module, const char *const *constants,
                 int constant_count, const std::size_t *scratch, int scratch_count,
                 const rai::Launch *launches, int launch_count);
}

#endif
