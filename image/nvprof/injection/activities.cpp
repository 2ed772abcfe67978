#include "activities.h"

#include <cupti.h>
#include <cxxabi.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "failure.h"

namespace activities {
namespace {

// The types of CUDA 12.0; later versions only add members at the end.
using KernelActivity = CUpti_ActivityKernel9;
using MemcpyActivity = CUpti_ActivityMemcpy5;
using PeerActivity = CUpti_ActivityMemcpyPtoP4;
using MemsetActivity = CUpti_ActivityMemset4;
using DeviceActivity = CUpti_ActivityDevice5;

constexpr CUpti_ActivityKind KINDS[] = {
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMCPY2,
    CUPTI_ACTIVITY_KIND_MEMSET,
};

constexpr size_t BUFFER = 1 << 20;
constexpr int MOST_BUFFERS = 64;  // with more pending, CUPTI drops and counts activities

Recording *recording;
bool demangled;
std::atomic<bool> left;

// Buffers that CUPTI has returned, for reuse; they are never freed.
std::mutex lock;
std::vector<uint8_t *> free_buffers;
int buffers;

// IDs of kernels' names, by the text from CUPTI.
using Names = std::unordered_map<std::string, uint32_t>;
Names launched, delivered;
std::timed_mutex launched_lock;

// The name of each kernel that a call launches, in the slot of the call's correlation ID (the upper
// half). A name in CUPTI's activity lies in the program's module: after cuModuleUnload, that memory
// may hold the name of a kernel of another module. So it is read when the kernel is launched.
constexpr uint32_t LAUNCHES = 1 << 20;
std::atomic<uint64_t> launches[LAUNCHES];

uint32_t kernel_name(Names &names, const char *mangled)
{
    if (mangled == nullptr)
        mangled = "[unknown]";
    const auto known = names.find(mangled);
    if (known != names.end())
        return known->second;
    // Only C++ names are mangled: the demangler would turn a C kernel `f` into `float`.
    char *text = nullptr;
    if (demangled && strncmp(mangled, "_Z", 2) == 0)
        text = abi::__cxa_demangle(mangled, nullptr, nullptr, nullptr);
    const uint32_t id = recording->name(text ? text : mangled);
    free(text);
    return names[mangled] = id;
}

// Many kernels of one graph have one correlation ID, and no call has told their names.
uint32_t kernel_name(const KernelActivity &a)
{
    const uint64_t known = launches[a.correlationId % LAUNCHES];
    return known && known >> 32 == a.correlationId ? (uint32_t)known
                                                   : kernel_name(delivered, a.name);
}

const char *copy_text(int kind)
{
    switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
        return "[CUDA memcpy HtoD]";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
        return "[CUDA memcpy DtoH]";
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOA:
        return "[CUDA memcpy HtoA]";
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOH:
        return "[CUDA memcpy AtoH]";
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOA:
        return "[CUDA memcpy AtoA]";
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOD:
        return "[CUDA memcpy AtoD]";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOA:
        return "[CUDA memcpy DtoA]";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
        return "[CUDA memcpy DtoD]";
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH:
        return "[CUDA memcpy HtoH]";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP:
        return "[CUDA memcpy PtoP]";
    default:
        return "[CUDA memcpy]";
    }
}

// Whether an activity has times; one that was interrupted by an error has none.
template <typename Activity> bool timed(const Activity &a) { return a.start && a.end >= a.start; }

template <typename Activity, typename Fill>
void take(const Activity &a, uint32_t name, records::Kind kind, Fill record)
{
    if (!timed(a))
        recording->dropped(1);
    else if (recording->trace())
        recording->append(kind, record());
    else
        recording->add(recording->row(records::GPU, a.deviceId, name), a.end - a.start);
}

void take(const KernelActivity &a)
{
    const uint32_t name = kernel_name(a);
    take(a, name, records::KERNEL, [&] {
        return records::Kernel{
            {},
            a.start,
            a.end,
            a.deviceId,
            a.contextId,
            a.streamId,
            a.correlationId,
            {(uint32_t)a.gridX, (uint32_t)a.gridY, (uint32_t)a.gridZ},
            {(uint32_t)a.blockX, (uint32_t)a.blockY, (uint32_t)a.blockZ},
            a.registersPerThread,
            (uint32_t)a.staticSharedMemory,
            (uint32_t)a.dynamicSharedMemory,
            name,
        };
    });
}

template <typename Copy> void take_copy(const Copy &a)
{
    const uint32_t name = recording->name(copy_text(a.copyKind));
    take(a, name, records::MEMCPY, [&] {
        return records::Memcpy{{},         a.start,    a.end,     a.bytes,
                               a.deviceId, a.contextId, a.streamId, a.correlationId,
                               name,       a.srcKind,  a.dstKind, {}};
    });
}

void take(const MemsetActivity &a)
{
    const uint32_t name = recording->name("[CUDA memset]");
    take(a, name, records::MEMSET, [&] {
        return records::Memset{{},         a.start,     a.end,      a.bytes,         a.deviceId,
                               a.contextId, a.streamId, a.correlationId, name, a.value};
    });
}

void take(const DeviceActivity &a)
{
    recording->append(records::DEVICE,
                      records::Device{{},
                                      a.id,
                                      10 * a.computeCapabilityMajor + a.computeCapabilityMinor,
                                      a.numMultiprocessors,
                                      recording->name(a.name ? a.name : "GPU")});
}

void take(const CUpti_Activity &a)
{
    switch (a.kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        return take((const KernelActivity &)a);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
        return take_copy((const MemcpyActivity &)a);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
        return take_copy((const PeerActivity &)a);
    case CUPTI_ACTIVITY_KIND_MEMSET:
        return take((const MemsetActivity &)a);
    case CUPTI_ACTIVITY_KIND_DEVICE:
        return take((const DeviceActivity &)a);
    default:
        return;
    }
}

void CUPTIAPI requested(uint8_t **buffer, size_t *size, size_t *most_records)
{
    std::lock_guard<std::mutex> held(lock);
    *most_records = 0;
    *size = BUFFER;
    *buffer = nullptr;
    if (!free_buffers.empty()) {
        *buffer = free_buffers.back();
        free_buffers.pop_back();
    } else if (buffers < MOST_BUFFERS) {
        *buffer = (uint8_t *)aligned_alloc(8, BUFFER);
        buffers += *buffer != nullptr;
    }
    if (*buffer == nullptr)
        *size = 0;
}

void CUPTIAPI completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t, size_t valid)
{
    if (left)
        return;
    // The flusher and CUPTI's own thread may both deliver buffers. The wait is limited, since a
    // signal handler that exits may have interrupted the holder of the lock.
    static std::timed_mutex taking;
    const std::unique_lock<std::timed_mutex> one(taking, Recording::PATIENCE);
    if (!one)
        return;
    CUpti_Activity *activity = nullptr;
    while (valid && cuptiActivityGetNextRecord(buffer, valid, &activity) == CUPTI_SUCCESS)
        take(*activity);
    size_t dropped = 0;
    if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS && dropped)
        recording->dropped(dropped);
    std::lock_guard<std::mutex> held(lock);
    if (buffer)
        free_buffers.push_back(buffer);
}

}  // namespace

const char *deliver_to(Recording &to, bool demangle)
{
    recording = &to;
    demangled = demangle;
    if (const char *why = failure(cuptiActivityRegisterCallbacks(requested, completed)))
        return why;
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_DEVICE);
    return nullptr;
}

const char *enable()
{
    for (const CUpti_ActivityKind kind : KINDS)
        if (const char *why = failure(cuptiActivityEnable(kind)))
            return why;
    return nullptr;
}

void launching(uint32_t correlation, const char *mangled)
{
    // The wait is limited for the reason that completed() has.
    const std::unique_lock<std::timed_mutex> one(launched_lock, Recording::PATIENCE);
    if (one)
        launches[correlation % LAUNCHES] =
            (uint64_t)correlation << 32 | kernel_name(launched, mangled);
}

void disable()
{
    for (const CUpti_ActivityKind kind : KINDS)
        cuptiActivityDisable(kind);
}

void flush(bool all) { cuptiActivityFlushAll(all ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0); }

void leave() { left = true; }

}  // namespace activities
