// Measures the duration of collective operations (such as all_reduce) between the ranks of a run, and stores the
// results, with which plans estimate the speed. Each rank is a process, which calls bench_links(); `plimsoll bench
// --links` starts them. Not thread-safe.
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
  // The largest size of data to measure. Sizes start at 1 KiB, and each is four times the one before, except that the last is this size.
  int64_t largest_bytes = int64_t{256} << 20;
  // upper bound for the time spent on repetitions of one operation with one data size
  double seconds_per_size = 2;
};

struct LinkBenchReport {
  std::string table = {};  // table of the results for people; empty in all ranks but the first
  // path of the file in the cache from which plans read the times; empty if nothing was measured
  std::string path = {};
  std::vector<std::string> notes = {};  // the collective operations that were not measured, and the reasons
};

// Measures all_reduce, reduce_scatter, all_gather and broadcast between this process and the other ranks of a run. The
// launcher's variables in `environment` state the rank of this process and the address of the others. CPUs exchange
// data through Gloo; on GPUs, both mapped memory and NCCL are measured if they are available, or NCCL alone with
// NCCL_P2P_DISABLE=1. The first rank adds the times to the file of this machine, device and number of ranks in the
// user's cache. `arguments` chooses the device; ddp_timeout limits each exchange. `progress` receives a text before
// each size. Errors: kUsage if this process is the only rank, or if the options of the ranks differ; kDevice if a rank
// fails or a result is wrong. Cost: memory for the largest size on each rank and device, and for each operation and
// size about seconds_per_size at most.
LinkBenchReport bench_links(const Arguments& arguments, const LinkBenchOptions& options,
                            const Environment& environment,
                            const std::function<void(const std::string&)>& progress);

// Returns true if these arguments start several ranks on this machine and the ranks use GPUs.
bool ranks_use_gpus(const Arguments& arguments);
// Returns true if the NCCL library can be opened.
bool has_nccl();

}  // namespace plimsoll
