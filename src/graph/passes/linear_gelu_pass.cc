#include <utility>

#include "graph/ops/activation_op.h"
#include "graph/ops/ops.h"
#include "graph/passes/pass.h"
#include "graph/passes/rewriter.h"

namespace plimsoll {
namespace {

// Runs on a forward graph that is not differentiated. The fused op is inserted at the position of the activation.
void fuse_linear_gelu(Graph& graph, const std::function<bool(const OpView&)>& has_kernel) {
  Rewriter rewriter(graph);
  for (uint32_t i = 0; i < rewriter.num_ops(); ++i) {
    if (!rewriter.is(i, bias_gelu_op())) continue;
    const Op& gelu = rewriter.op(i);
    // The fused kernels compute the erf form of GELU only.
    if (activation_of(gelu.attributes) != Activation::kGelu) continue;
    const auto producer = find_linear(rewriter, i, gelu.inputs[BiasGeluOp::kH], ProductBias::kWithout);
    if (!producer) continue;
    const Op& product = rewriter.op(*producer);
    Op fused = op_instead_of(
        gelu, linear_gelu_op(),
        {product.inputs[MatmulOp::kA], product.inputs[MatmulOp::kB], gelu.inputs[BiasGeluOp::kBias]});
    if (!has_kernel({graph, fused})) continue;
    rewriter.replace(i, std::move(fused));
    rewriter.remove(*producer);
  }
  rewriter.apply();
}

}  // namespace

Pass linear_gelu_pass(std::function<bool(const OpView&)> has_kernel) {
  return {
      .name = "linear_gelu",
      .numerics = Numerics::kChanging,
      .help = "in programs without gradients, fuses a matrix product with the bias and GELU that follow it",
      .run = [has_kernel = std::move(has_kernel)](Graph& graph) { fuse_linear_gelu(graph, has_kernel); }};
}

}  // namespace plimsoll
