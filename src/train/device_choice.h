// Which device a run is planned for, and what of the arguments that decides: kernels, precision, the limit of
// memory. Asks the machine which GPUs are there; allocates nothing on them.
#pragma once

#include "plan/build/plan.h"
#include "plimsoll/arguments.h"
#include "train/run_setup.h"

namespace plimsoll {

// Fills device, gpu, num_threads, isa, device_label, precision and memory limit of `request`. `auto` is the
// first visible GPU, else the CPU. Notes say which arguments have no effect on the device. Errors: kUsage for
// a name that is no device, for a card of the table where the run is no plan, and for a precision that the
// device does not have; kDevice for a GPU that is not there.
void choose_device(const Arguments& arguments, RunPurpose purpose, int num_threads, PlanRequest& request,
                   std::vector<std::string>& notes);

// Compares a plan for a GPU with what is free on it now, by the card's own gauge; nothing on a CPU. Errors:
// kWillNotFit, naming the processes that hold the rest.
void require_free_memory(const Plan& plan);

// For the error of a run that its GPU failed: a line of what the plan holds there beside what the card has
// free now, and who holds the rest. "" on a CPU.
std::string planned_beside_held(const Plan& plan);

// What the GPU holds now, by whomever; 0 on a CPU and where the gauge is missing.
int64_t gpu_used_bytes(const PlanRequest& request);

// The first line of a run: "device cpu: Some CPU, 2 threads, AVX-512", "device cuda:0: NVIDIA H200, ...".
std::string device_line(const PlanRequest& request);

}  // namespace plimsoll
