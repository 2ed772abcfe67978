// API calls: functions of CUDA's runtime and driver, through CUPTI's callbacks.
#pragma once

#include "recording.h"

namespace calls {

// Called at certain API calls.
struct Hooks {
    void (*synchronized)();     // the program has just waited for the GPU
    void (*profiling)(bool on); // cudaProfilerStart, cudaProfilerStop
};

// Count calls while record(true) is in effect. Returns null, or CUPTI's error.
const char *count_in(Recording &recording, Hooks hooks);

void record(bool on);

// Stop all writing in a forked child, which shares the recording's memory with its parent.
void leave();

}  // namespace calls
