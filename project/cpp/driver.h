// The functions of libcuda that are used here, with the signatures of CUDA's driver API
// 12.0 (docs.nvidia.com/cuda/cuda-driver-api). A CUresult is an int, 0 for success; a
// CUdeviceptr has 64 bits; contexts, modules and functions are pointers.
#ifndef RAI_DRIVER_H
#define RAI_DRIVER_H

#include <cstddef>
#include <cstdint>
#include <dlfcn.h>
#include <stdexcept>
#include <string>

namespace rai {

struct Driver {
    using Address = std::uint64_t;

    // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR and _MULTIPROCESSOR_COUNT;
    // CU_FUNC_ATTRIBUTE_NUM_REGS and _MAX_DYNAMIC_SHARED_SIZE_BYTES.
    static constexpr int OF_GPU[3] = {75, 76, 16}, REGISTERS = 4, DYNAMIC_SHARED = 8;
    // Bytes of shared memory that need no opt-in.
    static constexpr unsigned int STATIC_SHARED = 48 << 10;

    int (*init)(unsigned int flags);
    int (*version)(int *version);
    int (*device_count)(int *count);
    int (*device)(int *device, int ordinal);
    int (*attribute)(int *value, int attribute, int device);
    int (*retain)(void **context, int device);
    int (*release)(int device);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*wait)();
    int (*allocate)(Address *address, std::size_t bytes);
    int (*free)(Address address);
    int (*fill)(Address address, unsigned char byte, std::size_t bytes);
    int (*upload)(Address to, const void *from, std::size_t bytes);
    int (*download)(void *to, Address from, std::size_t bytes);
    int (*copy)(Address to, Address from, std::size_t bytes);
    int (*load)(void **module, const void *cubin);
    int (*unload)(void *module);
    int (*function)(void **function, void *module, const char *name);
    int (*function_attribute)(int *value, int attribute, void *function);
    int (*set_function_attribute)(void *function, int attribute, int value);
    int (*global)(Address *address, std::size_t *bytes, void *module, const char *name);
    int (*launch)(void *function, unsigned int grid_x, unsigned int grid_y,
                  unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                  unsigned int block_z, unsigned int shared_bytes, void *stream,
                  void **arguments, void **extra);
    int (*error_name)(int error, const char **name);
    int (*error_text)(int error, const char **text);

    // The library is never unloaded, which NVIDIA's does not support well.
    explicit Driver(const char *library) : handle_(dlopen(library, RTLD_NOW)) {
        if (!handle_) {
            const char *const why = dlerror();
            throw std::runtime_error(std::string("NVIDIA's driver is not installed (") +
                                     (why ? why : library) + ")");
        }
        find(init, "cuInit");
        find(version, "cuDriverGetVersion");
        find(device_count, "cuDeviceGetCount");
        find(device, "cuDeviceGet");
        find(attribute, "cuDeviceGetAttribute");
        find(retain, "cuDevicePrimaryCtxRetain");
        find(release, "cuDevicePrimaryCtxRelease_v2");
        find(push, "cuCtxPushCurrent_v2");
        find(pop, "cuCtxPopCurrent_v2");
        find(wait, "cuCtxSynchronize");
        find(allocate, "cuMemAlloc_v2");
        find(free, "cuMemFree_v2");
        find(fill, "cuMemsetD8_v2");
        find(upload, "cuMemcpyHtoD_v2");
        find(download, "cuMemcpyDtoH_v2");
        find(copy, "cuMemcpyDtoD_v2");
        find(load, "cuModuleLoadData");
        find(unload, "cuModuleUnload");
        find(function, "cuModuleGetFunction");
        find(function_attribute, "cuFuncGetAttribute");
        find(set_function_attribute, "cuFuncSetAttribute");
        find(global, "cuModuleGetGlobal_v2");
        find(launch, "cuLaunchKernel");
        find(error_name, "cuGetErrorName");
        find(error_text, "cuGetErrorString");
    }

  private:
    template <class Function> void find(Function &function, const char *name) {
        function = reinterpret_cast<Function>(dlsym(handle_, name));
        if (!function) {
            throw std::runtime_error("NVIDIA's driver is too old: it has no " +
                                     std::string(name));
        }
    }

    void *handle_;
};

} // namespace rai

#endif
