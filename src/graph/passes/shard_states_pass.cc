// Divides the states of the optimizer among the ranks (ZeRO stage 1: Rajbhandari et al., "ZeRO: Memory Optimizations Toward
// Training Trillion Parameter Models", arXiv 1910.02054). Each rank updates its slice (RankSlices) of every parameter, and the
// ranks then exchange the slices of the new parameters:
//
//   g.sum = all_reduce(g)               g.sum = reduce_scatter(g)
//   norm, finite, bad = norm(g.sum)     norms, _, bad = norm(g.sum) {ranks}; all_gather(norms, bad); norm, finite = norm(norms)
//   p', m' = adamw(.., p, g.sum, m)     p', m' = adamw(.., p, g.sum, m) {ranks}; all_gather(p')
//
// The states m have room for one slice; all ranks have the same graph. The norm is computed from the norms of the ranks, each
// rounded to fp32. Gradients of parameters that other ops read, or whose update cannot be divided, keep their all_reduce.
#include <algorithm>
#include <set>
#include <utility>

#include "graph/analysis/analysis.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "graph/ops/update.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

class ShardStates {
 public:
  ShardStates(Graph& graph, int64_t num_ranks) : graph_(graph), slices_{.ranks = num_ranks} {}

  void run() {
    const std::vector<Op> old_ops = graph_.ops();
    find_sharded_gradients(old_ops);
    for (const Op& op : old_ops) {
      if (op.def == &all_reduce_op()) {
        scatter_sums(op);
      } else if (op.def == &global_norm_op() && !op.inputs.empty() && is_sharded(op.inputs.front())) {
        divide_norm(op);
      } else if (is_divided(op)) {
        divide_update(op);
      } else {
        ops_.push_back(op);
      }
    }
    graph_.replace_ops(std::move(ops_));
  }

 private:
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

  // A gradient is sharded if only norms read its sum and an update that can be divided. All gradients of an update are sharded, or
  // none, and so are those of the norm: it reads slices of all sums, which is correct for whole sums too.
  void find_sharded_gradients(const std::vector<Op>& ops) {
    const auto readers = find_readers(graph_);
    for (const Op& op : ops) {
      const auto* update = dynamic_cast<const Update*>(op.def);
      if (update == nullptr || op.segment != Segment::kOptimizer || !update->can_be_sharded({graph_, op}))
        continue;
      const std::vector<ValueId> gradients = gradients_of(*update, {graph_, op});
      const bool are_sums = std::ranges::all_of(gradients, [&](ValueId gradient) {
        const OpId producer = graph_.value(gradient).producer;
        if (producer == kNoOp || graph_.op(producer).def != &all_reduce_op()) return false;
        return std::ranges::all_of(readers[index_of(gradient)], [&](uint32_t reader) {
          return ops[reader].def == &global_norm_op() || ops[reader].outputs == op.outputs;
        });
      });
      if (are_sums) sharded_.insert(gradients.begin(), gradients.end());
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
    ops_.push_back(std::move(part));
  }

  void scatter_sums(const Op& op) {
    std::vector<size_t> scattered, whole;
    for (size_t i = 0; i < op.outputs.size(); ++i)
      (is_sharded(op.outputs[i]) ? scattered : whole).push_back(i);
    add_part(op, scattered, reduce_scatter_op());
    add_part(op, whole, all_reduce_op());
  }

  // Appends an op that gathers the slices of these values, and returns the new versions.
  std::vector<ValueId> gather(const Op& like, const std::vector<ValueId>& values, int64_t block) {
    Op op = like;
    op.def = &all_gather_op();
    op.inputs = values;
    op.outputs.clear();
    op.attributes = {};
    set_rank_slices(op.attributes, {.ranks = slices_.ranks, .block = block});
    for (const ValueId id : values) {
      const Value value = graph_.value(id);
      const ValueId whole =
          graph_.add_value(graph_.unique_name(value.name + ".gathered"), value.type, value.storage);
      graph_.value(whole).version_of = id;
      graph_.value(whole).module = value.module;
      op.outputs.push_back(whole);
    }
    ops_.push_back(op);
    return op.outputs;
  }

  void divide_norm(const Op& norm) {
    const std::span<const ValueId> gradients = gradients_of_norm(norm);
    const bool names_bad = norm.outputs.size() > GlobalNormOp::kFirstBad;
    const DType dtype = graph_.value(norm.outputs[GlobalNormOp::kNorm]).type.dtype;
    const auto add = [&](ValueId like, const ValueType& type) {
      const Value value = graph_.value(like);
      const ValueId id =
          graph_.add_value(graph_.unique_name(value.name + ".of_ranks"), type, Storage::kTransient);
      graph_.value(id).module = value.module;
      return id;
    };
    Op slices = norm;
    slices.inputs.assign(gradients.begin(), gradients.end());
    slices.attributes = {};
    if (names_bad) slices.attributes.set("names_bad", int64_t{1});
    set_rank_slices(slices.attributes, slices_);
    slices.outputs[GlobalNormOp::kNorm] =
        add(norm.outputs[GlobalNormOp::kNorm], {dtype, Shape{slices_.ranks}});
    slices.outputs[GlobalNormOp::kFinite] = add(norm.outputs[GlobalNormOp::kFinite], {dtype, Shape{1}});
    std::vector<ValueId> gathered{slices.outputs[GlobalNormOp::kNorm]};
    if (names_bad) {
      const ValueId first_bad = norm.outputs[GlobalNormOp::kFirstBad];
      graph_.value(first_bad).type.shape = Shape{slices_.ranks};
      gathered.push_back(first_bad);
    }
    ops_.push_back(std::move(slices));
    gathered = gather(norm, gathered, 1);
    Op joined = norm;
    joined.inputs = {gathered.front()};
    joined.inputs.insert(joined.inputs.end(), norm.inputs.begin() + std::ssize(gradients), norm.inputs.end());
    joined.attributes = {};
    if (norm.attributes.has("with_loss"))
      joined.attributes.set("with_loss", norm.attributes.integer("with_loss"));
    joined.outputs.resize(GlobalNormOp::kFirstBad);
    ops_.push_back(std::move(joined));
  }

  void divide_update(const Op& op) {
    const auto& update = dynamic_cast<const Update&>(*op.def);
    const OpView view{graph_, op};
    const int stride = update.stride(view);
    const bool is_split = op.attributes.integer_or("split", 0) != 0;
    std::vector<ValueId> weights, lower_halves;
    for (int i = 0; i < static_cast<int>(op.outputs.size()); ++i) {
      const int input = update.writes_into(view, i);
      const int k = (input - UpdateOp::kParameter) % stride;
      const ValueId output = op.outputs[static_cast<size_t>(i)];
      if (update.is_state(view, k)) {
        const int64_t elements = view.in_shape(input - k).elements({});
        const Shape slice{update.numbers_in_state(view, k, slices_.size(elements))};
        graph_.value(op.inputs[static_cast<size_t>(input)]).type.shape = slice;
        graph_.value(output).type.shape = slice;
      } else {
        (is_split && k + 1 == stride ? lower_halves : weights).push_back(output);
      }
    }
    Op divided = op;
    set_rank_slices(divided.attributes, slices_);
    ops_.push_back(std::move(divided));
    gather(op, weights, RankSlices::kBlock);
    // The lower half of a number has two bytes, each of them an element.
    if (!lower_halves.empty()) gather(op, lower_halves, 2 * RankSlices::kBlock);
  }

  Graph& graph_;
  RankSlices slices_;
  std::set<ValueId> sharded_;  // the sums of gradients of which each rank needs its slice only
  std::vector<Op> ops_;
};

}  // namespace

Pass shard_states_pass(int64_t num_ranks) {
  return {.name = "shard_states",
          .numerics = Numerics::kChanging,
          .help = "divides the optimizer's states among the ranks; each updates its slice of every weight",
          .needed_for = "--zero_stage 1",
          .run = [=](Graph& graph) { ShardStates(graph, num_ranks).run(); }};
}

}  // namespace plimsoll
