// Convolutions on an NVIDIA GPU, through the driver's library only.
#include "gpu.h"

#include "driver.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace rai {
namespace {

std::unique_ptr<Gpu> opened; // the GPU found by rai_gpu_open
bool started = false;

// Convert an exception to the return value of a function for Python.
template <class Work> int answer(Work work) {
    const std::lock_guard<std::mutex> alone(computing);
    try {
        return work();
    } catch (const std::exception &error) {
        say(error.what());
        return -1;
    }
}

Gpu &found() {
    if (!opened) {
        throw std::runtime_error("no GPU was opened");
    }
    return *opened;
}

} // namespace

Gpu *Gpu::chosen() { return started ? opened.get() : nullptr; }

void Gpu::choose(std::unique_ptr<Gpu> gpu) {
    started = false;
    opened = std::move(gpu);
}

Gpu::Gpu(const char *library) : driver_(new Driver(library)) {
    int count = 0;
    check(driver_->init(0), "cuInit");
    check(driver_->device_count(&count), "cuDeviceGetCount");
    if (count == 0) {
        throw std::runtime_error("CUDA's driver finds none");
    }
    check(driver_->device(&device_, 0), "cuDeviceGet");
}

Gpu::~Gpu() {
    if (!context_) {
        return;
    }
    // After an error of the GPU nothing in its context can be freed.
    if (driver_->push(context_) == 0) {
        for (const Buffer &buffer : buffers_) {
            if (buffer.address) {
                driver_->free(buffer.address);
            }
        }
        for (void *module : modules_) {
            driver_->unload(module);
        }
        driver_->pop(&context_);
    }
    driver_->release(device_);
}

Gpu::Inside::Inside(const Gpu &gpu) : driver_(*gpu.driver_) {
    gpu.check(driver_.push(gpu.context_), "cuCtxPushCurrent");
}

Gpu::Inside::~Inside() {
    void *left;
    driver_.pop(&left);
}

void Gpu::facts(int *gpu, int *cuda) const {
    int version = 0;
    check(driver_->version(&version), "cuDriverGetVersion");
    cuda[0] = version / 1000;
    cuda[1] = version % 1000 / 10;
    for (int n = 0; n < 3; n++) {
        check(driver_->attribute(&gpu[n], Driver::OF_GPU[n], device_),
              "cuDeviceGetAttribute");
    }
}

void Gpu::start() {
    check(driver_->retain(&context_, device_), "cuDevicePrimaryCtxRetain");
}

int Gpu::load(const void *cubin) {
    const Inside inside(*this);
    void *module = nullptr;
    check(driver_->load(&module, cubin), "cuModuleLoadData");
    modules_.push_back(module);
    return int(modules_.size()) - 1;
}

void Gpu::plan(const Shape &shape, int module, const char *const *constants,
               int constant_count, const std::size_t *scratch, int scratch_count,
               const Launch *launches, int launch_count) {
    const Inside inside(*this);
    void *const code = modules_.at(module);
    Plan plan{shape, {}, {scratch, scratch + scratch_count}, {}};
    const std::size_t needed = Launch::SCRATCH + plan.scratch.size();
    buffers_.resize(std::max(buffers_.size(), needed));
    for (int n = 0; n < constant_count; n++) {
        Constant constant{};
        check(driver_->global(&constant.address, &constant.bytes, code, constants[n]),
              "cuModuleGetGlobal");
        plan.constants.push_back(constant);
    }
    for (int n = 0; n < launch_count; n++) {
        void *function = nullptr;
        int registers = 0;
        check(driver_->function(&function, code, launches[n].kernel),
              "cuModuleGetFunction");
        // This query loads the function now, which CUDA otherwise does at its first launch.
        check(driver_->function_attribute(&registers, Driver::REGISTERS, function),
              "cuFuncGetAttribute");
        if (launches[n].shared_bytes > Driver::STATIC_SHARED) {
            check(driver_->set_function_attribute(function, Driver::DYNAMIC_SHARED,
                                                  int(launches[n].shared_bytes)),
                  "cuFuncSetAttribute");
        }
        plan.steps.push_back({function, launches[n]});
    }
    plans_.push_back(std::move(plan));
}

double Gpu::convolve(float *y, const float *x, const float *k, const Shape &s) {
    const Plan &plan = planned(s);
    const Inside inside(*this);
    const auto bytes = [](auto... sizes) {
        return (sizeof(float) * ... * std::size_t(sizes));
    };
    const std::size_t y_bytes = bytes(s.B, s.M, s.rows(), s.columns());
    const std::size_t x_bytes = bytes(s.B, s.C, s.H, s.W);
    const std::size_t k_bytes = bytes(s.M, s.C, s.K, s.K);
    make_room(buffers_[Launch::Y], y_bytes);
    make_room(buffers_[Launch::X], x_bytes);
    make_room(buffers_[Launch::K], k_bytes);
    const Address there = buffers_[Launch::Y].address;
    const Address weights = buffers_[Launch::K].address;
    check(driver_->upload(buffers_[Launch::X].address, x, x_bytes), "cuMemcpyHtoD");
    check(driver_->upload(weights, k, k_bytes), "cuMemcpyHtoD");
    check(driver_->fill(there, 0, y_bytes), "cuMemsetD8");
    check(driver_->wait(), "cuCtxSynchronize");

    const auto start = std::chrono::steady_clock::now();
    for (std::size_t n = 0; n < plan.scratch.size(); n++) {
        make_room(buffers_[Launch::SCRATCH + n], plan.scratch[n]);
    }
    for (const Constant &constant : plan.constants) {
        // The variable may be larger, but never smaller: the plan has checked it.
        check(driver_->copy(constant.address, weights, k_bytes), "cuMemcpyDtoD");
    }
    for (const Step &step : plan.steps) {
        launch(step);
    }
    check(driver_->wait(), "cuCtxSynchronize");
    const auto stop = std::chrono::steady_clock::now();

    check(driver_->download(y, there, y_bytes), "cuMemcpyDtoH");
    return std::chrono::duration<double>(stop - start).count();
}

void Gpu::launch(const Step &step) {
    Launch told = step.launch;
    void *arguments[8 + 16];
    int count = 0;
    for (int n = 0; n < told.buffer_count; n++) {
        arguments[count++] = &buffers_[told.buffers[n]].address;
    }
    for (int n = 0; n < told.number_count; n++) {
        arguments[count++] = &told.numbers[n];
    }
    check(driver_->launch(step.function, told.grid[0], told.grid[1], told.grid[2],
                          told.block[0], told.block[1], told.block[2],
                          told.shared_bytes, nullptr, arguments, nullptr),
          "cuLaunchKernel");
}

const Gpu::Plan &Gpu::planned(const Shape &shape) const {
    for (const Plan &plan : plans_) {
        if (plan.shape == shape) {
            return plan;
        }
    }
    throw std::runtime_error("operator New: no plan for " + shape.text());
}

void Gpu::make_room(Buffer &buffer, std::size_t bytes) {
    if (buffer.bytes >= bytes) {
        return;
    }
    if (buffer.address) {
        const Address old = std::exchange(buffer.address, 0);
        buffer.bytes = 0;
        check(driver_->free(old), "cuMemFree");
    }
    check(driver_->allocate(&buffer.address, bytes), "cuMemAlloc");
    buffer.bytes = bytes;
}

void Gpu::check(int result, const char *function) const {
    if (result == 0) {
        return;
    }
    const char *word = nullptr, *text = nullptr;
    driver_->error_name(result, &word);
    driver_->error_text(result, &text);
    throw std::runtime_error(std::string(word ? word : "CUDA_ERROR_UNKNOWN") + ": " +
                             function + " failed: " +
                             (text ? text : "error " + std::to_string(result)));
}

} // namespace rai

using namespace rai;

int rai_gpu_open(const char *library, int *gpu, int *cuda) {
    return answer([&] {
        Gpu::choose(nullptr);
        auto opened = std::make_unique<Gpu>(library);
        opened->facts(gpu, cuda);
        Gpu::choose(std::move(opened));
        return 0;
    });
}

int rai_gpu_start() {
    return answer([&] {
        found().start();
        started = true;
        return 0;
    });
}

int rai_gpu_load(const void *cubin) {
    return answer([&] { return found().load(cubin); });
}

int rai_gpu_plan(const int *sizes, int module, const char *const *constants,
                 int constant_count, const std::size_t *scratch, int scratch_count,
                 const Launch *launches, int launch_count) {
    return answer([&] {
        const Shape shape{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5]};
        found().plan(shape, module, constants, constant_count, scratch, scratch_count,
                     launches, launch_count);
        return 0;
    });
}
