#include "calls.h"

#include <cupti.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "activities.h"
#include "failure.h"

namespace calls {
namespace {

constexpr size_t MOST = 2048;  // functions per domain
constexpr uint32_t UNNAMED = UINT32_MAX;

Recording *recording;
Hooks hooks;
std::atomic<bool> recorded, left;
CUpti_SubscriberHandle subscriber;

// The IDs of the functions' names, cached, and the kind of each function.
enum Meaning : uint8_t { UNKNOWN, PLAIN, WAITS, LAUNCHES, STARTS, STOPS, OURS };
struct Function {
    std::atomic<uint32_t> name{UNNAMED};
    std::atomic<Meaning> meaning{UNKNOWN};
    std::atomic<records::Total *> row{nullptr};
};
Function functions[2][MOST];

// The outermost call of this thread; nested calls are internal to the runtime.
thread_local struct {
    int depth;
    uint64_t start;
} call;

bool ends(std::string_view text, std::string_view end)
{
    return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// The name without suffixes of versions: `cuMemcpyHtoD_v2_ptds`, `cudaLaunchKernel_ptsz_v7000`.
std::string_view plain(std::string_view name)
{
    const auto without_stream = [](std::string_view text) {
        const bool marked = ends(text, "_ptsz") || ends(text, "_ptds");
        return marked ? text.substr(0, text.size() - 5) : text;
    };
    name = without_stream(name);
    const auto version = name.rfind("_v");
    if (version != name.npos && version + 2 < name.size() &&
        name.find_first_not_of("0123456789", version + 2) == name.npos)
        name = name.substr(0, version);
    return without_stream(name);
}

Meaning meaning_of(std::string_view name)
{
    // CUPTI calls it for every launched kernel.
    if (name == "cuKernelGetName")
        return OURS;
    if (ends(name, "ProfilerStart"))
        return STARTS;
    if (ends(name, "ProfilerStop"))
        return STOPS;
    // Those of one kernel, not of graphs, of functions of the host and of several GPUs.
    if (name.find("Launch") != name.npos && name.find("Graph") == name.npos &&
        name.find("Host") == name.npos && name.find("Multi") == name.npos)
        return LAUNCHES;
    // Copies that wait: cudaMemcpy, cuMemcpyDtoH.
    const bool copies = name.find("Memcpy") != name.npos && !ends(name, "Async");
    return ends(name, "Synchronize") || copies ? WAITS : PLAIN;
}

Function &function(CUpti_CallbackDomain domain, CUpti_CallbackId id, const char *symbol)
{
    Function &f = functions[domain == CUPTI_CB_DOMAIN_RUNTIME_API][id % MOST];
    if (f.meaning == UNKNOWN)
        f.meaning = meaning_of(plain(symbol ? symbol : "[unknown]"));
    return f;
}

void name(Function &f, const char *symbol)
{
    if (f.name.load(std::memory_order_acquire) != UNNAMED)
        return;
    const uint32_t id = recording->name(plain(symbol ? symbol : "[unknown]"));
    if (!recording->trace() && f.meaning != OURS)
        f.row = recording->row(records::CALLS, 0, id);
    f.name = id;
}

uint64_t now()
{
    uint64_t ns = 0;
    cuptiGetTimestamp(&ns);
    return ns;
}

void finish(Function &f, const CUpti_CallbackData &data, uint64_t start)
{
    const uint64_t end = now();
    if (!recording->trace())
        return recording->add(f.row, end - start);
    static thread_local const uint32_t thread = syscall(SYS_gettid);
    const uint32_t result = data.functionReturnValue ? *(uint32_t *)data.functionReturnValue : 0;
    recording->append(records::API, records::Api{{}, start, end, thread, data.correlationId,
                                                 f.name, result});
}

void CUPTIAPI called(void *, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *info)
{
    if (left)
        return;
    const auto &data = *(const CUpti_CallbackData *)info;
    if (data.callbackSite == CUPTI_API_ENTER) {
        if (call.depth++ > 0)
            return;
        if (recorded.load(std::memory_order_relaxed) && data.symbolName &&
            function(domain, id, data.functionName).meaning == LAUNCHES)
            activities::launching(data.correlationId, data.symbolName);
        call.start = now();
        return;
    }
    if (call.depth == 0 || --call.depth > 0)
        return;
    Function &f = function(domain, id, data.functionName);
    name(f, data.functionName);
    const Meaning meaning = f.meaning;
    if (meaning == STARTS)
        hooks.profiling(true);
    if (meaning != OURS && recorded.load(std::memory_order_relaxed))
        finish(f, data, call.start);
    if (meaning == STOPS)
        hooks.profiling(false);
    if (meaning == WAITS)
        hooks.synchronized();
}

}  // namespace

const char *count_in(Recording &to, Hooks asked)
{
    recording = &to;
    hooks = asked;
    for (const char *why : {failure(cuptiSubscribe(&subscriber, called, nullptr)),
                            failure(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API)),
                            failure(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API))})
        if (why)
            return why;
    return nullptr;
}

void record(bool on) { recorded = on; }

void leave() { left = true; }

}  // namespace calls
