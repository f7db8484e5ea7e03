#include "graph/passes/linear.h"

#include <utility>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

bool is_linear(const Graph& graph, const Op& op, LinearBias bias) {
  return op.attributes.integer("ta") == 0 && op.attributes.integer("tb") == 1 &&
         (op.inputs[2] != kNoValue) == (bias == LinearBias::kWith) && op.inputs[3] == kNoValue &&
         !op.attributes.has("dtype") &&
         graph.value(op.inputs[0]).type.dtype == graph.value(op.inputs[1]).type.dtype &&
         !graph.value(op.inputs[1]).type.shape.depends_on_bucket();
}

}  // namespace

std::optional<uint32_t> find_with_one_reader(const Graph& graph, const Readers& readers, ValueId id,
                                             const OpSchema& def) {
  const Value& value = graph.value(id);
  const bool has_one_reader = value.storage == Storage::kTransient && readers[index_of(id)].size() == 1;
  if (value.producer == kNoOp || !has_one_reader) return std::nullopt;
  const auto producer = static_cast<uint32_t>(value.producer);
  if (graph.ops()[producer].def != &def) return std::nullopt;
  return producer;
}

std::optional<uint32_t> find_linear_with_one_reader(const Graph& graph, const Readers& readers, ValueId id,
                                                    LinearBias bias) {
  const auto producer = find_with_one_reader(graph, readers, id, matmul_op());
  if (!producer || !is_linear(graph, graph.ops()[*producer], bias)) return std::nullopt;
  return producer;
}

bool norm_adds_residual(const Graph& graph, const Op& op) {
  return op.def == &bias_dropout_residual_norm_op() && op.attributes.number("p") == 0.0 &&
         op.inputs[2] != kNoValue && op.inputs[2] != op.inputs[0] &&
         graph.value(op.inputs[2]).type == graph.value(op.inputs[0]).type;
}

void remove_ops(Graph& graph, const std::vector<bool>& dead) {
  std::vector<Op> ops;
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    if (!dead[i]) ops.push_back(std::move(graph.ops()[i]));
  }
  graph.replace_ops(std::move(ops));
  graph.drop_unused_values();
}

}  // namespace plimsoll
