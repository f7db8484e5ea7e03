// The use that a plan makes of a disk for optimizer states. Pure functions of the plan; thread-safe.
#pragma once

#include <cstdint>

#include "plan/compile/plan.h"

namespace plimsoll {

struct DiskUse {
  int64_t stored_bytes = 0;   // the size of the file
  int64_t read_bytes = 0;     // per step
  int64_t written_bytes = 0;  // per step
  int64_t staging_bytes =
      0;  // the most bytes of the arena that contain states from their read to their write
  int64_t buffers_bytes = 0;  // the buffers of the transfers in host memory, which are pinned for a GPU
  double ms = 0;              // per step: what is read and written, at the rate of the disk
};

// Returns zeros for a plan that keeps nothing on a disk.
DiskUse disk_use(const Plan& plan);

}  // namespace plimsoll
