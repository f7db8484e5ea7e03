#include "graph/passes/pass.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "graph/analysis/analysis.h"
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

// Handles forward values that the backward pass reads but that are not kept: computes each of them once more right
// before the first backward op that reads it; later readers share the result. If the op of the value has a cheap
// recipe and all inputs of the recipe are kept, the recipe is used; otherwise the forward op itself runs again, if the policy of its block
// allows this.
class Recompute {
 public:
  Recompute(Graph& graph, const RecomputeChoice& choice)
      : graph_(graph), choice_(choice), from_forward_(graph.values().size(), false) {
    for (const Op& op : graph.ops()) {
      if (op.segment != Segment::kForward) continue;
      for (ValueId id : op.outputs) {
        from_forward_[index_of(id)] = graph.value(id).storage == Storage::kTransient;
      }
    }
    find_ops_that_run_again();
    find_kept();
  }

  void run() {
    graph_.set_segment(Segment::kBackward);
    std::vector<Op> ops;
    ops.reserve(2 * graph_.ops().size());
    for (Op op : graph_.ops()) {
      if (op.segment == Segment::kBackward) {
        for (ValueId& id : op.inputs) id = replacement(id, ops);
      }
      ops.push_back(std::move(op));
    }
    graph_.replace_ops(std::move(ops));
    graph_.drop_unused_values();
  }

 private:
  // Returns the policy for a block: kCheap instead of kFull if it is `free_block`, the last block of the forward pass
  // (last_block_before_head()).
  RecomputePolicy policy_of(std::string_view block, std::string_view free_block) const {
    if (choice_.policy == RecomputePolicy::kFull && block == free_block) return RecomputePolicy::kCheap;
    return choice_.policy;
  }

  bool writes_only_transients(const Op& op) const {
    for (ValueId id : op.outputs) {
      const Value& value = graph_.value(id);
      if (value.storage != Storage::kTransient || value.version_of != kNoValue) return false;
    }
    return true;
  }

  // The op at position `end` is the last one of a block. Marks those of its outputs that other blocks read and that have no recipe: they
  // are kept, so that the other outputs of the op can be recomputed from them.
  void stay_at_block_end(size_t end) {
    const Op& op = graph_.ops()[end];
    for (ValueId id : op.outputs) {
      if (recipe_of(id)) continue;
      const auto is_elsewhere = [&](uint32_t reader) {
        return block_of(graph_.module_name(graph_.ops()[reader].module)) !=
               block_of(graph_.module_name(op.module));
      };
      stays_[index_of(id)] = std::ranges::any_of(readers_[index_of(id)], is_elsewhere);
    }
  }

  void find_ops_that_run_again() {
    runs_again_.assign(graph_.ops().size(), false);
    pinned_.assign(graph_.values().size(), false);
    stays_.assign(graph_.values().size(), false);
    const std::vector<bool> ends = find_block_ends(graph_);
    const std::string_view free_block = last_block_before_head(graph_);
    for (size_t i = 0; i < graph_.ops().size(); ++i) {
      const Op& op = graph_.ops()[i];
      if (op.segment != Segment::kForward || !writes_only_transients(op)) continue;
      // own_rows reads a sum over ranks, which the backward pass cannot compute again and which is larger than the rows of this rank.
      // Therefore own_rows is not run again.
      if (op.def == &own_rows_op()) continue;
      const std::string_view block = block_of(graph_.module_name(op.module));
      if (block.empty()) continue;
      if (const auto it = choice_.kept_of_block.find(block); it != choice_.kept_of_block.end()) {
        for (ValueId id : op.outputs) {
          pinned_[index_of(id)] = it->second.contains(graph_.value(id).name);
        }
        runs_again_[i] = !ends[i];
        continue;
      }
      if (policy_of(block, free_block) != RecomputePolicy::kFull) continue;
      runs_again_[i] = !ends[i];
      if (ends[i]) stay_at_block_end(i);
    }
  }

  // Marks the values that exist in the backward pass in any case: those in pinned_, which are always kept, and values that a backward op
  // reads and that are not recomputed. A value is also kept if its recipe (a cheap way to compute it again) has an input that does not
  // exist in the backward pass. Other recipes may read a value that is kept for this reason: for example, the output of a norm is
  // recomputed from the normalized values, which are kept for the gradient of the norm.
  void find_kept() {
    kept_ = pinned_;
    std::vector<ValueId> with_recipe;
    for (const Op& op : graph_.ops()) {
      if (op.segment != Segment::kBackward) continue;
      for (ValueId id : op.inputs) {
        if (id == kNoValue || !from_forward_[index_of(id)]) continue;
        if (recipe_of(id)) {
          with_recipe.push_back(id);
        } else if (!runs_again_[index_of(graph_.value(id).producer)]) {
          kept_[index_of(id)] = true;
        }
      }
    }
    for (ValueId id : with_recipe) {
      if (!runs_again_[index_of(graph_.value(id).producer)] && !has_cheap_recipe(id))
        stays_[index_of(id)] = true;
    }
  }

  std::optional<Recipe> recipe_of(ValueId id) const {
    const Op& op = graph_.op(graph_.value(id).producer);
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      if (op.outputs[i] == id) return schema_of(op).recipe({graph_, op}, static_cast<int>(i));
    }
    return std::nullopt;
  }

  // Returns true if the recipe of a value can be used, because every input of the recipe exists in the backward pass. An input exists there
  // if it is not computed by the forward pass, is kept, is an output of the same op that is kept at the end of a block, or has a recipe
  // itself whose inputs exist. The recursion is as deep as the longest chain of ops with recipes.
  bool has_cheap_recipe(ValueId id) const {
    const auto recipe = recipe_of(id);
    if (!recipe) return false;
    for (ValueId input : recipe->inputs) {
      if (input == kNoValue || !is_from_forward(input) || kept_[index_of(input)]) continue;
      const bool is_of_same_op = graph_.value(input).producer == graph_.value(id).producer;
      if (is_of_same_op && stays_[index_of(input)]) continue;
      if (!has_cheap_recipe(input)) return false;
    }
    return true;
  }

  bool is_from_forward(ValueId id) const {
    return index_of(id) < from_forward_.size() && from_forward_[index_of(id)];
  }

  ValueId replacement(ValueId id, std::vector<Op>& ops) {
    if (id == kNoValue || !is_from_forward(id) || kept_[index_of(id)]) return id;
    if (const auto it = done_.find(index_of(id)); it != done_.end()) return it->second;
    const OpId producer = graph_.value(id).producer;
    if (has_cheap_recipe(id)) {
      Recipe recipe = *recipe_of(id);
      const Op op{.def = recipe.def,
                  .inputs = std::move(recipe.inputs),
                  .outputs = {},
                  .attributes = std::move(recipe.attributes),
                  .segment = Segment::kBackward,
                  .module = graph_.op(producer).module};
      // Two outputs of a forward op may have the same recipe (the op that computes them again), such as the result of a norm and its
      // statistics. The recipe then runs only once.
      std::vector<Emitted>& emitted = emitted_[static_cast<size_t>(producer)];
      auto same = std::ranges::find_if(emitted, [&](const Emitted& other) {
        return other.recipe.def == op.def && other.recipe.inputs == op.inputs &&
               other.recipe.attributes == op.attributes;
      });
      if (same == emitted.end()) {
        ValueIds outputs = emit_again(op, id, ops);
        emitted.push_back({op, std::move(outputs)});
        same = std::prev(emitted.end());
      }
      done_.emplace(index_of(id), same->outputs[static_cast<size_t>(recipe.output)]);
    } else if (runs_again_[index_of(producer)]) {
      Op op = graph_.op(producer);
      const ValueIds originals = std::exchange(op.outputs, {});
      op.segment = Segment::kBackward;
      const ValueIds outputs = emit_again(op, originals, ops);
      for (size_t i = 0; i < outputs.size(); ++i) done_.insert_or_assign(index_of(originals[i]), outputs[i]);
    } else {
      return id;
    }
    return done_.at(index_of(id));
  }

  ValueIds emit_again(const Op& op, ValueId named_after, std::vector<Op>& ops) {
    return emit_again(op, ValueIds{named_after}, ops);
  }

  // Appends `op` to `ops`, after ops that produce its inputs if necessary. Output i is named after the value named_after[i], or after the
  // last value of this list if it is shorter.
  ValueIds emit_again(Op op, const ValueIds& named_after, std::vector<Op>& ops) {
    for (ValueId& input : op.inputs) input = replacement(input, ops);
    graph_.set_current_module(op.module);
    const std::vector<ValueType> types = op.def->infer({graph_, op});
    for (size_t i = 0; i < types.size(); ++i) {
      const ValueId original = named_after[std::min(i, named_after.size() - 1)];
      const std::string name = graph_.unique_name(graph_.value(original).name + ".again");
      op.outputs.push_back(graph_.add_value(name, types[i], Storage::kTransient));
    }
    ops.push_back(op);
    return ops.back().outputs;
  }

  Graph& graph_;
  const RecomputeChoice& choice_;
  const OpLists readers_ = find_readers(graph_);  // the readers of each value
  std::vector<bool> from_forward_;                // true for each transient value of the forward pass
  std::vector<bool> runs_again_;                  // true for each forward op that runs again
  std::vector<bool> pinned_;
  // outputs at the end of a block that are kept because other blocks read them; other outputs of the op may be recomputed from them
  std::vector<bool> stays_;
  std::vector<bool> kept_;
  std::unordered_map<size_t, ValueId> done_;
  // The ops that have been emitted to recompute outputs of a forward op, with their results. The key is the forward op.
  struct Emitted {
    Op recipe;
    ValueIds outputs;
  };
  std::unordered_map<size_t, std::vector<Emitted>> emitted_;
};

}  // namespace

std::string_view recompute_policy_name(RecomputePolicy policy) {
  switch (policy) {
    case RecomputePolicy::kNone:
      return "none";
    case RecomputePolicy::kCheap:
      return "cheap";
    case RecomputePolicy::kFull:
      return "full";
  }
  return "?";
}

std::optional<RecomputePolicy> find_recompute_policy(std::string_view name) {
  for (const RecomputePolicy policy :
       {RecomputePolicy::kNone, RecomputePolicy::kCheap, RecomputePolicy::kFull}) {
    if (recompute_policy_name(policy) == name) return policy;
  }
  return std::nullopt;
}

Pass recompute_pass(RecomputeChoice choice) {
  return {.name = "recompute",
          .numerics = Numerics::kPreserving,
          .help =
              "recomputes forward values in the backward pass instead of keeping them (--recompute); "
              "preserves bits in fp32, and rounds normalized values differently in 16 bits",
          .run = [choice = std::move(choice)](Graph& graph) {
            if (choice.policy == RecomputePolicy::kNone && choice.kept_of_block.empty()) return;
            Recompute(graph, choice).run();
          }};
}

}  // namespace plimsoll
