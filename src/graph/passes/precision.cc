#include "graph/ops/ops.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

bool is_loss(const Op& op) {
  return op.def == &log_softmax_op() || op.def == &bce_with_logits_op() || op.def == &mse_op();
}

// The weight and bias of a product are replaced by their copies. Gradients of copies are those of the
// weights.
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

// Activations change their type where they are born, at the embeddings; every later type follows by
// inference. Weights keep theirs (a product rounds a weight on its way), statistics and column sums stay in
// fp32 by the ops' own rules, and the loss reads logits that were cast back.
void lower_activations(Graph& graph, DType dtype, ProductWeights weights, DType gradients) {
  std::vector<Op> ops;
  std::vector<Op> old_ops = graph.ops();
  for (Op& op : old_ops) {
    if (op.def == &embedding_sum_op()) op.attributes.set("dtype", std::string(dtype_name(dtype)));
    if (weights == ProductWeights::kCopy && op.def == &matmul_op()) {
      use_copy(graph, op, 1, dtype);
      use_copy(graph, op, 2, dtype);
      if (gradients != dtype) op.attributes.set("gradient_dtype", std::string(dtype_name(gradients)));
    }
    if (is_loss(op)) {
      const ValueId logits = op.inputs[0];
      const ValueType wanted{DType::kF32, graph.value(logits).type.shape};
      const std::string name = graph.value(logits).name;
      graph.rename(logits, graph.unique_name(name + "." + std::string(dtype_name(dtype))));
      const ValueId cast = graph.add_value(name, wanted, graph.value(logits).storage);
      graph.value(logits).storage = Storage::kTransient;
      ops.push_back({.def = &cast_op(),
                     .inputs = {logits},
                     .outputs = {cast},
                     .attributes = {{"dtype", std::string(dtype_name(DType::kF32))}},
                     .segment = op.segment,
                     .module = op.module});
      op.inputs[0] = cast;
    }
    const std::vector<ValueType> types = op.def->infer({graph, op});
    for (size_t i = 0; i < types.size(); ++i) graph.value(op.outputs[i]).type = types[i];
    ops.push_back(std::move(op));
  }
  graph.replace_ops(std::move(ops));
}

}  // namespace

std::string weight_copy_name(std::string_view weight, DType dtype) {
  return fmt::format("{}.{}", weight, dtype_name(dtype));
}

Pass precision_pass(DType activations, ProductWeights weights, DType gradients) {
  return {.name = "precision",
          .numerics = Numerics::kChanging,
          .help = "keeps activations in 16 bits between ops; weights, sums and statistics stay in fp32",
          .run = [=](Graph& graph) { lower_activations(graph, activations, weights, gradients); }};
}

}  // namespace plimsoll
