#include <utility>

#include "graph/analysis/dependence.h"
#include "graph/ops/ops.h"
#include "graph/passes/linear.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

// Runs on a forward graph that is not differentiated. The fused op stands just before the norm, where the
// residual exists.
void fuse_linear_add(Graph& graph, const std::function<bool(const OpView&)>& has_kernel) {
  const auto readers = find_readers(graph);
  std::vector<Op> ops;
  std::vector<bool> dead(graph.ops().size(), false);
  std::vector<std::pair<size_t, Op>> fused;  // before which norm
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    if (!norm_adds_residual(graph, op)) continue;
    const auto producer = find_linear_with_one_reader(graph, readers, op.inputs[0], LinearBias::kWithout);
    if (!producer) continue;
    const Op& product = graph.ops()[*producer];
    Op sum{.def = &linear_add_op(),
           .inputs = {product.inputs[0], product.inputs[1], op.inputs[2]},
           .outputs = product.outputs,
           .attributes = {},
           .segment = product.segment,
           .module = product.module};
    if (!has_kernel({graph, sum})) continue;
    dead[*producer] = true;
    fused.emplace_back(i, std::move(sum));
  }
  size_t next = 0;
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    Op op = graph.ops()[i];
    if (next < fused.size() && fused[next].first == i) {
      ops.push_back(std::move(fused[next++].second));
      op.inputs[2] = kNoValue;
    }
    if (!dead[i]) ops.push_back(std::move(op));
  }
  graph.replace_ops(std::move(ops));
  graph.drop_unused_values();
}

}  // namespace

Pass linear_add_pass(std::function<bool(const OpView&)> has_kernel) {
  return {.name = "linear_add",
          .numerics = Numerics::kChanging,
          .help = "where no gradient is taken, a product adds the residual that the norm behind it would add",
          .run = [has_kernel = std::move(has_kernel)](Graph& graph) { fuse_linear_add(graph, has_kernel); }};
}

}  // namespace plimsoll
