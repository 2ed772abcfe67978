// What the program called: functions of CUDA's runtime and driver, by CUPTI's callbacks.
#pragma once

#include "recording.h"

namespace calls {

// What the calls themselves ask of the recording.
struct Hooks {
    void (*synchronized)();     // the program has just waited for the GPU
    void (*profiling)(bool on); // cudaProfilerStart, cudaProfilerStop
};

// Count calls while record(true) holds. Null, or what CUPTI refused.
const char *count_in(Recording &recording, Hooks hooks);

void record(bool on);

// Touch nothing any more, in a fork that shares the recording's memory with its parent.
void leave();

}  // namespace calls
