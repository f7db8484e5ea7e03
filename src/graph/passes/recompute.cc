#include <unordered_map>

#include "graph/ops/ops.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

// Forward values that cheap ops can produce again from what is kept anyway are produced again right before
// the backward op that reads them first; later readers share the copy.
class Recompute {
 public:
  explicit Recompute(Graph& graph) : graph_(graph), from_forward_(graph.values().size(), false) {
    for (const Op& op : graph.ops()) {
      if (op.segment != Segment::kForward) continue;
      for (ValueId id : op.outputs) from_forward_[index_of(id)] = true;
    }
    find_kept();
  }

  void run() {
    const std::vector<Op> old_ops = graph_.ops();
    graph_.set_segment(Segment::kBackward);
    std::vector<Op> ops;
    for (Op op : old_ops) {
      if (op.segment == Segment::kBackward) {
        for (ValueId& id : op.inputs) {
          if (id != kNoValue && index_of(id) < from_forward_.size()) id = replacement(id, op.module, ops);
        }
      }
      ops.push_back(std::move(op));
    }
    graph_.replace_ops(std::move(ops));
    graph_.drop_unused_values();
  }

 private:
  // Values that some backward op needs and that have no recipe: they are kept whatever happens.
  void find_kept() {
    kept_.assign(graph_.values().size(), false);
    for (const Op& op : graph_.ops()) {
      if (op.segment != Segment::kBackward) continue;
      for (ValueId id : op.inputs) {
        if (id != kNoValue && !recipe_of(id)) kept_[index_of(id)] = true;
      }
    }
  }

  std::optional<Recipe> recipe_of(ValueId id) const {
    const Value& value = graph_.value(id);
    if (!from_forward_[index_of(id)] || value.storage != Storage::kTransient) return std::nullopt;
    const Op& op = graph_.op(value.producer);
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      if (op.outputs[i] == id) return schema_of(op).recipe({graph_, op}, static_cast<int>(i));
    }
    return std::nullopt;
  }

  // Whether everything that the recipe of a value reads is there in the backward pass: persistent, an input,
  // kept, or itself cheap to produce. Depth is bounded by the chain of cheap ops.
  bool is_available(ValueId id) const {
    if (id == kNoValue || !from_forward_[index_of(id)] || graph_.value(id).storage != Storage::kTransient)
      return true;
    return kept_[index_of(id)] || can_recompute(id);
  }
  bool can_recompute(ValueId id) const {
    const auto recipe = recipe_of(id);
    if (!recipe) return false;
    for (ValueId input : recipe->inputs) {
      if (!is_available(input)) return false;
    }
    return true;
  }

  ValueId replacement(ValueId id, ModuleId module, std::vector<Op>& ops) {
    if (!from_forward_[index_of(id)] || kept_[index_of(id)] || !can_recompute(id)) return id;
    if (const auto it = done_.find(index_of(id)); it != done_.end()) return it->second;
    Recipe recipe = *recipe_of(id);
    for (ValueId& input : recipe.inputs) {
      if (input != kNoValue) input = replacement(input, module, ops);
    }
    Op op{.def = recipe.def,
          .inputs = std::move(recipe.inputs),
          .outputs = {},
          .attributes = std::move(recipe.attributes),
          .segment = Segment::kBackward,
          .module = module};
    const std::vector<ValueType> types = op.def->infer({graph_, op});
    for (size_t i = 0; i < types.size(); ++i) {
      const std::string name = graph_.unique_name(graph_.value(id).name + ".again");
      op.outputs.push_back(graph_.add_value(name, types[i], Storage::kTransient));
    }
    const ValueId result = op.outputs[static_cast<size_t>(recipe.output)];
    ops.push_back(std::move(op));
    done_.emplace(index_of(id), result);
    return result;
  }

  Graph& graph_;
  std::vector<bool> from_forward_;
  std::vector<bool> kept_;
  std::unordered_map<size_t, ValueId> done_;
};

}  // namespace

Pass recompute_pass() {
  return {.name = "recompute",
          .numerics = Numerics::kPreserving,
          .help =
              "computes cheap values (GELU, scale and shift, dropout, bias) again in the backward pass; "
              "preserving "
              "in fp32, a rounding of the normalised values away from it in 16 bits",
          .run = [](Graph& graph) { Recompute(graph).run(); }};
}

}  // namespace plimsoll
