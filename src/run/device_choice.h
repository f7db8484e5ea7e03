// Chooses the device that a run is planned for. Asks the machine which GPUs it has, but allocates nothing on them.
#pragma once

#include <string>
#include <vector>

#include "base/rank_place.h"
#include "plan/compile/plan.h"
#include "plimsoll/arguments.h"
#include "run/run_purpose.h"

namespace plimsoll {

// The device that a run is planned for.
struct ChosenDevice {
  DeviceOptions options = {};
  std::string label = {};  // name for tables and messages: "cpu, 2 threads" or "cuda:0, NVIDIA H200"
  int gpu_ordinal = 0;     // index of the chosen GPU among the visible GPUs
  // True if the process has opened the GPU driver, which it may do even if it runs on a CPU.
  bool holds_gpu_driver = false;
};

// Returns the device that --device names. `auto` is the CPU if no GPU is visible or if --kernels requests the reference kernels. Otherwise,
// a single rank on this machine gets the first visible GPU. With several ranks, each gets the GPU with its number within the machine, or
// the only one that its launcher makes visible to it. The name of a GPU model in the built-in table selects a device for planning only; a
// note is added if releases of Plimsoll do not run on this model. Errors: kUsage for an unknown name, for the name of a GPU model if the
// run does not end with its plan, and for more ranks than GPUs; kDevice for a GPU that the machine does not have.
ChosenDevice choose_device(const Arguments& arguments, RunPurpose purpose, const RankPlace& place,
                           int num_threads, std::vector<std::string>& notes);

// Checks that the plan fits into the memory that is free on the GPU now, according to the driver. Does nothing for a plan on a CPU.
// Errors: kWillNotFit, naming the processes that use the rest of the memory.
void require_free_memory(const Plan& plan, const std::string& device_label);

// Returns a line for the error message of a run whose GPU failed: the memory that the plan needs on the card, the memory that is free
// there now, and the processes that use the rest. Returns "" on a CPU.
std::string describe_gpu_memory(const Plan& plan);

// Returns the number of bytes that all processes together use on the GPU now. Returns 0 on a CPU, or if the driver does not report it.
int64_t gpu_used_bytes(const PlanRequest& request);

// Returns the first line that a run prints, such as "device cpu: Some CPU, 2 threads, AVX-512" or "device cuda:0: NVIDIA H200, ...".
std::string device_line(const ChosenDevice& device);

// Determines the number of threads of a run. Thread-safe; asks the system which processors this process may use.

// Returns the number of hardware threads that this process may use.
int available_threads();
// Returns the number of threads of a run: --num_threads if it is set, otherwise a rank's share of available_threads(), at most
// thread_limit() of device/cpu/parallel.h.
int num_run_threads(const Arguments& arguments);

}  // namespace plimsoll
