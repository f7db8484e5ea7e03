#include "exec/ops/family_ops.h"
#include "graph/ops/ops.h"

namespace plimsoll {

AllReduceArgs all_reduce_args(const BindContext& context) {
  return {.communicator = context.connections().ranks, .gpus = context.connections().gpus, .peers = context.connections().peers, .scratch = context.scratch()};
}

std::vector<ReducedTensor> reduced_tensors(const BindContext& context) {
  std::vector<ReducedTensor> tensors;
  for (int i = 0; i < context.view().num_outputs(); ++i)
    tensors.push_back({.data = context.output(i), .count = context.output_elements(i)});
  return tensors;
}

}  // namespace plimsoll
