#include "graph/analysis/dependence.h"
#include "graph/ops/ops.h"
#include "graph/passes/linear.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

// Runs on a forward graph that is not differentiated. The fused op stands where the activation stood.
void fuse_linear_gelu(Graph& graph, const std::function<bool(const OpView&)>& has_kernel) {
  const auto readers = find_readers(graph);
  std::vector<bool> dead(graph.ops().size(), false);
  for (Op& op : graph.ops()) {
    if (op.def != &bias_gelu_op()) continue;
    const auto producer = find_linear_with_one_reader(graph, readers, op.inputs[0], LinearBias::kWithout);
    if (!producer) continue;
    const Op& product = graph.ops()[*producer];
    Op fused{.def = &linear_gelu_op(),
             .inputs = {product.inputs[0], product.inputs[1], op.inputs[1]},
             .outputs = op.outputs,
             .attributes = {},
             .segment = op.segment,
             .module = op.module};
    if (!has_kernel({graph, fused})) continue;
    op = std::move(fused);
    dead[*producer] = true;
  }
  remove_ops(graph, dead);
}

}  // namespace

Pass linear_gelu_pass(std::function<bool(const OpView&)> has_kernel) {
  return {.name = "linear_gelu",
          .numerics = Numerics::kChanging,
          .help = "where no gradient is taken, a product and the bias and GELU behind it are one op",
          .run = [has_kernel = std::move(has_kernel)](Graph& graph) { fuse_linear_gelu(graph, has_kernel); }};
}

}  // namespace plimsoll
