// Sums the gradients of weights that the ranks of a tensor-parallel group computed from their own rows of the activations: gains and biases
// of norms, and biases that are added to the summed results of matrix products (sequence_parallel_pass.cc). One op sums all of them before
// the update: after the last micro-batch of a step, or at the end of each backward pass if gradients are not accumulated or if each rank
// accumulates only its slices (shard_states_pass.cc). Every rank then makes the same update.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "graph/passes/pass.h"
#include "graph/passes/row_parts.h"

namespace plimsoll {
namespace {

class RowGradients {
 public:
  RowGradients(Graph& graph, int64_t ranks)
      : graph_(graph), ranks_(ranks), sum_of_(graph.values().size(), kNoValue) {}

  void run() {
    std::vector<Op> old_ops = graph_.ops();
    bool is_summed = false;
    for (Op& op : old_ops) {
      const bool updates = op.segment == Segment::kOptimizer && !schema_of(op).is_communication();
      if (updates && !std::exchange(is_summed, true)) sum_parts(old_ops, op);
      for (ValueId& id : op.inputs) {
        if (updates && id != kNoValue && index_of(id) < sum_of_.size() && sum_of_[index_of(id)] != kNoValue)
          id = sum_of_[index_of(id)];
      }
      ops_.push_back(std::move(op));
    }
    graph_.replace_ops(std::move(ops_));
  }

 private:
  // Appends an op that sums the gradients which each rank computed from its own rows. It comes before the first op of the update. Gradients
  // of one type are summed by one op.
  void sum_parts(const std::vector<Op>& ops, const Op& like) {
    std::map<std::pair<DType, Segment>, ValueIds> parts;
    for (const Op& op : ops) {
      if (op.segment != Segment::kOptimizer || schema_of(op).is_communication()) continue;
      for (const ValueId id : op.inputs) {
        if (id == kNoValue || !graph_.value(id).is_parameter_gradient || sum_of_[index_of(id)] != kNoValue)
          continue;
        if (!is_part_of_rows(graph_, id)) continue;
        const Value value = graph_.value(id);
        const ValueId sum =
            graph_.add_value(graph_.unique_name(value.name + ".of_rows"), value.type, value.storage);
        // From here on, the sum counts as the gradient of the weight: a later pass sums it over the data-parallel ranks.
        graph_.value(id).is_parameter_gradient = false;
        graph_.value(sum).version_of = id;
        graph_.value(sum).module = value.module;
        graph_.value(sum).is_parameter_gradient = true;
        sum_of_[index_of(id)] = sum;
        // A gradient that is accumulated is complete only after the backward pass of the last micro-batch.
        const bool is_accumulated = value.storage == Storage::kGradient;
        parts[{value.type.dtype, is_accumulated ? like.segment : Segment::kBackward}].push_back(id);
      }
    }
    for (const auto& [kind, gradients] : parts) {
      Attributes attributes{{"ranks", ranks_}};
      set_mesh_axis(attributes, MeshAxis::kTensor);
      ValueIds sums;
      for (const ValueId id : gradients) sums.push_back(sum_of_[index_of(id)]);
      ops_.push_back({.def = &all_reduce_op(),
                      .inputs = gradients,
                      .outputs = std::move(sums),
                      .attributes = std::move(attributes),
                      .segment = kind.second,
                      .module = graph_.value(gradients.back()).module});
    }
  }

  Graph& graph_;
  int64_t ranks_;
  std::vector<ValueId> sum_of_;  // per gradient, its sum over the ranks
  std::vector<Op> ops_;
};

}  // namespace

Pass row_gradients_pass(int64_t ranks) {
  return {.name = "row_gradients",
          .numerics = Numerics::kChanging,
          .help = "sums the gradients of norms and biases over the ranks that divide rows",
          .needed_for = "--sequence_parallel",
          .run = [ranks](Graph& graph) {
            if (ranks > 1) RowGradients(graph, ranks).run();
          }};
}

}  // namespace plimsoll
