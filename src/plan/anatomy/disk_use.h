// The bytes and the time of a plan that stores optimizer states on a disk. Pure functions of the plan; thread-safe.
#pragma once

#include <cstdint>

#include "plan/compile/plan.h"

namespace plimsoll {

struct DiskUse {
  int64_t stored_bytes = 0;   // the size of the file
  int64_t read_bytes = 0;     // bytes read per step
  int64_t written_bytes = 0;  // bytes written per step
  int64_t staging_bytes =
      0;  // the largest number of bytes of the arena that contain states between their read and their write
  int64_t buffers_bytes = 0;  // the buffers of the transfers in host memory, which are pinned for a GPU
  double ms = 0;              // per step: the time of these reads and writes at the rate of the disk
};

// Returns zeros for a plan that keeps nothing on a disk.
DiskUse disk_use(const Plan& plan);

}  // namespace plimsoll
