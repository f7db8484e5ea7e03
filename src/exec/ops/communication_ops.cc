#include "exec/ops/family_ops.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"

namespace plimsoll {

AllReduceArgs all_reduce_args(const BindContext& context) {
  return {.communicator = context.connections().of(mesh_axis_of(context.attributes())),
          .gpus = context.connections().gpus,
          .peers = context.connections().peers,
          .scratch = context.scratch()};
}

std::vector<ReducedTensor> reduced_tensors(const BindContext& context) {
  std::vector<ReducedTensor> tensors;
  for (int i = 0; i < context.view().num_outputs(); ++i)
    tensors.push_back({.data = context.output(i), .count = context.output_elements(i)});
  return tensors;
}

RankSlicesArgs rank_slices_args(const BindContext& context) {
  return {.communicator = &context.communicator(),
          .gpus = context.connections().gpus,
          .peers = context.connections().peers,
          .scratch = context.scratch()};
}

std::vector<DividedTensor> divided_tensors(const BindContext& context) {
  const std::optional<RankSlices> slices = rank_slices_of(context.attributes());
  std::vector<DividedTensor> tensors;
  for (int i = 0; i < context.view().num_outputs(); ++i) {
    const int64_t count = context.output_elements(i);
    tensors.push_back({.data = context.output(i), .count = count, .slice = slices->size(count)});
    if (context.view().input(i).divided) tensors.back().own = context.input(i);
  }
  return tensors;
}

}  // namespace plimsoll
