// Computes the bytes and the transfer time of a plan that stores optimizer states in a file on a disk. Pure functions of the plan;
// thread-safe.
#pragma once

#include <cstdint>

#include "plan/compile/plan.h"

namespace plimsoll {

struct DiskUse {
  int64_t stored_bytes = 0;   // size of the file that contains the optimizer states
  int64_t read_bytes = 0;     // bytes read from the file per step
  int64_t written_bytes = 0;  // bytes written to the file per step
  // The largest number of bytes in the arena at one time that contain states between being read from the file and being written back.
  int64_t staging_bytes = 0;
  int64_t buffers_bytes = 0;  // buffers for the transfers in host memory, which are pinned for a GPU
  double ms = 0;              // estimated time per step for these reads and writes
};

// Returns zeros for a plan that stores nothing on a disk.
DiskUse disk_use(const Plan& plan);

}  // namespace plimsoll
