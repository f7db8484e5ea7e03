#include <utility>

#include "graph/ops/ops.h"
#include "graph/passes/pass.h"
#include "graph/passes/rewriter.h"

namespace plimsoll {
namespace {

// Runs on a forward graph that is not differentiated. The fused op is placed just before the norm that added the residual, because the
// residual may be computed after the matrix product.
void fuse_linear_add(Graph& graph, const std::function<bool(const OpView&)>& has_kernel) {
  using Norm = BiasDropoutResidualNormOp;
  Rewriter rewriter(graph);
  for (uint32_t i = 0; i < rewriter.num_ops(); ++i) {
    const Op& norm = rewriter.op(i);
    if (!norm_adds_residual(graph, norm)) continue;
    const auto producer = find_linear(rewriter, i, norm.inputs[Norm::kX], ProductBias::kWithout);
    if (!producer) continue;
    const Op& product = rewriter.op(*producer);
    Op sum = op_instead_of(
        product, linear_add_op(),
        {product.inputs[MatmulOp::kA], product.inputs[MatmulOp::kB], norm.inputs[Norm::kResidual]});
    if (!has_kernel({graph, sum})) continue;
    Op norm_of_sum = norm;
    norm_of_sum.inputs[Norm::kResidual] = kNoValue;
    rewriter.replace(i, std::move(norm_of_sum));
    rewriter.insert_before(i, std::move(sum));
    rewriter.remove(*producer);
  }
  rewriter.apply();
}

}  // namespace

Pass linear_add_pass(std::function<bool(const OpView&)> has_kernel) {
  return {.name = "linear_add",
          .numerics = Numerics::kChanging,
          .help =
              "in programs without gradients, lets a matrix product add the residual that the following norm "
              "would add",
          .run = [has_kernel = std::move(has_kernel)](Graph& graph) { fuse_linear_add(graph, has_kernel); }};
}

}  // namespace plimsoll
