// The format of a process's recording, which the library writes and the program `nvprof` reads
// (nvprof/stream.py has the same layouts). The file is mapped memory, so it survives a killed
// process. Numbers are little-endian, and the size of every record is a multiple of 8 bytes.
//
//   Header, then Header::committed bytes of records, each starting with its kind and size.
#pragma once

#include <cstdint>

namespace records {

constexpr char MAGIC[8] = {'N', 'V', 'P', 'R', 'O', 'F', '0', '1'};
constexpr int HEADER_BYTES = 4096;

struct Header {
    char magic[8];
    uint32_t pid;
    uint32_t parent;
    uint32_t trace;       // 0: totals only, 1: every activity
    uint32_t ended;       // 1 when the process has exited normally
    uint64_t committed;   // bytes of records
    uint64_t dropped;     // activities lost for lack of CUPTI's buffers
    uint64_t lost;        // activities lost for lack of disk space
    uint64_t started_ns;  // Unix time at `base`
    uint64_t base;        // CUPTI's clock, in ns, when recording began
    uint32_t driver;      // cuDriverGetVersion, 13000 for 13.0
    uint32_t cupti;       // cuptiGetVersion
    char command[HEADER_BYTES - 72];  // NUL-terminated arguments, truncated after an argument
};
static_assert(sizeof(Header) == HEADER_BYTES);

enum Kind : uint32_t { NAME = 1, TOTAL, KERNEL, MEMCPY, MEMSET, API, DEVICE };

struct Lead {
    uint32_t kind;
    uint32_t bytes;  // of the whole record
};

// A text, written before its first use: `length` bytes of UTF-8 follow.
struct Name {
    Lead lead;
    uint32_t id;  // 0, 1, 2, ...
    uint32_t length;
};

// A row of the summary, updated in place.
enum Section : uint32_t { GPU = 0, CALLS = 1 };
struct Total {
    Lead lead;
    uint32_t name;
    uint32_t section;
    uint32_t device;  // for GPU rows
    uint32_t unused;
    uint64_t count;
    uint64_t total_ns;
    uint64_t min_ns;
    uint64_t max_ns;
};

struct Kernel {
    Lead lead;
    uint64_t start, end;  // CUPTI's clock
    uint32_t device, context, stream, correlation;
    uint32_t grid[3], block[3];
    uint32_t registers;       // per thread
    uint32_t static_shared;   // bytes
    uint32_t dynamic_shared;  // bytes
    uint32_t name;
};

struct Memcpy {
    Lead lead;
    uint64_t start, end, size;  // bytes
    uint32_t device, context, stream, correlation;
    uint32_t name;  // "[CUDA memcpy HtoD]"
    uint8_t source, destination;  // CUpti_ActivityMemoryKind: 1 pageable, 2 pinned, 3 device, ...
    uint8_t unused[2];
};

struct Memset {
    Lead lead;
    uint64_t start, end, size;
    uint32_t device, context, stream, correlation;
    uint32_t name;
    uint32_t value;
};

struct Api {
    Lead lead;
    uint64_t start, end;
    uint32_t thread, correlation;
    uint32_t name;
    uint32_t result;  // CUresult or cudaError_t; 0 is success
};

struct Device {
    Lead lead;
    uint32_t id;
    uint32_t capability;  // 10 x major + minor
    uint32_t multiprocessors;
    uint32_t name;
};

}  // namespace records
