// Chooses the device that a run is planned for, and fills in what depends on it: kernels, precision, memory
// limit. Asks the machine which GPUs are there; allocates nothing on them.
#pragma once

#include "plan/compile/plan.h"
#include "plimsoll/arguments.h"
#include "run/run_setup.h"

namespace plimsoll {

// Fills device, gpu, num_threads, isa, device_label, precision and memory limit of `request`. `auto` is the
// first visible GPU, else the CPU. Notes say which arguments have no effect on the device. Errors: kUsage for
// a name that is no device, for a card of the table where the run is no plan, and for a precision that the
// device does not have; kDevice for a GPU that is not there.
void choose_device(const Arguments& arguments, RunPurpose purpose, int num_threads, PlanRequest& request,
                   std::vector<std::string>& notes);

// Checks that the memory which is free on the GPU now, as the driver counts it, holds the plan. Does nothing
// for a plan on a CPU. Errors: kWillNotFit, naming the processes that hold the rest.
void require_free_memory(const Plan& plan);

// A line for the error message of a run whose GPU failed: the memory that the plan needs there, what is free
// on the card now, and who holds the rest. "" on a CPU.
std::string planned_beside_held(const Plan& plan);

// The bytes that all processes together hold on the GPU now; 0 on a CPU, and where the driver does not tell.
int64_t gpu_used_bytes(const PlanRequest& request);

// The first line of a run: "device cpu: Some CPU, 2 threads, AVX-512", "device cuda:0: NVIDIA H200, ...".
std::string device_line(const PlanRequest& request);

}  // namespace plimsoll
