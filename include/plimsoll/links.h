// Measures collective operations between the ranks of a run, and stores their times for plans. Each rank is a process, which
// calls bench_links(); `plimsoll bench --links` starts them. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plimsoll/arguments.h"
#include "plimsoll/error.h"
#include "plimsoll/training.h"

namespace plimsoll {

struct LinkBenchOptions {
  int64_t largest_bytes = int64_t{256}
                          << 20;  // sizes of data from 1 KiB to this one, each four times the one before
  double seconds_per_size = 2;    // limit for the repetitions of one operation with one size
};

struct LinkBenchReport {
  std::string table = {};               // for people; empty on other ranks than the first one
  std::string path = {};                // the file that plans read; empty if nothing was measured
  std::vector<std::string> notes = {};  // what was not measured, and why
};

// Measures all_reduce, reduce_scatter, all_gather and broadcast between this process and the other ranks, whose places the
// variables of their launchers in `environment` state: on CPUs by Gloo, on GPUs by mapped memory and by NCCL, as far as they
// exist, or with NCCL_P2P_DISABLE=1 by NCCL alone. The first rank adds the times to the file of this machine, device and number
// of ranks in the user's cache. `arguments` chooses the device; ddp_timeout limits each exchange. `progress` receives a text
// before each size. Errors: kUsage if this process is the only rank, or if ranks have other options; kDevice if a rank fails or
// a result is wrong. Cost: memory for the largest size on each rank and device; at most about the limit for each size.
LinkBenchReport bench_links(const Arguments& arguments, const LinkBenchOptions& options,
                            const Environment& environment,
                            const std::function<void(const std::string&)>& progress);

// Returns true if several ranks of these arguments on this machine use GPUs.
bool ranks_use_gpus(const Arguments& arguments);
// Returns true if NCCL can be opened.
bool has_nccl();

}  // namespace plimsoll
