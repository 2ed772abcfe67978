// What the GPU did: CUPTI's activity records, taken out of its buffers.
#pragma once

#include "recording.h"

namespace activities {

// Have CUPTI deliver to a recording. Null, or what CUPTI refused.
const char *deliver_to(Recording &recording, bool demangle);

// Begin to record what is launched from now on, or stop.
const char *enable();
void disable();

// Take what is complete, without a stop of the GPU; `all`: also what waits in the last buffers.
void flush(bool all);

// Touch nothing any more, in a fork that shares the recording's memory with its parent.
void leave();

}  // namespace activities
