// GPU activities: reads CUPTI's activity records from its buffers.
#pragma once

#include "recording.h"

namespace activities {

// Let CUPTI deliver activities to a recording. Returns null, or CUPTI's error.
const char *deliver_to(Recording &recording, bool demangle);

// Start or stop recording. enable() returns null, or CUPTI's error.
const char *enable();
void disable();

// Note which kernel a call is about to launch, by its correlation ID; any thread may.
void launching(uint32_t correlation, const char *mangled);

// Record completed activities without synchronising the GPU; `all`: those in partial buffers too.
void flush(bool all);

// Stop all writing in a forked child, which shares the recording's memory with its parent.
void leave();

}  // namespace activities
