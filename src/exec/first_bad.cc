// Finds the first tensor that contains a number that is not finite. A run that stops because of such a number reports
// the tensor. Not part of a step.
#include <algorithm>
#include <cmath>
#include <vector>

#include "exec/executor.h"
#include "graph/analysis/liveness.h"
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

// Reads a tensor piece by piece from the device.
class FiniteCheck {
 public:
  explicit FiniteCheck(ExecutorBackend& backend) : backend_(backend), piece_(size_t{1} << 20) {}

  bool is_finite(Space space, int64_t offset, DType type, int64_t count) {
    if (!is_floating(type)) return true;
    const int64_t width = dtype_bytes(type);
    const int64_t bytes = count * width;
    for (int64_t begin = 0; begin < bytes; begin += std::ssize(piece_)) {
      const std::span part =
          std::span(piece_).first(static_cast<size_t>(std::min<int64_t>(std::ssize(piece_), bytes - begin)));
      backend_.read(space, offset + begin, part);
      const ConstView view{part.data(), type};
      for (int64_t i = 0; i < std::ssize(part) / width; ++i) {
        if (!std::isfinite(view.load(i))) return false;
      }
    }
    return true;
  }

 private:
  ExecutorBackend& backend_;
  std::vector<std::byte> piece_;
};

// Returns true if only the outermost dimension depends on the batch. A batch that is smaller than
// the compiled sizes (its bucket) then fills a contiguous part of the value, at its beginning.
bool is_filled_from_the_front(const Shape& shape) {
  for (int i = 1; i < shape.rank(); ++i) {
    if (!shape[i].is_constant()) return false;
  }
  return true;
}

}  // namespace

std::string Executor::first_bad_gradient() {
  return bad_gradient(tensor("first_bad"));
}

std::string Executor::bad_gradient(ConstView first_bad) const {
  // If the ranks divide the optimizer's states, each rank has its own number in `first_bad`: the first gradient not finite in its slices.
  int64_t operand = -1;
  for (int64_t i = 0; i < plan_.type_of("first_bad").shape.elements({}); ++i) {
    const int64_t found = read_integer(first_bad, i);
    if (found >= 0 && (operand < 0 || found < operand)) operand = found;
  }
  if (operand < 0) return {};
  const Graph& graph = program_of(kTrainProgram).plan->graph;
  for (const Op& op : graph.ops()) {
    // The norm op of the optimizer segment is the only op that reads all gradients. If weights
    // are updated in the backward pass, each module also has a norm op in that pass.
    if (op.def == &global_norm_op() && op.segment == Segment::kOptimizer)
      return graph.value(gradients_of_norm(op)[static_cast<size_t>(operand)]).name;
  }
  return {};
}

std::string Executor::first_bad_value() {
  Program& target = program_of(kTrainProgram);
  PLIMSOLL_CHECK(target.bound != nullptr,
                 "stage() must be called before first_bad_value(), but no batch is staged");
  run_deferred_updates();
  backend_->run(*target.bound, Segment::kForward, DeferredWork::kNothing);
  const Graph& graph = target.plan->graph;
  // Only values that the backward pass reads are still stored after the forward pass; other values have been overwritten.
  std::vector<bool> is_kept(graph.values().size(), false);
  for (const Op& op : graph.ops()) {
    if (op.segment != Segment::kBackward) continue;
    for (ValueId id : op.inputs) {
      if (id != kNoValue) is_kept[index_of(id)] = true;
    }
  }
  FiniteCheck check(*backend_);
  const auto is_bad = [&](ValueId id) {
    const Value& value = graph.value(id);
    return is_filled_from_the_front(value.type.shape) &&
           !check.is_finite(value.space, target.plan->offsets[index_of(id)], value.type.dtype,
                            value.elements(target.staged));
  };
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    if (op.segment != Segment::kForward || target.plan->ops[i].is_deferred) continue;
    for (ValueId id : op.inputs) {
      if (id != kNoValue && graph.value(id).storage == Storage::kWeight && is_bad(id))
        return fmt::format("the weight '{}'", graph.value(root_of(graph, id)).name);
    }
    for (ValueId id : op.outputs) {
      if (id == kNoValue || !is_kept[index_of(id)] || !is_bad(id)) continue;
      const std::string& module = graph.module_name(op.module);
      return fmt::format("'{}'{}{}", graph.value(id).name, module.empty() ? "" : " in ", module);
    }
  }
  return {};
}

}  // namespace plimsoll
