// The tensors that a checkpoint stores. Free functions.
#pragma once

#include <vector>

#include "exec/executor.h"
#include "io/ckpt/checkpoint.h"

namespace plimsoll {

// Returns the weights by their names in a checkpoint: all of them, or only the adapter's in a run with an adapter. A
// weight that is fused here is several tensors, each with some of its rows. Valid while the executor lives.
std::vector<TensorSource> weight_tensors(Executor& executor);
// Returns the optimizer's states by their names in the plan. Valid while the executor lives.
std::vector<TensorSource> state_tensors(Executor& executor);

}  // namespace plimsoll
