// Lets ranks that divide optimizer states (ZeRO stages 1 and 2) exchange new weights during the forward pass of the next step, instead of
// after the updates, when nothing else is left to compute:
//
//   forward    y = matmul(x, w)             forward    w.gathered = all_gather(w); y = matmul(x, w.gathered)
//   optimizer  w' = adamw(.., w, g)    ->   optimizer  w' = adamw(.., w.gathered, g)
//              all_gather(w')
//
// The exchanges are deferred ops (find_deferred_ops() in analysis.h): a forward pass that does not follow an update skips them, and they
// run at once if an evaluation or a checkpoint follows the update. All exchanges begin with the forward pass, in the order in which the
// blocks of the model (analysis.h) read the weights; a block waits for its own weights only. Weights that the forward pass reads before its
// first block, such as embedding tables, and vectors are still exchanged after their update. These updates run before all others, so that
// the exchanges end while the other weights are updated.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "graph/analysis/analysis.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "graph/ops/update.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

// The weights that one op of the forward pass gathers: those that a block of the model is the first to read.
struct BlockGather {
  std::string_view block;
  ValueIds weights;
  ValueIds gathered;
};

class GatherAtUse {
 public:
  explicit GatherAtUse(Graph& graph) : graph_(graph), modules_(graph.modules()), ops_(graph.ops()) {}

  void run() {
    find_first_readers();
    for (const Op& op : ops_) {
      if (is_gather_of_weights(op)) move_weights_of(op);
    }
    if (whole_.empty()) return;
    std::vector<Op> ops;
    for (const BlockGather& gather : gathers_in_order()) ops.push_back(op_of(gather));
    for (Op& op : with_early_updates_first()) {
      for (ValueId& id : op.inputs) {
        if (const auto found = whole_.find(id); found != whole_.end()) id = found->second;
      }
      ops.push_back(std::move(op));
    }
    graph_.replace_ops(std::move(ops));
  }

 private:
  static bool is_update(const Op& op) { return dynamic_cast<const Update*>(op.def) != nullptr; }

  bool is_gather_of_weights(const Op& op) const {
    return op.segment == Segment::kOptimizer && op.def == &all_gather_op() &&
           mesh_axis_of(op.attributes) == MeshAxis::kData && std::ranges::all_of(op.inputs, [&](ValueId id) {
             const Value& value = graph_.value(id);
             return value.storage == Storage::kWeight && !value.divided && value.producer != kNoOp &&
                    is_update(graph_.op(value.producer));
           });
  }

  std::string_view block_of_op(const Op& op) const { return block_or_module(modules_[index_of(op.module)]); }

  // Finds the first op of the forward pass that belongs to a block of the model and, for each value, the first op of the forward pass that
  // reads it.
  void find_first_readers() {
    first_reader_.assign(graph_.values().size(), std::nullopt);
    for (uint32_t i = 0; i < ops_.size() && ops_[i].segment == Segment::kForward; ++i) {
      if (!first_of_blocks_ && !block_of(modules_[index_of(ops_[i].module)]).empty()) first_of_blocks_ = i;
      for (const ValueId id : ops_[i].inputs) {
        if (id != kNoValue && !first_reader_[index_of(id)]) first_reader_[index_of(id)] = i;
      }
    }
  }

  // Returns true if the weight is gathered in the forward pass: a matrix that no op before the first block reads.
  bool is_moved(ValueId weight) const {
    const Value& value = graph_.value(weight);
    const std::optional<uint32_t> reader = first_reader_[index_of(weight)];
    return value.producer == kNoOp && value.type.shape.rank() > 1 && reader && first_of_blocks_ &&
           *reader >= *first_of_blocks_;
  }

  // Processes the weights of `op`, which gathers weights in the optimizer segment. Adds each weight that the forward pass will gather
  // instead to `whole_`, with its gathered value, and each of the other weights to `early_`.
  void move_weights_of(const Op& op) {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const ValueId updated = op.inputs[i], gathered = op.outputs[i];
      const ValueId weight = graph_.value(updated).version_of;
      if (!is_moved(weight)) {
        early_.push_back(updated);
        continue;
      }
      attributes_ = op.attributes;
      whole_[weight] = gathered;
      graph_.rename(gathered, graph_.unique_name(graph_.value(weight).name + ".gathered"));
      graph_.value(gathered).version_of = weight;
      graph_.value(updated).version_of = gathered;
    }
  }

  std::vector<BlockGather> gathers_in_order() const {
    std::map<uint32_t, ValueIds> by_reader;
    for (const auto& [weight, gathered] : whole_)
      by_reader[*first_reader_[index_of(weight)]].push_back(weight);
    std::vector<BlockGather> gathers;
    for (const auto& [reader, weights] : by_reader) {
      const std::string_view block = block_of_op(ops_[reader]);
      if (gathers.empty() || gathers.back().block != block)
        gathers.push_back({.block = block, .weights = {}, .gathered = {}});
      for (const ValueId weight : weights) {
        gathers.back().weights.push_back(weight);
        gathers.back().gathered.push_back(whole_.at(weight));
      }
    }
    return gathers;
  }

  Op op_of(const BlockGather& gather) const {
    return {.def = &all_gather_op(),
            .inputs = gather.weights,
            .outputs = gather.gathered,
            .attributes = attributes_,
            .segment = Segment::kForward,
            .module = ops_[*first_reader_[index_of(gather.weights.front())]].module};
  }

  // Returns true for an update whose weights are gathered after it, and for the op that gathers them.
  bool is_early(const Op& op) const {
    const auto is_gathered = [&](ValueId id) { return std::ranges::find(early_, id) != early_.end(); };
    if (is_gather_of_weights(op)) return std::ranges::any_of(op.inputs, is_gathered);
    return is_update(op) && std::ranges::any_of(op.outputs, is_gathered);
  }

  // Returns the ops, in which the optimizer segment no longer gathers the weights that the forward pass gathers. The ops for which
  // is_early() is true come before all other updates, unless one of them reads a result of an op between the updates.
  std::vector<Op> with_early_updates_first() const {
    const auto begin = std::ranges::find_if(ops_, is_update);
    const auto is_ready = [&](ValueId id) {
      const OpId producer = id == kNoValue ? kNoOp : graph_.value(id).producer;
      return producer == kNoOp || index_of(producer) < static_cast<size_t>(begin - ops_.begin()) ||
             is_early(graph_.op(producer));
    };
    const bool may_move = std::all_of(begin, ops_.end(), [&](const Op& op) {
      return !is_early(op) || std::ranges::all_of(op.inputs, is_ready);
    });
    std::vector<Op> ops(ops_.begin(), begin);
    for (const bool early : {true, false}) {
      for (auto op = begin; op != ops_.end(); ++op) {
        if ((may_move && is_early(*op)) != early) continue;
        ops.push_back(is_gather_of_weights(*op) ? rest_of(*op) : *op);
        if (ops.back().inputs.empty()) ops.pop_back();
      }
    }
    return ops;
  }

  Op rest_of(const Op& gather) const {
    Op rest = gather;
    rest.inputs.clear();
    rest.outputs.clear();
    for (size_t i = 0; i < gather.inputs.size(); ++i) {
      if (std::ranges::find(early_, gather.inputs[i]) == early_.end()) continue;
      rest.inputs.push_back(gather.inputs[i]);
      rest.outputs.push_back(gather.outputs[i]);
    }
    return rest;
  }

  Graph& graph_;
  const std::vector<std::string> modules_;
  const std::vector<Op> ops_;
  std::vector<std::optional<uint32_t>> first_reader_;
  std::optional<uint32_t> first_of_blocks_;
  std::map<ValueId, ValueId>
      whole_;                   // for each moved weight: the value that contains it after it was gathered
  std::vector<ValueId> early_;  // the updated weights that are gathered after their update
  Attributes attributes_;       // the attributes, all equal, of the ops that gathered the moved weights
};

}  // namespace

Pass gather_at_use_pass() {
  return {.name = "gather_at_use",
          .numerics = Numerics::kPreserving,
          .help =
              "exchanges the new weights of layers during the forward pass of the next step instead of after "
              "the updates",
          .needed_for = {},
          .run = [](Graph& graph) { GatherAtUse(graph).run(); }};
}

}  // namespace plimsoll
