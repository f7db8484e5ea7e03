#include <fmt/format.h>

#include "graph/ops/ops.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

// The weight or bias of a product is replaced by its copy.
void use_copy(Graph& graph, Op& op, size_t input, DType dtype) {
  const ValueId weight = op.inputs[input];
  if (weight == kNoValue) return;
  const Value master = graph.value(weight);
  if (master.storage != Storage::kWeight || master.type.dtype != DType::kF32) return;
  const std::string name = weight_copy_name(master.name, dtype);
  ValueId copy = graph.find(name);
  if (copy == kNoValue) {
    copy = graph.add_value(name, {dtype, master.type.shape}, Storage::kWeight);
    graph.value(copy).module = master.module;
  }
  op.inputs[input] = copy;
}

void use_copies(Graph& graph, DType gradients) {
  std::vector<Op> ops = graph.ops();
  for (Op& op : ops) {
    if (op.def != &matmul_op()) continue;
    const DType dtype = graph.value(op.inputs[0]).type.dtype;
    if (dtype == DType::kF32 || dtype == DType::kF64) continue;
    use_copy(graph, op, 1, dtype);
    use_copy(graph, op, 2, dtype);
    if (gradients != dtype) op.attributes.set("gradient_dtype", std::string(dtype_name(gradients)));
  }
  graph.replace_ops(std::move(ops));
}

}  // namespace

std::string weight_copy_name(std::string_view weight, DType dtype) {
  return fmt::format("{}.{}", weight, dtype_name(dtype));
}

Pass weight_copies_pass(DType gradients) {
  return {
      .name = "weight_copies",
      .numerics = Numerics::kChanging,
      .help = "lets products of 16-bit activations read 16-bit copies of weights that the optimizer keeps",
      .run = [gradients](Graph& graph) { use_copies(graph, gradients); }};
}

}  // namespace plimsoll
