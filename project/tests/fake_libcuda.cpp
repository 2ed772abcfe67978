// A stand-in for NVIDIA's driver: its memory is the host's, it knows two kernels, it
// keeps a list of what it was asked, and it fails where a test tells it to.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

using Address = std::uint64_t;

namespace {

std::string asked, failing;
int code = 0, devices = 1;
thread_local int entered = 0; // contexts on the stack of the thread
std::map<Address, std::size_t> memory;
float weights[16384]; // the constant memory of the one module that there is
std::size_t filled;   // bytes of it
std::string names[] = {"conv_naive", "conv_constant"};

int answer(const std::string &function, const std::string &detail = "") {
    if (!entered && function.rfind("cuInit", 0) && function.rfind("cuDevice", 0)) {
        return 201; // CUDA_ERROR_INVALID_CONTEXT
    }
    asked += function + (detail.empty() ? "" : " " + detail) + "\n";
    return function == failing ? code : 0;
}

void convolve(float *y, const float *x, const float *k, int B, int M, int C, int H,
              int W, int K) {
    for (int b = 0; b < B; b++, x += C * H * W)
        for (int m = 0; m < M; m++)
            for (int h = 0; h + K <= H; h++)
                for (int w = 0; w + K <= W; w++, y++)
                    for (int i = 0; i < C * K * K; i++)
                        *y += x[(i / K / K * H + h + i / K % K) * W + w + i % K] *
                              k[m * C * K * K + i];
}

} // namespace

extern "C" {

const char *fake_asked() {
    static std::string given;
    given.swap(asked);
    asked.clear();
    return given.c_str();
}

void fake_fail(const char *function, int with) {
    failing = function;
    code = with;
}

void fake_devices(int count) { devices = count; }
int fake_entered() { return entered; }
int fake_allocations() { return int(memory.size()); }

int cuInit(unsigned int) { return answer("cuInit"); }
int cuDriverGetVersion(int *version) { return *version = 13020, 0; }
int cuDeviceGetCount(int *count) { return *count = devices, 0; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetAttribute(int *value, int attribute, int) {
    return *value = attribute == 75 ? 9 : attribute == 16 ? 114 : 0, 0;
}
int cuDevicePrimaryCtxRetain(void **context, int) {
    *context = &memory;
    return answer("cuDevicePrimaryCtxRetain");
}
int cuDevicePrimaryCtxRelease_v2(int) { return answer("cuDevicePrimaryCtxRelease"); }
int cuCtxPushCurrent_v2(void *) { return entered++, 0; }
int cuCtxPopCurrent_v2(void **) { return entered--, 0; }
int cuCtxSynchronize() { return answer("cuCtxSynchronize"); }

int cuMemAlloc_v2(Address *address, std::size_t bytes) {
    if (const int wrong = answer("cuMemAlloc", std::to_string(bytes))) {
        return wrong;
    }
    *address = Address(std::malloc(bytes));
    memory[*address] = bytes;
    return 0;
}
int cuMemFree_v2(Address address) {
    const auto bytes = std::to_string(memory.at(address));
    memory.erase(address);
    std::free(reinterpret_cast<void *>(address));
    return answer("cuMemFree", bytes);
}
int cuMemsetD8_v2(Address to, unsigned char byte, std::size_t bytes) {
    std::memset(reinterpret_cast<void *>(to), byte, bytes);
    return answer("cuMemsetD8", std::to_string(byte) + " " + std::to_string(bytes));
}
int cuMemcpyHtoD_v2(Address to, const void *from, std::size_t bytes) {
    std::memcpy(reinterpret_cast<void *>(to), from, bytes);
    return answer("cuMemcpyHtoD", std::to_string(bytes));
}
int cuMemcpyDtoH_v2(void *to, Address from, std::size_t bytes) {
    std::memcpy(to, reinterpret_cast<void *>(from), bytes);
    return answer("cuMemcpyDtoH", std::to_string(bytes));
}
int cuMemcpyDtoD_v2(Address to, Address from, std::size_t bytes) {
    std::memcpy(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), bytes);
    filled = bytes;
    return answer("cuMemcpyDtoD", std::to_string(bytes));
}

int cuModuleLoadData(void **module, const void *cubin) {
    *module = &names;
    return answer("cuModuleLoadData", static_cast<const char *>(cubin));
}
int cuModuleUnload(void *) { return answer("cuModuleUnload"); }
int cuModuleGetFunction(void **function, void *, const char *name) {
    for (std::string &known : names) {
        if (known == name) {
            *function = &known;
            return 0;
        }
    }
    return 500; // CUDA_ERROR_NOT_FOUND
}
int cuFuncGetAttribute(int *value, int, void *) { return *value = 32, 0; }
int cuFuncSetAttribute(void *function, int attribute, int value) {
    const std::string &name = *static_cast<std::string *>(function);
    return answer("cuFuncSetAttribute",
                  name + " " + std::to_string(attribute) + " " + std::to_string(value));
}
int cuModuleGetGlobal_v2(Address *address, std::size_t *bytes, void *, const char *) {
    *address = Address(weights);
    *bytes = sizeof weights;
    return 0;
}

int cuLaunchKernel(void *function, unsigned int x, unsigned int y, unsigned int z,
                   unsigned int block_x, unsigned int block_y, unsigned int block_z,
                   unsigned int shared, void *, void **arguments, void **) {
    const std::string &name = *static_cast<std::string *>(function);
    const auto pointer = [&](int n) { return *static_cast<float **>(arguments[n]); };
    const auto number = [&](int n) { return *static_cast<int *>(arguments[n]); };
    const bool constant = name == "conv_constant";
    const int first = constant ? 2 : 3, C = number(first);
    int K = 1;
    if (!constant)
        K = number(first + 3);
    else // K is compiled in
        while (sizeof(float) * x * C * K * K < filled)
            K++;
    convolve(pointer(0), pointer(1), constant ? weights : pointer(2), z, x, C,
             number(first + 1), number(first + 2), K);
    std::string detail = name;
    for (unsigned int n : {x, y, z, block_x, block_y, block_z, shared}) {
        detail += " " + std::to_string(n);
    }
    return answer("cuLaunchKernel", detail);
}

int cuGetErrorName(int error, const char **name) {
    *name = error == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
            : error == 100 ? "CUDA_ERROR_NO_DEVICE"
            : error == 500 ? "CUDA_ERROR_NOT_FOUND"
            : error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                           : nullptr;
    return *name ? 0 : 1;
}
int cuGetErrorString(int error, const char **text) {
    *text = error == 2     ? "out of memory"
            : error == 100 ? "no CUDA-capable device is detected"
            : error == 500 ? "named symbol not found"
            : error == 700 ? "an illegal memory access was encountered"
                           : nullptr;
    return *text ? 0 : 1;
}
}
