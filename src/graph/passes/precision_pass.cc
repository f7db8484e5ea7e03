#include "graph/ops/ops.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

// Returns the position of the logits among the inputs of a loss or of log_softmax, or -1 for any other op.
int logits_input(const Op& op) {
  if (op.def == &log_softmax_op()) return LogSoftmaxOp::kX;
  if (op.def == &softmax_cross_entropy_op()) return ClassLossOp::kLogits;
  if (op.def == &class_sums_op()) return ClassSumsOp::kLogits;
  if (op.def == &bce_with_logits_op() || op.def == &mse_op()) return ElementLossOp::kLogits;
  return -1;
}

// Gives the embeddings a 16-bit type, from which the types of all later activations follow when they are inferred again. Weights keep their
// type (a matrix product rounds a weight when it reads it). The definitions of ops keep statistics and column sums in fp32. The logits are
// cast back to fp32 before the loss reads them.
void lower_activations(Graph& graph, DType dtype) {
  // Gives the KV cache the type of the keys and values that it stores.
  for (Value& value : graph.values()) {
    if (value.storage == Storage::kCache) value.type.dtype = dtype;
  }
  std::vector<Op> ops;
  std::vector<Op> old_ops = graph.ops();
  for (Op& op : old_ops) {
    if (op.def == &embedding_sum_op()) op.attributes.set("dtype", std::string(dtype_name(dtype)));
    if (const int input = logits_input(op); input >= 0) {
      ValueId& read = op.inputs[static_cast<size_t>(input)];
      const ValueId logits = read;
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
      read = cast;
    }
    const std::vector<ValueType> types = op.def->infer({graph, op});
    for (size_t i = 0; i < types.size(); ++i) graph.value(op.outputs[i]).type = types[i];
    ops.push_back(std::move(op));
  }
  graph.replace_ops(std::move(ops));
}

}  // namespace

Pass precision_pass(DType activations) {
  return {.name = "precision",
          .numerics = Numerics::kChanging,
          .help = "keeps activations in 16 bits between ops; weights, sums and statistics stay in fp32",
          .run = [activations](Graph& graph) { lower_activations(graph, activations); }};
}

}  // namespace plimsoll
