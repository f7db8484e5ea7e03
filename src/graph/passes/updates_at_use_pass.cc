// Runs the updates of a step in the forward pass of the next step, each before the first op that reads one of its
// weights:
//
//   forward   x = f(.., w)                        forward   w.1, m.1 = adamw(.., clip, w, g.left, m)
//   backward  g = ..                      ->                x = f(.., w.1)
//   optimizer clip = ..(g)                        backward  g into g.left = ..
//             w.1, m.1 = adamw(.., w, g, m)       optimizer clip.next into clip = ..(g)
//
// so that the copies for them (offload_states_pass.cc) run during the forward pass, and the bytes of gradients
// become free as activations need them. The gradients are kept from one run to the next. So are the two scalars
// that were computed with them, the clip coefficient and the flag for finite values: they are outputs, which no op
// overwrites before the next norm is computed. Learning rate and step number are inputs that the host writes after
// the forward pass. Every update reads the values that it would have read otherwise, so all bits are the same. If
// gradients accumulate over micro-batches, or if updates run in the backward pass, the graph does not change.
#include <algorithm>
#include <map>
#include <utility>

#include "graph/analysis/liveness.h"
#include "graph/ops/ops.h"
#include "graph/ops/update.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

class UpdatesAtUse {
 public:
  explicit UpdatesAtUse(Graph& graph) : graph_(graph) {}

  void run() {
    find_updates();
    if (updates_.empty() || !is_possible()) return;
    find_first_uses();
    for (Use& use : uses_) leave_operands(graph_.ops()[use.update]);
    graph_.replace_ops(reordered());
  }

 private:
  // An update and the position before which it is inserted.
  struct Use {
    uint32_t update = 0;
    uint32_t before = 0;
  };

  static bool is_update(const Op& op) { return dynamic_cast<const Update*>(op.def) != nullptr; }
  const Op& op_at(uint32_t i) const { return graph_.ops()[i]; }

  void find_updates() {
    const auto n = static_cast<uint32_t>(graph_.ops().size());
    for (uint32_t i = 0; i < n; ++i) {
      if (is_update(op_at(i))) updates_.push_back(i);
    }
    end_of_forward_ = 0;
    while (end_of_forward_ < n && op_at(end_of_forward_).segment == Segment::kForward) ++end_of_forward_;
    is_taken_over_.assign(graph_.values().size(), false);
    for (const Value& value : graph_.values()) {
      if (value.version_of != kNoValue) is_taken_over_[index_of(value.version_of)] = true;
    }
  }

  // Returns the operands that an update reads but does not write: its scalars (such as the learning rate), and the gradients.
  std::vector<ValueId> read_only(const Op& update) const {
    std::vector<ValueId> list;
    for (size_t i = 0; i < update.inputs.size(); ++i) {
      const ValueId id = update.inputs[i];
      const auto writes = [&](ValueId output) { return graph_.value(output).version_of == id; };
      if (id != kNoValue && std::ranges::none_of(update.outputs, writes)) list.push_back(id);
    }
    return list;
  }

  // Returns the segment (forward, backward or optimizer) of the op that first writes the buffer of this value.
  Segment born(ValueId id) const { return graph_.op(graph_.value(root_of(graph_, id)).producer).segment; }

  bool can_be_left(ValueId id) const {
    const Value& value = graph_.value(id);
    if (value.storage == Storage::kInput) return true;
    const Value& root = graph_.value(root_of(graph_, id));
    if (root.producer == kNoOp || is_taken_over_[index_of(id)]) return false;
    if (value.is_parameter_gradient)
      return value.storage == Storage::kTransient && born(id) == Segment::kBackward;
    return born(id) == Segment::kOptimizer;
  }

  bool is_possible() const {
    return std::ranges::all_of(updates_, [&](uint32_t i) {
      const std::vector<ValueId> operands = read_only(op_at(i));
      return op_at(i).segment == Segment::kOptimizer &&
             std::ranges::all_of(operands, [&](ValueId id) { return can_be_left(id); });
    });
  }

  void find_first_uses() {
    std::vector<uint32_t> first(graph_.values().size(), end_of_forward_);
    for (uint32_t i = end_of_forward_; i-- > 0;) {
      for (const ValueId id : op_at(i).inputs) {
        if (id != kNoValue) first[index_of(root_of(graph_, id))] = i;
      }
    }
    for (const uint32_t i : updates_) {
      Use use{.update = i, .before = end_of_forward_};
      for (const ValueId id : op_at(i).outputs) {
        const ValueId root = root_of(graph_, id);
        use.before = std::min(use.before, first[index_of(root)]);
        newest_[root] = id;
      }
      uses_.push_back(use);
    }
    std::ranges::stable_sort(uses_, {}, &Use::before);
  }

  // Returns the persistent value that keeps the operand `id` of an update (a gradient or a scalar) until the update runs, in the next run
  // of the program.
  ValueId left(ValueId id) {
    if (const auto it = left_.find(id); it != left_.end()) return it->second;
    const bool is_gradient = graph_.value(id).is_parameter_gradient;
    std::string name = graph_.value(id).name;
    if (is_gradient) {
      name = graph_.unique_name(name + ".left");
    } else {
      // The host finds an output by its name, so the name must stay with the value that the host reads.
      graph_.rename(id, graph_.unique_name(name + ".next"));
      graph_.value(id).storage = Storage::kTransient;
    }
    const ValueId place =
        graph_.add_value(name, graph_.value(id).type, is_gradient ? Storage::kDeferred : Storage::kOutput);
    graph_.value(place).is_parameter_gradient = is_gradient;
    graph_.value(place).module = graph_.value(id).module;
    graph_.value(root_of(graph_, id)).version_of = place;
    return left_[id] = place;
  }

  void leave_operands(Op& update) {
    for (const ValueId id : read_only(update)) {
      if (graph_.value(id).storage != Storage::kInput) std::ranges::replace(update.inputs, id, left(id));
    }
    update.segment = Segment::kForward;
    update.module = graph_.value(root_of(graph_, update.outputs[UpdateOp::kNewParameter])).module;
  }

  std::vector<Op> reordered() {
    std::vector<Op> ops;
    auto use = uses_.begin();
    for (uint32_t i = 0; i < graph_.ops().size(); ++i) {
      for (; use != uses_.end() && use->before == i; ++use) ops.push_back(op_at(use->update));
      if (is_update(op_at(i))) continue;
      ops.push_back(op_at(i));
      for (ValueId& id : ops.back().inputs) {
        if (const auto it = newest_.find(id); it != newest_.end()) id = it->second;
      }
    }
    return ops;
  }

  Graph& graph_;
  std::vector<uint32_t> updates_;
  uint32_t end_of_forward_ = 0;
  std::vector<bool> is_taken_over_;
  std::vector<Use> uses_;
  std::map<ValueId, ValueId> newest_;  // the last version of each weight and state
  std::map<ValueId, ValueId> left_;
};

}  // namespace

Pass updates_at_use_pass() {
  return {
      .name = "updates_at_use",
      .numerics = Numerics::kPreserving,
      .help =
          "runs the updates of a step in the forward pass of the next step, each before its weights are read",
      .run = [](Graph& graph) { UpdatesAtUse(graph).run(); }};
}

}  // namespace plimsoll
