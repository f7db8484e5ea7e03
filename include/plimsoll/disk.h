// Measures the disk of a folder, for `--offload_optimizer nvme:FOLDER`. Not thread-safe: it writes a file into the folder
// and removes it.
#pragma once

#include <cstdint>
#include <string>

#include "plimsoll/training.h"

namespace plimsoll {

struct DiskBenchReport {
  double read_gb_per_s = 0;
  double write_gb_per_s = 0;
  double both_gb_per_s = 0;  // total transfer rate while reading and writing at the same time
  int64_t file_bytes = 0;
  bool is_direct = false;  // true if the transfers bypassed the operating system's page cache
  std::string path;        // file in the cache with the measured rates, which plans read
};

// Reads and writes a file of `file_bytes` in the folder, in the same way as a run, and stores the rates in the user's cache, where plans
// for a folder on this disk find them. Errors: kUsage for a folder that does not exist or cannot be written to, and for an environment
// without a cache; kWillNotFit if the disk has fewer free bytes; kDevice if the disk fails. Cost: the file is written six times and read
// six times.
DiskBenchReport bench_disk(const std::string& folder, int64_t file_bytes, const Environment& environment);

}  // namespace plimsoll
