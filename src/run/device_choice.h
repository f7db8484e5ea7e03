// Chooses the device that a run is planned for. Asks the machine which GPUs it has; allocates nothing on them.
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
  std::string label = {};         // for tables and messages: "cpu, 2 threads", "cuda:0, NVIDIA H200"
  int gpu_ordinal = 0;            // among the visible GPUs
  bool holds_gpu_driver = false;  // the process has opened the GPU driver, even if it runs on a CPU
};

// Returns the device that --device names. `auto` is the CPU if no GPU is visible. With one rank on this machine it is the
// first visible GPU; with several, each rank gets the GPU with its own number, or the only one that its launcher lets it
// see. Adds a note for a card that plans only. Errors: kUsage for a name that is no device, for a card of the table unless
// the run ends with its plan, and for more ranks than GPUs; kDevice for a GPU that the machine does not have.
ChosenDevice choose_device(const Arguments& arguments, RunPurpose purpose, const RankPlace& place,
                           int num_threads, std::vector<std::string>& notes);

// Checks that the plan fits into the memory that is free on the GPU now, as the driver counts it. Does nothing for a
// plan on a CPU. Errors: kWillNotFit, naming the processes that hold the rest.
void require_free_memory(const Plan& plan, const std::string& device_label);

// Returns a line for the error message of a run whose GPU failed: the memory that the plan needs there, the memory
// that is free on the card now, and the processes that hold the rest. "" on a CPU.
std::string describe_gpu_memory(const Plan& plan);

// Returns the bytes that all processes together hold on the GPU now; 0 on a CPU, or if the driver does not report it.
int64_t gpu_used_bytes(const PlanRequest& request);

// Returns the first line of a run: "device cpu: Some CPU, 2 threads, AVX-512", "device cuda:0: NVIDIA H200, ...".
std::string device_line(const ChosenDevice& device);

// The number of threads of a run. Thread-safe; asks the system which processors this process may use.

// Returns the number of hardware threads that this process may use.
int available_threads();
// Returns the number of threads of a run: --num_threads if it is set, otherwise the share of available_threads() of a rank, at most
// thread_limit() of device/cpu/parallel.h.
int num_run_threads(const Arguments& arguments);

}  // namespace plimsoll
