#include "graph/analysis/analysis.h"

#include <algorithm>
#include <span>

#include "graph/analysis/liveness.h"
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

// Returns the inputs whose content an op reads. A copy between memory spaces has further inputs,
// which it only overwrites or waits for.
std::span<const ValueId> read_by(const Op& op) {
  if (op.def != &copy_op()) return op.inputs;
  return copied_values(op);
}

bool is_copy_to_device(const Graph& graph, const Op& op) {
  return op.def == &copy_op() && graph.value(op.outputs[CopyOp::kTo]).space == Space::kDevice;
}

bool is_copy_from_device(const Graph& graph, const Op& op) {
  return op.def == &copy_op() && !is_copy_to_device(graph, op);
}

// Returns true for an op of the forward pass that exchanges the slices of weights which every rank stores completely. Each rank has updated
// its own slice in the previous run.
bool gathers_updated_weights(const Graph& graph, const Op& op) {
  return op.def == &all_gather_op() && op.segment == Segment::kForward &&
         std::ranges::all_of(op.inputs, [&](ValueId id) {
           return graph.value(id).storage == Storage::kWeight && !graph.value(id).divided;
         });
}

}  // namespace

std::vector<bool> find_deferred_ops(const Graph& graph) {
  std::vector<bool> found(graph.ops().size(), false);
  const auto is_found = [&](ValueId id) {
    const OpId producer = graph.value(id).producer;
    return producer != kNoOp && found[index_of(producer)];
  };
  const auto is_deferred = [&](ValueId id) {
    return id != kNoValue && graph.value(id).storage == Storage::kDeferred;
  };
  for (size_t i = 0; i < found.size(); ++i) {
    const Op& op = graph.ops()[i];
    found[i] = std::ranges::any_of(read_by(op), is_deferred) || gathers_updated_weights(graph, op) ||
               (is_copy_from_device(graph, op) && is_found(op.inputs[CopyOp::kFrom]));
  }
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i]) continue;
    for (const ValueId id : read_by(graph.ops()[i])) {
      const OpId producer = id == kNoValue ? kNoOp : graph.value(id).producer;
      if (producer != kNoOp && is_copy_to_device(graph, graph.op(producer))) found[index_of(producer)] = true;
    }
  }
  return found;
}

std::optional<Segment> find_deferring_segment(const Graph& graph, const std::vector<bool>& is_deferred) {
  std::vector<bool> is_left(graph.values().size(), false);
  for (size_t i = 0; i < is_deferred.size(); ++i) {
    if (!is_deferred[i]) continue;
    for (const ValueId id : read_by(graph.ops()[i])) {
      if (id == kNoValue || graph.value(id).producer != kNoOp) continue;
      const Storage storage = graph.value(id).storage;
      is_left[index_of(id)] = storage == Storage::kDeferred || storage == Storage::kOutput ||
                              gathers_updated_weights(graph, graph.ops()[i]);
    }
  }
  std::optional<Segment> last;
  for (size_t i = 0; i < is_deferred.size(); ++i) {
    const Op& op = graph.ops()[i];
    const auto leaves = [&](ValueId id) { return is_left[index_of(root_of(graph, id))]; };
    if (!is_deferred[i] && std::ranges::any_of(op.outputs, leaves)) last = op.segment;
  }
  return last;
}

}  // namespace plimsoll
