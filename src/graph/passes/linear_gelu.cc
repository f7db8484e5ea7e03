#include "graph/analysis/dependence.h"
#include "graph/ops/ops.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

// A product without bias of rows with a weight, in the type of its operands.
bool is_linear(const Graph& graph, const Op& op) {
  return op.def == &matmul_op() && op.attributes.integer("ta") == 0 && op.attributes.integer("tb") == 1 &&
         op.inputs[2] == kNoValue && op.inputs[3] == kNoValue && !op.attributes.has("dtype") &&
         graph.value(op.inputs[0]).type.dtype == graph.value(op.inputs[1]).type.dtype &&
         !graph.value(op.inputs[1]).type.shape.depends_on_bucket();
}

// Runs on a forward graph that is not differentiated. The fused op stands where the activation stood.
void fuse_linear_gelu(Graph& graph, const std::function<bool(const OpView&)>& has_kernel) {
  const auto readers = find_readers(graph);
  std::vector<bool> dead(graph.ops().size(), false);
  for (Op& op : graph.ops()) {
    if (op.def != &bias_gelu_op()) continue;
    const ValueId sum = op.inputs[0];
    const Value& value = graph.value(sum);
    if (value.producer == kNoOp || value.storage != Storage::kTransient ||
        readers[index_of(sum)].size() != 1) {
      continue;
    }
    const auto producer = static_cast<uint32_t>(value.producer);
    const Op& product = graph.ops()[producer];
    if (!is_linear(graph, product)) continue;
    Op fused{.def = &linear_gelu_op(),
             .inputs = {product.inputs[0], product.inputs[1], op.inputs[1]},
             .outputs = op.outputs,
             .attributes = {},
             .segment = op.segment,
             .module = op.module};
    if (!has_kernel({graph, fused})) continue;
    op = std::move(fused);
    dead[producer] = true;
  }
  std::vector<Op> ops;
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    if (!dead[i]) ops.push_back(std::move(graph.ops()[i]));
  }
  graph.replace_ops(std::move(ops));
  graph.drop_unused_values();
}

}  // namespace

Pass linear_gelu_pass(std::function<bool(const OpView&)> has_kernel) {
  return {.name = "linear_gelu",
          .numerics = Numerics::kChanging,
          .help = "where no gradient is taken, a product and the bias and GELU behind it are one op",
          .run = [has_kernel = std::move(has_kernel)](Graph& graph) { fuse_linear_gelu(graph, has_kernel); }};
}

}  // namespace plimsoll
