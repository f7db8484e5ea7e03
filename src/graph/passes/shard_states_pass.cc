// Divides values that all ranks would otherwise store completely (ZeRO: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training
// Trillion Parameter Models", arXiv 1910.02054). Stage 1 divides the states of the optimizer: each rank updates its slice (RankSlices) of
// every parameter, and the ranks then exchange the slices of the new parameters:
//
//   g.sum = all_reduce(g)               g.sum = reduce_scatter(g)
//   norm, finite, bad = norm(g.sum)     norms, _, bad = norm(g.sum) {ranks}; all_gather(norms, bad); norm, finite = norm(norms)
//   p', m' = adamw(.., p, g.sum, m)     p', m' = adamw(.., p, g.sum, m) {ranks}; all_gather(p')
//
// The states m are divided (Value::divided), although all ranks have the same graph: each rank stores only its slice. So are weights that
// only updates read: fp32 weights of which all other ops read 16-bit copies, and the lower halves of weights that are stored in two halves.
// The norm is computed from the norms of the ranks, each rounded to fp32. Gradients of parameters that other ops read, or whose update
// cannot be divided, keep their all_reduce.
//
// Stage 2 also divides the gradients: a rank keeps only its slice of each sum, and with accumulation adds it to its slices of earlier
// micro-batches, so that every micro-batch exchanges gradients:
//
//   g.sum = reduce_scatter(g); g.slice = accumulate(into, flag, g.sum) {ranks}
//
// Stage 3 also divides the weights: the update writes the slice of the rank and nothing is gathered after it. The pass gather_weights lets
// ops read them.
//
// If a tensor-parallel group divides a parameter (Value::split), the slices divide the part of it that this rank stores.
//
// With all_on_first, the slice of the first rank contains all elements, and the other slices are empty: reduce_scatter adds all gradients
// up on the first rank, this rank makes the complete update, and all_gather sends its weights to the others. This is how PyTorch's
// DataParallel works.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "graph/analysis/analysis.h"
#include "graph/ops/collective_op.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "graph/ops/update.h"
#include "graph/passes/divided_norm.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

class ShardStates {
 public:
  ShardStates(Graph& graph, const ShardOptions& options)
      : graph_(graph),
        options_(options),
        slices_{.ranks = options.num_ranks, .block = block_of(RankSlices::kBlock)} {}

  void run() {
    const std::vector<Op> old_ops = graph_.ops();
    find_sharded_gradients(old_ops);
    find_values_of_updates(old_ops);
    if (options_.least_divided_elements) divide_frozen_weights();
    for (const Op& old : old_ops) {
      if (old.segment == Segment::kOptimizer) keep_slices();
      if (is_data_sum(old)) {
        scatter_sums(old);
        continue;
      }
      const bool is_norm =
          old.def == &global_norm_op() && !old.inputs.empty() && is_sharded(old.inputs.front());
      const bool is_update = is_divided(old);
      Op op = old;
      for (ValueId& id : op.inputs) {
        if (const auto slice = slice_of_sum_.find(id); slice != slice_of_sum_.end()) id = slice->second;
      }
      if (is_norm) {
        append_divided_norm(graph_, op, slices_, MeshAxis::kData, ops_);
      } else if (is_update) {
        divide_update(op);
      } else {
        ops_.push_back(std::move(op));
      }
    }
    keep_slices();
    graph_.replace_ops(std::move(ops_));
  }

 private:
  // Returns RankSlices::block, the number of elements of which the size of each rank's slice is a multiple. It is kAllOnFirstRank if the
  // first rank stores all elements (all_on_first), and otherwise `of_equal_slices`.
  int64_t block_of(int64_t of_equal_slices) const {
    return options_.all_on_first ? kAllOnFirstRank : of_equal_slices;
  }

  // Returns true for an op that sums over the ranks that train on different batches, and false for a sum over a tensor-parallel group.
  static bool is_data_sum(const Op& op) {
    return op.def == &all_reduce_op() && mesh_axis_of(op.attributes) == MeshAxis::kData;
  }

  bool is_sharded(ValueId gradient) const { return sharded_.contains(gradient); }

  // Returns the gradients that an update reads.
  static std::vector<ValueId> gradients_of(const Update& update, const OpView& op) {
    std::vector<ValueId> gradients;
    const auto stride = static_cast<size_t>(update.stride(op));
    for (size_t i = UpdateOp::kGradient; i < op.op.inputs.size(); i += stride)
      gradients.push_back(op.op.inputs[i]);
    return gradients;
  }

  bool is_divided(const Op& op) const {
    const auto* update = dynamic_cast<const Update*>(op.def);
    return update != nullptr && is_sharded(op.inputs[UpdateOp::kGradient]);
  }

  // A gradient is sharded (each rank gets the sum of its own slice only) if only norms and one update that can be divided read the sum. An
  // update shards all of its gradients or none. The norm reads slices of all sums, also of those that every rank has completely.
  void find_sharded_gradients(const std::vector<Op>& ops) {
    const auto readers = find_readers(graph_);
    for (const Op& op : ops) {
      const auto* update = dynamic_cast<const Update*>(op.def);
      if (update == nullptr || op.segment != Segment::kOptimizer || !update->can_be_sharded({graph_, op}))
        continue;
      const std::vector<ValueId> gradients = gradients_of(*update, {graph_, op});
      const bool are_sums = std::ranges::all_of(gradients, [&](ValueId gradient) {
        const OpId producer = graph_.value(gradient).producer;
        if (producer == kNoOp || !is_data_sum(graph_.op(producer))) return false;
        return std::ranges::all_of(readers[index_of(gradient)], [&](uint32_t reader) {
          return ops[reader].def == &global_norm_op() || ops[reader].outputs == op.outputs;
        });
      });
      if (are_sums) sharded_.insert(gradients.begin(), gradients.end());
    }
  }

  // Finds the values that no op except updates reads.
  void find_values_of_updates(const std::vector<Op>& ops) {
    is_only_updated_.assign(graph_.values().size(), true);
    for (const Op& op : ops) {
      if (dynamic_cast<const Update*>(op.def) != nullptr) continue;
      for (const ValueId id : op.inputs) {
        if (id != kNoValue) is_only_updated_[index_of(id)] = false;
      }
    }
  }

  void add_part(const Op& op, const std::vector<size_t>& operands, const OpSchema& def) {
    if (operands.empty()) return;
    Op part = op;
    part.def = &def;
    part.inputs.clear();
    part.outputs.clear();
    for (const size_t i : operands) {
      part.inputs.push_back(op.inputs[i]);
      part.outputs.push_back(op.outputs[i]);
    }
    if (&def == &reduce_scatter_op()) set_rank_slices(part.attributes, slices_);
    ops_.push_back(std::move(part));
  }

  void scatter_sums(const Op& op) {
    std::vector<size_t> scattered, whole;
    for (size_t i = 0; i < op.outputs.size(); ++i)
      (is_sharded(op.outputs[i]) ? scattered : whole).push_back(i);
    // Ops that store slices of earlier sums wait for the exchange that produces these sums. They are appended only now, before the next
    // exchange, so that the ops in between run during the earlier exchange.
    keep_slices();
    add_part(op, scattered, reduce_scatter_op());
    add_part(op, whole, all_reduce_op());
    if (!options_.gradients) return;
    for (const size_t i : scattered) keep_later(op, i, slices_);
    if (!options_.accumulates) return;
    for (const size_t i : whole) keep_later(op, i, std::nullopt);
  }

  // Prepares the op that stores a sum over the ranks, or only this rank's slice of it if `slices` has a value. If gradients accumulate, the
  // op adds the sum to those of earlier micro-batches. keep_slices() appends the op later.
  void keep_later(const Op& sum, size_t operand, const std::optional<RankSlices>& slices) {
    const ValueId whole = sum.outputs[operand];
    for (const ValueId id : {sum.inputs[operand], whole}) graph_.value(id).is_parameter_gradient = false;
    const Value value = graph_.value(whole);
    const auto add = [&](const std::string& name) {
      const ValueId id =
          graph_.add_value(name, value.type, options_.accumulates ? Storage::kGradient : Storage::kTransient);
      graph_.value(id).divided = slices;
      graph_.value(id).module = value.module;
      return id;
    };
    Op keep{.def = &accumulate_op(),
            .inputs = {kNoValue, kNoValue, whole},
            .outputs = {},
            .attributes = {},
            .segment = sum.segment,
            .module = value.module};
    if (slices) set_rank_slices(keep.attributes, *slices);
    if (options_.accumulates) {
      keep.inputs[AccumulateOp::kInto] = add("gradient/" + value.name);
      keep.inputs[AccumulateOp::kFlag] = graph_.input("accumulate");
    }
    const ValueId kept = add(graph_.unique_name(value.name + ".slice"));
    graph_.value(kept).version_of = keep.inputs[AccumulateOp::kInto];
    graph_.value(kept).is_parameter_gradient = true;
    keep.outputs = {kept};
    slice_of_sum_[whole] = kept;
    kept_later_.push_back(std::move(keep));
  }

  void keep_slices() {
    for (Op& keep : std::exchange(kept_later_, {})) ops_.push_back(std::move(keep));
  }

  bool divides_weight(const Value& value) const {
    if (!options_.least_divided_elements || value.storage != Storage::kWeight) return false;
    // The lower 16 bits of a split weight are stored as two one-byte elements per element of the weight.
    const int64_t numbers = value.type.shape.elements({}) / (value.type.dtype == DType::kU8 ? 2 : 1);
    return numbers >= *options_.least_divided_elements;
  }

  // Divides the weights that no op updates.
  void divide_frozen_weights() {
    std::vector<bool> is_updated(graph_.values().size(), false);
    for (const Value& value : graph_.values()) {
      if (value.version_of != kNoValue) is_updated[index_of(value.version_of)] = true;
    }
    for (size_t i = 0; i < is_updated.size(); ++i) {
      Value& value = graph_.values()[i];
      if (!is_updated[i] && value.version_of == kNoValue && divides_weight(value)) value.divided = slices_;
    }
  }

  // Appends an op that gathers the slices of these values.
  void gather(const Op& like, const std::vector<ValueId>& values, int64_t block) {
    append_gather(graph_, like, values, {.ranks = slices_.ranks, .block = block}, MeshAxis::kData, ops_);
  }

  void divide_update(const Op& op) {
    const auto& update = dynamic_cast<const Update&>(*op.def);
    const OpView view{graph_, op};
    const int stride = update.stride(view);
    const bool is_split = op.attributes.integer_or("split", 0) != 0;
    std::vector<ValueId> weights;  // the weights that every rank needs completely
    for (int i = 0; i < static_cast<int>(op.outputs.size()); ++i) {
      const int input = update.writes_into(view, i);
      const int k = (input - UpdateOp::kParameter) % stride;
      const ValueId value = op.inputs[static_cast<size_t>(input)];
      const ValueId output = op.outputs[static_cast<size_t>(i)];
      const bool is_lower_half = is_split && k + 1 == stride;
      const bool has_other_form = is_lower_half || (k == 0 && op.attributes.integer_or("copies", 0) != 0);
      const bool is_for_updates = has_other_form && is_only_updated_[index_of(value)];
      if (!update.is_state(view, k) && !is_for_updates && !divides_weight(graph_.value(value))) {
        weights.push_back(output);
        continue;
      }
      RankSlices slices = slices_;
      // The lower 16 bits of each number of a split weight are stored as two elements of one byte, so the blocks of this value have twice
      // as many elements.
      if (is_lower_half) slices.block = block_of(2 * RankSlices::kBlock);
      // An 8-bit state has one maximum per quantization block.
      if (update.is_state(view, k))
        slices.block = block_of(update.numbers_in_state(view, k, RankSlices::kBlock));
      graph_.value(value).divided = slices;
      graph_.value(output).divided = slices;
    }
    Op divided = op;
    set_rank_slices(divided.attributes, slices_);
    ops_.push_back(std::move(divided));
    if (!weights.empty()) gather(op, weights, block_of(RankSlices::kBlock));
  }

  Graph& graph_;
  ShardOptions options_;
  RankSlices slices_;
  std::vector<bool> is_only_updated_;  // for each value: true if no op except updates reads it
  std::set<ValueId> sharded_;          // sums of gradients of which each rank needs only its own slice
  // Maps each sum over the ranks that is kept to the persistent value that contains it, or contains this rank's slice of it.
  std::map<ValueId, ValueId> slice_of_sum_;
  // The ops prepared by keep_later(), which store sums or slices of the latest exchange and have not been appended to the graph yet.
  std::vector<Op> kept_later_;
  std::vector<Op> ops_;
};

}  // namespace

Pass shard_states_pass(const ShardOptions& options) {
  return {
      .name = "shard_states",
      .numerics = Numerics::kChanging,
      .help =
          "divides optimizer states, gradients and weights among the ranks; each rank updates its own slices",
      .needed_for = "--zero_stage above 0 or --data_parallel_mode dp",
      .run = [=](Graph& graph) { ShardStates(graph, options).run(); }};
}

}  // namespace plimsoll
