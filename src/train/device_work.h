// Internal functions that only the source files of the class Session use. Thread-safe.
#pragma once

#include "device/cuda/cuda_device.h"
#include "exec/executor.h"
#include "io/data/batch.h"
#include "plan/compile/plan.h"
#include "run/device_choice.h"

namespace plimsoll {

// Returns which tensors the batches of a program have, and the size of the largest batch.
inline BatchLayout layout_of(const ProgramPlan& program) {
  return {.tensors = batch_tensors(program.graph), .capacity = program.bucket};
}

// Calls `work`. If the GPU fails, adds to the error message how much memory the plan and the card have.
template <typename Work>
auto on_device(const Plan& plan, const Work& work) {
  try {
    return work();
  } catch (const GpuError& error) {
    throw Error(error.code(), error.what() + describe_gpu_memory(plan));
  }
}

}  // namespace plimsoll
