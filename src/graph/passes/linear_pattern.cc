#include "graph/passes/linear_pattern.h"

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

bool is_linear(const Graph& graph, const Op& op, LinearBias bias) {
  const ValueId weight = op.inputs[MatmulOp::kB];
  return op.attributes.integer("ta") == 0 && op.attributes.integer("tb") == 1 &&
         (op.inputs[MatmulOp::kBias] != kNoValue) == (bias == LinearBias::kWith) &&
         op.inputs[MatmulOp::kInto] == kNoValue && !op.attributes.has("dtype") &&
         graph.value(op.inputs[MatmulOp::kA]).type.dtype == graph.value(weight).type.dtype &&
         !graph.value(weight).type.shape.depends_on_bucket();
}

}  // namespace

std::optional<uint32_t> find_linear(const Rewriter& rewriter, uint32_t reader, ValueId id, LinearBias bias) {
  const auto product = rewriter.find_producer(reader, id, matmul_op());
  if (!product || !is_linear(rewriter.graph(), rewriter.op(*product), bias)) return std::nullopt;
  return product;
}

bool norm_adds_residual(const Graph& graph, const Op& op) {
  using Norm = BiasDropoutResidualNormOp;
  if (op.def != &bias_dropout_residual_norm_op() || op.attributes.number("p") != 0.0) return false;
  const ValueId x = op.inputs[Norm::kX];
  const ValueId residual = op.inputs[Norm::kResidual];
  return residual != kNoValue && residual != x && graph.value(residual).type == graph.value(x).type;
}

}  // namespace plimsoll
