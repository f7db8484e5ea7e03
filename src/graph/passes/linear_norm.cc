#include <algorithm>
#include <utility>

#include "graph/analysis/dependence.h"
#include "graph/ops/ops.h"
#include "graph/passes/linear.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

// A norm behind a bias and a residual, of which only the normalized rows are read.
bool closes_layer(const Graph& graph, const Readers& readers, const Op& op) {
  if (!norm_adds_residual(graph, op) || op.inputs[1] == kNoValue) return false;
  return std::all_of(op.outputs.begin() + 1, op.outputs.end(), [&](ValueId id) {
    return id == kNoValue ||
           (graph.value(id).storage == Storage::kTransient && readers[index_of(id)].empty());
  });
}

// Runs on a forward graph that is not differentiated.
void fuse_linear_norm(Graph& graph, const std::function<bool(const OpView&)>& has_kernel) {
  const auto readers = find_readers(graph);
  std::vector<bool> dead(graph.ops().size(), false);
  std::vector<std::pair<size_t, Op>> fused;
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    if (!closes_layer(graph, readers, op)) continue;
    const auto producer = find_linear_with_one_reader(graph, readers, op.inputs[0], LinearBias::kWithout);
    if (!producer) continue;
    const Op& product = graph.ops()[*producer];
    Op layer{.def = &linear_norm_op(),
             .inputs = {product.inputs[0], product.inputs[1], op.inputs[1], op.inputs[2], op.inputs[3],
                        op.inputs[4]},
             .outputs = {op.outputs[0]},
             .attributes = {{"eps", op.attributes.number("eps")}},
             .segment = op.segment,
             .module = op.module};
    if (!has_kernel({graph, layer})) continue;
    dead[*producer] = true;
    fused.emplace_back(i, std::move(layer));
  }
  std::vector<Op> ops = graph.ops();
  for (auto& [at, layer] : fused) ops[at] = std::move(layer);
  graph.replace_ops(std::move(ops));
  remove_ops(graph, dead);
}

}  // namespace

Pass linear_norm_pass(std::function<bool(const OpView&)> has_kernel) {
  return {
      .name = "linear_norm",
      .numerics = Numerics::kChanging,
      .help =
          "where no gradient is taken, a product, its bias, the residual and the norm behind them are one op",
      .run = [has_kernel = std::move(has_kernel)](Graph& graph) { fuse_linear_norm(graph, has_kernel); }};
}

}  // namespace plimsoll
