// Lets ops read weights that the ranks divide (ZeRO stage 3). The weights of a block (graph/analysis/analysis.h), or of a module
// outside all blocks, are gathered together, and their memory is free after the last op of the block:
//
//   y = matmul(x, w)    ->    w.gathered = all_gather(w); y = matmul(x, w.gathered)
//
// The ranks exchange the weights of a block while the previous block computes, so the weights of two blocks exist at a time. The backward
// pass gathers the weights again, except the weights of the last blocks of the forward pass, which still exist. With
// GatheredWeights::kKeptForBackward, the gathered weights are kept until the last op of the backward pass that reads them.
#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "graph/analysis/analysis.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "graph/ops/update.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

// Adjacent ops of one block of the model; the divided weights that they read; and, for each of these weights, the value that contains it
// gathered.
struct Readers {
  std::string_view block;
  // The position of the first op of the block that reads a weight which is divided among ranks.
  uint32_t first = 0;
  std::vector<ValueId> weights = {};
  std::map<ValueId, ValueId> gathered = {};
};

class GatherWeights {
 public:
  GatherWeights(Graph& graph, GatheredWeights gathered)
      : graph_(graph), gathered_(gathered), modules_(graph.modules()) {}

  void run() {
    const std::vector<Op> old_ops = graph_.ops();
    find_readers_of_weights(old_ops);
    std::vector<Op> ops;
    // The first block of which the loop below has not yet reached an op that reads a divided weight.
    auto begins = blocks_.begin();
    size_t next_gather = 0;
    for (uint32_t i = 0; i < old_ops.size(); ++i) {
      if (begins != blocks_.end() && begins->first == i) {
        ++begins;
        const auto end = std::min<size_t>(static_cast<size_t>(begins - blocks_.begin()) + 1, blocks_.size());
        for (; next_gather < end; ++next_gather) {
          take_from_before(next_gather);
          if (!blocks_[next_gather].weights.empty())
            ops.push_back(
                gather(blocks_[next_gather], old_ops[i].segment, old_ops[blocks_[next_gather].first]));
        }
      }
      ops.push_back(old_ops[i]);
      if (!reads_weights(old_ops[i])) continue;
      for (ValueId& id : ops.back().inputs) {
        if (is_divided_weight(id)) id = std::prev(begins)->gathered.at(id);
      }
    }
    graph_.replace_ops(std::move(ops));
  }

 private:
  bool is_divided_weight(ValueId id) const {
    return id != kNoValue && graph_.value(id).storage == Storage::kWeight && graph_.value(id).divided;
  }
  bool reads_weights(const Op& op) const {
    return dynamic_cast<const Update*>(op.def) == nullptr &&
           std::ranges::any_of(op.inputs, [&](ValueId id) { return is_divided_weight(id); });
  }
  std::string_view block_of_op(const Op& op) const { return block_or_module(modules_[index_of(op.module)]); }

  void find_readers_of_weights(const std::vector<Op>& ops) {
    for (uint32_t i = 0; i < ops.size(); ++i) {
      if (!reads_weights(ops[i])) continue;
      const std::string_view block = block_of_op(ops[i]);
      if (blocks_.empty() || blocks_.back().block != block) blocks_.push_back({.block = block, .first = i});
      std::vector<ValueId>& weights = blocks_.back().weights;
      for (const ValueId id : ops[i].inputs) {
        if (is_divided_weight(id) && std::ranges::find(weights, id) == weights.end()) weights.push_back(id);
      }
    }
  }

  // If a block runs again with only one other block in between, it reads the weights that were gathered for its first run. A second gather
  // would start when the other block begins, so keeping the weights takes no additional memory. If weights are kept, every block reads the
  // weights that were gathered for its first run.
  void take_from_before(size_t at) {
    for (size_t before = 0; before < at; ++before) {
      const bool exists = gathered_ == GatheredWeights::kKeptForBackward ||
                          (before + 2 == at && blocks_[before].block == blocks_[at].block);
      if (!exists) continue;
      for (const auto& [weight, whole] : blocks_[before].gathered) {
        if (std::erase(blocks_[at].weights, weight) > 0) blocks_[at].gathered[weight] = whole;
      }
    }
  }

  Op gather(Readers& readers, Segment segment, const Op& first_reader) {
    Op op{.def = &all_gather_op(),
          .inputs = readers.weights,
          .outputs = {},
          .attributes = {},
          .segment = segment,
          .module = first_reader.module};
    set_rank_slices(op.attributes, *graph_.value(readers.weights.front()).divided);
    for (const ValueId weight : readers.weights) {
      const Value value = graph_.value(weight);
      const ValueId whole =
          graph_.add_value(graph_.unique_name(value.name + ".gathered"), value.type, Storage::kTransient);
      graph_.value(whole).module = value.module;
      readers.gathered[weight] = whole;
      op.outputs.push_back(whole);
    }
    return op;
  }

  Graph& graph_;
  GatheredWeights gathered_;
  const std::vector<std::string> modules_;
  std::vector<Readers> blocks_;
};

void divide(Graph& graph, const std::map<std::string, RankSlices>& divided) {
  for (const auto& [name, slices] : divided) {
    if (const ValueId weight = graph.find(name); weight != kNoValue) graph.value(weight).divided = slices;
  }
}

}  // namespace

Pass gather_weights_pass(std::map<std::string, RankSlices> divided, GatheredWeights gathered) {
  return {.name = "gather_weights",
          .numerics = Numerics::kPreserving,
          .help =
              "gathers weights that are divided among the ranks before a block of layers reads them, and "
              "frees them after the block",
          .needed_for = "--zero_stage 3",
          .run = [divided = std::move(divided), gathered](Graph& graph) {
            divide(graph, divided);
            GatherWeights(graph, gathered).run();
          }};
}

}  // namespace plimsoll
