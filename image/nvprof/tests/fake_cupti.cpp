// CUPTI without a GPU, as far as nvprof's library asks for it: a program says what was
// called and what ran, and hears of it as from CUPTI. Time goes on only when told to.

#include <cupti.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

namespace {

std::recursive_mutex lock;
CUpti_BuffersCallbackRequestFunc request;
CUpti_BuffersCallbackCompleteFunc complete;
CUpti_CallbackFunc called;
bool enabled[CUPTI_ACTIVITY_KIND_COUNT];
uint64_t clock_ns = 1'000'000'000;
thread_local uint32_t correlation, depth;
uint32_t device;
int result;
size_t dropped;
std::vector<char *> names;  // of the kernels of modules that are loaded

struct {
    uint8_t *at;
    size_t size, valid;
} buffer;

#if CUPTI_API_VERSION >= 130000
using Kernel = CUpti_ActivityKernel10;
#else
using Kernel = CUpti_ActivityKernel9;
#endif

size_t size_of(CUpti_ActivityKind kind)
{
    switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        return sizeof(Kernel);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
        return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
        return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET:
        return sizeof(CUpti_ActivityMemset4);
    default:
        return sizeof(CUpti_ActivityDevice5);
    }
}

void deliver()
{
    if (buffer.at)
        complete(nullptr, 0, buffer.at, buffer.size, buffer.valid);
    buffer = {};
}

template <typename Activity> void record(const Activity &activity)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    if (!enabled[activity.kind])
        return;
    if (buffer.at && buffer.size - buffer.valid < sizeof activity)
        deliver();
    size_t most = 0;
    if (!buffer.at)
        request(&buffer.at, &buffer.size, &most);
    if (!buffer.at) {
        dropped++;
        return;
    }
    memcpy(buffer.at + buffer.valid, &activity, sizeof activity);
    buffer.valid += sizeof activity;
}

void call(CUpti_CallbackDomain domain, CUpti_CallbackId id, const char *name, bool enter,
          const char *kernel = nullptr)
{
    CUpti_CallbackData data = {};
    data.callbackSite = enter ? CUPTI_API_ENTER : CUPTI_API_EXIT;
    data.functionName = name;
    data.symbolName = kernel;
    data.functionReturnValue = enter ? nullptr : &result;
    data.correlationId = correlation;
    if (called)
        called(nullptr, domain, id, &data);
}

}  // namespace

// What a program says. Names of functions are never freed, as those of CUPTI are not.
extern "C" {

void fake_pass(uint64_t ns) { clock_ns += ns; }

// A call of the runtime or, where the name begins so, of the driver; of a launch its kernel.
void fake_enter(const char *name, uint32_t id, const char *kernel)
{
    correlation += depth++ == 0;  // what is called inside a call belongs to it
    call(strncmp(name, "cuda", 4) ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API, id,
         strdup(name), true, kernel);
}

void fake_leave(const char *name, uint32_t id)
{
    depth--;
    call(strncmp(name, "cuda", 4) ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API, id,
         strdup(name), false);
}

void fake_kernel(const char *name, uint64_t ns)
{
    Kernel k = {};
    k.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    names.push_back(strdup(name));
    k.name = names.back();
    k.start = ns ? clock_ns : 0;
    k.end = ns ? clock_ns + ns : 0;
    k.correlationId = correlation;
    k.deviceId = device;
    k.contextId = 1;
    k.streamId = 7;
    k.gridX = 12, k.gridY = 25, k.gridZ = 100;
    k.blockX = 16, k.blockY = 16, k.blockZ = 1;
    k.registersPerThread = 40;
    k.staticSharedMemory = 2048;
    k.dynamicSharedMemory = 512;
    record(k);
}

void fake_copy(int kind, uint64_t bytes, uint64_t ns)
{
    CUpti_ActivityMemcpy6 c = {};
    c.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
    c.copyKind = kind;
    c.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
    c.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    c.bytes = bytes;
    c.start = clock_ns;
    c.end = clock_ns + ns;
    c.correlationId = correlation;
    record(c);
}

void fake_peer_copy(uint64_t bytes, uint64_t ns)
{
    CUpti_ActivityMemcpyPtoP4 c = {};
    c.kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
    c.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
    c.bytes = bytes;
    c.start = clock_ns;
    c.end = clock_ns + ns;
    record(c);
}

void fake_set(uint64_t bytes, uint64_t ns)
{
    CUpti_ActivityMemset4 s = {};
    s.kind = CUPTI_ACTIVITY_KIND_MEMSET;
    s.bytes = bytes;
    s.start = clock_ns;
    s.end = clock_ns + ns;
    record(s);
}

// The modules are unloaded: what was the names of their kernels is other data now.
void fake_unload()
{
    for (char *name : names)
        memset(name, '?', strlen(name));
    names.clear();
}

void fake_drop(size_t activities) { dropped += activities; }

// On which GPU kernels run from now on, and what calls give back.
void fake_device(uint32_t id) { device = id; }
void fake_result(int code) { result = code; }

// --- what CUPTI offers ------------------------------------------------------------------------

CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc a,
                                                    CUpti_BuffersCallbackCompleteFunc b)
{
    request = a;
    complete = b;
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind)
{
    enabled[kind] = true;
    if (kind == CUPTI_ACTIVITY_KIND_DEVICE) {
        CUpti_ActivityDevice5 d = {};
        d.kind = kind;
        d.name = "Fake GPU";
        d.computeCapabilityMajor = 9;
        d.numMultiprocessors = 132;
        record(d);
    }
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityDisable(CUpti_ActivityKind kind)
{
    enabled[kind] = false;
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityFlushAll(uint32_t)
{
    std::lock_guard<std::recursive_mutex> held(lock);
    deliver();
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityGetNextRecord(uint8_t *from, size_t valid, CUpti_Activity **at)
{
    uint8_t *next = *at ? (uint8_t *)*at + size_of((*at)->kind) : from;
    if (next >= from + valid)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *at = (CUpti_Activity *)next;
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t *count)
{
    *count = dropped;
    dropped = 0;
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiSubscribe(CUpti_SubscriberHandle *, CUpti_CallbackFunc function, void *)
{
    if (getenv("FAKE_CUPTI_TAKEN"))
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    called = function;
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiEnableDomain(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain)
{
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiGetTimestamp(uint64_t *ns)
{
    *ns = clock_ns;
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiGetVersion(uint32_t *version)
{
    *version = CUPTI_API_VERSION;
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult, const char **text)
{
    *text = "another profiler is there already";
    return CUPTI_SUCCESS;
}
}
