// Functions that the files which implement Session have in common. Only these files include it; thread-safe.
#pragma once

#include "device/cuda/cuda_device.h"
#include "exec/executor.h"
#include "io/data/batch.h"
#include "plan/compile/plan.h"
#include "run/device_choice.h"

namespace plimsoll {

// Returns the tensors that batches of a program have, and the size of the largest one.
inline BatchLayout layout_of(const ProgramPlan& program) {
  return {.tensors = batch_tensors(program.graph), .capacity = program.bucket};
}

// Runs `work`. If the GPU fails, adds the memory of the plan and of the card to the error.
template <typename Work>
auto on_device(const Plan& plan, const Work& work) {
  try {
    return work();
  } catch (const GpuError& error) {
    throw Error(error.code(), error.what() + describe_gpu_memory(plan));
  }
}

}  // namespace plimsoll
