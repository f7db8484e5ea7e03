// What the process holds on the host beside the arena, for the plan. Pure function of the setup.
#pragma once

#include "plan/build/plan.h"

namespace plimsoll {

struct RunSetup;

// Buckets that the training batches of this run fall into; 1 where the data is not known (the largest).
int64_t train_buckets_used(const RunSetup& setup);

// Process, data and I/O buffers. See the constants in the source for how each was measured.
HostMemory estimate_host_memory(const RunSetup& setup);

}  // namespace plimsoll
