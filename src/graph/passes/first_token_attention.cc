#include <optional>

#include "graph/analysis/dependence.h"
#include "graph/ops/ops.h"
#include "graph/passes/linear.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

// Runs on a forward graph that is not differentiated, behind unread_rows, which leaves first_token as the one
// reader of the last attention.
class FuseFirstToken {
 public:
  FuseFirstToken(Graph& graph, const std::function<bool(const OpView&)>& has_kernel)
      : graph_(graph), has_kernel_(has_kernel), readers_(find_readers(graph)) {}

  void run() {
    std::vector<bool> dead(graph_.ops().size(), false);
    for (Op& op : graph_.ops()) {
      if (op.def != &first_token_op()) continue;
      const std::optional<uint32_t> attention = only_producer(op.inputs[0], attention_op());
      if (!attention || !sees_all(graph_.ops()[*attention], op.inputs[1])) continue;
      const Op& all = graph_.ops()[*attention];
      const std::optional<uint32_t> product = only_producer(all.inputs[0], matmul_op());
      if (!product || !is_projection(graph_.ops()[*product])) continue;
      const Op& qkv = graph_.ops()[*product];
      Op fused{.def = &first_token_attention_op(),
               .inputs = {qkv.inputs[0], qkv.inputs[1], qkv.inputs[2], op.inputs[1]},
               .outputs = op.outputs,
               .attributes = {{"heads", all.attributes.integer("heads")},
                              {"scale", all.attributes.number("scale")}},
               .segment = op.segment,
               .module = all.module};
      if (!has_kernel_({graph_, fused})) continue;
      op = std::move(fused);
      dead[*attention] = dead[*product] = true;
    }
    remove_ops(graph_, dead);
  }

 private:
  // The op of this kind that produces a value with one reader.
  std::optional<uint32_t> only_producer(ValueId id, const OpSchema& def) const {
    const Value& value = graph_.value(id);
    if (value.producer == kNoOp || value.storage != Storage::kTransient || readers_[index_of(id)].size() != 1)
      return std::nullopt;
    const auto producer = static_cast<uint32_t>(value.producer);
    if (graph_.ops()[producer].def != &def) return std::nullopt;
    return producer;
  }

  // Every row of its sequence, without dropout, and the sequences are those of the first tokens.
  static bool sees_all(const Op& attention, ValueId cu_seqlens) {
    return attention.attributes.integer("causal") == 0 && attention.attributes.integer("lse") == 0 &&
           attention.attributes.number("p") == 0.0 && attention.inputs[1] == cu_seqlens;
  }

  // Of rows by a weight and with a bias, in the type of its operands.
  bool is_projection(const Op& op) const {
    return op.attributes.integer("ta") == 0 && op.attributes.integer("tb") == 1 && op.inputs[2] != kNoValue &&
           op.inputs[3] == kNoValue && !op.attributes.has("dtype") &&
           graph_.value(op.inputs[0]).type.dtype == graph_.value(op.inputs[1]).type.dtype;
  }

  Graph& graph_;
  const std::function<bool(const OpView&)>& has_kernel_;
  std::vector<std::vector<uint32_t>> readers_;
};

}  // namespace

Pass first_token_attention_pass(std::function<bool(const OpView&)> has_kernel) {
  return {
      .name = "first_token_attention",
      .numerics = Numerics::kChanging,
      .help =
          "where no gradient is taken, the last attention is computed for first tokens alone, without "
          "the keys and values of all others",
      .run = [has_kernel = std::move(has_kernel)](Graph& graph) { FuseFirstToken(graph, has_kernel).run(); }};
}

}  // namespace plimsoll
