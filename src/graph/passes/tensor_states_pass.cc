// Runs after gradients and updates have been added to a graph that the pass tensor_parallel has divided. It ensures two properties: the
// gradient, the states and the copies of a weight that a tensor-parallel group divides are divided in the same way (Value::split), and the
// norm of all gradients is the norm of the whole model. A gradient that every rank of the group stores completely must count once in the
// norm, so each rank reads only a slice of it.
//
// If data-parallel ranks divide the states (shard_states_pass.cc), each of them computes the norm of its slices. This pass then combines
// the norms over the data-parallel ranks first, and the results over the tensor-parallel ranks afterwards:
//
//   norms = norm(g..) {ranks}; all_gather(norms); norm = norm(norms)
//     -> norms = norm(g..) {ranks, tensor_ranks}; all_gather(norms); own = norm(norms);
//        parts = norm(own) {tensor}; all_gather(parts) {tensor}; norm = norm(parts)
#include <utility>

#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "graph/ops/update.h"
#include "graph/passes/divided_norm.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

// Marks a value, and all older versions of it, as divided.
void divide_versions(Graph& graph, ValueId id, const TensorSplit& split) {
  for (; id != kNoValue; id = graph.value(id).version_of) graph.value(id).split = split;
}

// Divides the gradient, the states and the copy of a divided parameter, which have its shape. The lower 16 bits of a split parameter have
// another shape, and were divided when they were declared.
void divide_states(Graph& graph, const Op& op) {
  const auto* update = dynamic_cast<const Update*>(op.def);
  if (update == nullptr) return;
  const int stride = update->stride({graph, op});
  for (size_t i = UpdateOp::kParameter; i < op.inputs.size(); i += static_cast<size_t>(stride)) {
    const Value parameter = graph.value(op.inputs[i]);
    if (!parameter.split) continue;
    for (size_t k = i + 1; k < i + static_cast<size_t>(stride); ++k) {
      const Value& value = graph.value(op.inputs[k]);
      if (value.split) continue;
      PLIMSOLL_CHECK(value.type.shape == parameter.type.shape,
                     "'{}', an operand of the update of '{}', must have the same shape as that weight, "
                     "because the ranks divide both in the same way",
                     value.name, parameter.name);
      divide_versions(graph, op.inputs[k], *parameter.split);
    }
  }
}

void divide(Graph& graph, int64_t ranks) {
  const std::vector<Op> old_ops = graph.ops();
  for (const Op& op : old_ops) divide_states(graph, op);
  std::vector<Op> ops;
  // true if the last norm op computed the norms of slices, so that the next norm op combines them
  bool is_of_slices = false;
  for (const Op& op : old_ops) {
    if (op.def != &global_norm_op()) {
      ops.push_back(op);
    } else if (rank_slices_of(op.attributes)) {
      ops.push_back(op);
      ops.back().attributes.set(kTensorRanks, ranks);
      is_of_slices = true;
    } else if (std::exchange(is_of_slices, false)) {
      append_norm_of_ranks(graph, op, ranks, MeshAxis::kTensor, ops);
    } else {
      append_divided_norm(graph, op, {.ranks = ranks}, MeshAxis::kTensor, ops);
    }
  }
  graph.replace_ops(std::move(ops));
}

}  // namespace

Pass tensor_states_pass(int64_t ranks) {
  return {
      .name = "tensor_states",
      .numerics = Numerics::kChanging,
      .help =
          "divides optimizer states in the same way as the weights, and computes the norm of all gradients",
      .needed_for = "--tp_size above 1",
      .run = [ranks](Graph& graph) {
        if (ranks > 1) divide(graph, ranks);
      }};
}

}  // namespace plimsoll
