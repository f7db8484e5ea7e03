#include <algorithm>
#include <utility>

#include "graph/ops/ops.h"
#include "graph/passes/pass.h"
#include "graph/passes/rewriter.h"

namespace plimsoll {
namespace {

// Returns true for a norm that adds a bias and a residual, if no op reads any of its outputs except the first one, y.
bool closes_layer(const Rewriter& rewriter, const Op& op) {
  using Norm = BiasDropoutResidualNormOp;
  if (!norm_adds_residual(rewriter.graph(), op) || op.inputs[Norm::kBias] == kNoValue) return false;
  return std::all_of(op.outputs.begin() + Norm::kN, op.outputs.end(),
                     [&](ValueId id) { return id == kNoValue || rewriter.is_unread(id); });
}

// Runs on a forward graph that is not differentiated. The fused op is inserted at the position of the norm.
void fuse_linear_norm(Graph& graph, const std::function<bool(const OpView&)>& has_kernel) {
  using Norm = BiasDropoutResidualNormOp;
  Rewriter rewriter(graph);
  for (uint32_t i = 0; i < rewriter.num_ops(); ++i) {
    const Op& norm = rewriter.op(i);
    if (!closes_layer(rewriter, norm)) continue;
    const auto producer = find_linear(rewriter, i, norm.inputs[Norm::kX], ProductBias::kWithout);
    if (!producer) continue;
    const Op& product = rewriter.op(*producer);
    Op layer =
        op_instead_of(norm, linear_norm_op(),
                      {product.inputs[MatmulOp::kA], product.inputs[MatmulOp::kB], norm.inputs[Norm::kBias],
                       norm.inputs[Norm::kResidual], norm.inputs[Norm::kGain], norm.inputs[Norm::kBeta]},
                      {{"eps", norm.attributes.number("eps")}});
    layer.outputs = {norm.outputs[Norm::kY]};
    if (!has_kernel({graph, layer})) continue;
    rewriter.replace(i, std::move(layer));
    rewriter.remove(*producer);
  }
  rewriter.apply();
}

}  // namespace

Pass linear_norm_pass(std::function<bool(const OpView&)> has_kernel) {
  return {.name = "linear_norm",
          .numerics = Numerics::kChanging,
          .help =
              "in programs without gradients, fuses a matrix product with its bias and the residual and norm "
              "that follow it",
          .run = [has_kernel = std::move(has_kernel)](Graph& graph) { fuse_linear_norm(graph, has_kernel); }};
}

}  // namespace plimsoll
