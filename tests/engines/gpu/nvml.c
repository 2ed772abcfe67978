/* A stand-in for NVIDIA's management library, with recorded answers.

   NVML_MACHINE picks the machine: "h200" has one GPU, "a100" one in MIG mode with two
   slices, "empty" one in MIG mode without any, "lost" two of which the second is gone,
   "mismatch" libraries newer than the kernel module, "gb10" a GPU that shares the
   machine's memory, "hung" has a driver that never answers. The names, structures and
   codes are those of nvml.h. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default"))) int
enum { OK = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, SMALL = 7, LOST = 15, MISMATCH = 18 };

typedef struct { char name[64], uuid[64]; int gi, ci; unsigned long long memory; } Device;
typedef struct { unsigned pid; unsigned long long memory; unsigned gi, ci; } Process;

static Device h200 = {"NVIDIA H200", "GPU-5e1f0c2a-9d1b-47aa-8f0e-6b1c2d3e4f50", -1, -1,
                      150754820096ull};
static Device gone = {"NVIDIA H200", "GPU-77aa0c2a-9d1b-47aa-8f0e-6b1c2d3e4f51", -1, -1, 0};
static Device a100 = {"NVIDIA A100-SXM4-40GB", "GPU-c0ffee00-1111-2222-3333-444455556666", -1,
                      -1, 42949672960ull};
static Device slices[] = {
    {"NVIDIA A100-SXM4-40GB MIG 3g.20gb", "MIG-aaaa1111-2222-5333-8444-555566667777", 1, 0,
     20937965568ull},
    {"NVIDIA A100-SXM4-40GB MIG 3g.20gb", "MIG-bbbb1111-2222-5333-8444-555566667777", 2, 0,
     20937965568ull}};

static int is(const char *machine) {
    const char *named = getenv("NVML_MACHINE");
    return named && !strcmp(named, machine);
}
static int mig(void) { return is("a100") || is("empty"); }

API nvmlInitWithFlags(unsigned flags) {
    if (is("hung")) pause();
    return is("mismatch") ? MISMATCH : OK;
}
API nvmlShutdown(void) { return OK; }
API nvmlSystemGetDriverVersion(char *text, unsigned length) {
    snprintf(text, length, "580.159.04");
    return OK;
}
API nvmlDeviceGetCount_v2(unsigned *count) { *count = is("lost") ? 2 : 1; return OK; }
API nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device) {
    *device = mig() ? &a100 : &h200;
    return index == 1 ? LOST : OK;
}
API nvmlDeviceGetHandleByUUID(const char *uuid, Device **device) {
    Device *all[] = {&h200, &a100, &slices[0], &slices[1], &gone};
    for (int n = 0; n < 5; n++)
        if (!strcmp(all[n]->uuid, uuid)) {
            *device = all[n];
            return n == 4 ? LOST : OK;
        }
    return NOT_FOUND;
}
API nvmlDeviceGetUUID(Device *device, char *text, unsigned length) {
    snprintf(text, length, "%s", device->uuid);
    return OK;
}
API nvmlDeviceGetName(Device *device, char *text, unsigned length) {
    snprintf(text, length, "%s", device->name);
    return OK;
}
API nvmlDeviceGetMemoryInfo(Device *device, unsigned long long *memory) {
    memory[0] = memory[1] = device->memory;
    memory[2] = 0;
    return is("gb10") ? NOT_SUPPORTED : OK;
}
API nvmlDeviceGetCudaComputeCapability(Device *device, int *major, int *minor) {
    *major = mig() ? 8 : 9;
    *minor = 0;
    return OK;
}
API nvmlDeviceGetMinorNumber(Device *device, unsigned *minor) { *minor = 0; return OK; }
API nvmlDeviceGetMigMode(Device *device, unsigned *now, unsigned *then) {
    *now = *then = mig();
    return OK;
}
API nvmlDeviceGetMaxMigDeviceCount(Device *device, unsigned *count) { *count = 7; return OK; }
API nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned index, Device **part) {
    *part = &slices[index & 1];
    return is("a100") && index < 2 ? OK : NOT_FOUND;
}
API nvmlDeviceGetGpuInstanceId(Device *part, unsigned *id) { *id = part->gi; return OK; }
API nvmlDeviceGetComputeInstanceId(Device *part, unsigned *id) { *id = part->ci; return OK; }
API nvmlDeviceGetPowerUsage(Device *device, unsigned *milliwatts) {
    *milliwatts = 118250;
    return device->gi < 0 ? OK : NOT_SUPPORTED;
}
API nvmlDeviceGetClockInfo(Device *device, int kind, unsigned *mhz) {
    *mhz = kind == 1 ? 1980 : 3201;
    return device->gi < 0 ? OK : NOT_SUPPORTED;
}
API nvmlDeviceGetMaxClockInfo(Device *device, int kind, unsigned *mhz) {
    *mhz = 1980;
    return device->gi < 0 ? OK : NOT_SUPPORTED;
}
API nvmlDeviceGetTemperature(Device *device, int sensor, unsigned *celsius) {
    *celsius = 41;
    return device->gi < 0 ? OK : NOT_SUPPORTED;
}
API nvmlDeviceGetCurrentClocksThrottleReasons(Device *device, unsigned long long *bits) {
    *bits = 0x1 | 0x4;
    return device->gi < 0 ? OK : NOT_SUPPORTED;
}
API nvmlDeviceGetRemappedRows(Device *device, unsigned *mended, unsigned *unmended,
                              unsigned *pending, unsigned *failed) {
    *mended = *unmended = *failed = 0;
    *pending = is("pending");
    return OK;
}
API nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned *count, Process *found) {
    unsigned room = *count;
    *count = device == &slices[0] || (device == &h200 && !is("idle")) ? 1 : 0;
    if (room < *count) return SMALL;
    if (*count) found[0] = (Process){4294967, 1073741824ull, 0, 0};
    return OK;
}
API nvmlSystemGetProcessName(unsigned pid, char *text, unsigned length) {
    snprintf(text, length, "/opt/conda/bin/python3.11");
    return OK;
}
