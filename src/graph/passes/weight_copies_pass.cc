#include <fmt/format.h>

#include "graph/ops/ops.h"
#include "graph/passes/pass.h"

namespace plimsoll {

namespace {

// Replaces the weight or the bias that a matrix product reads by its 16-bit copy.
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
    graph.value(copy).split = master.split;
  }
  op.inputs[input] = copy;
}

void use_copies(Graph& graph, DType gradients) {
  std::vector<Op> ops = graph.ops();
  for (Op& op : ops) {
    if (op.def != &matmul_op()) continue;
    const DType dtype = graph.value(op.inputs[MatmulOp::kA]).type.dtype;
    if (dtype == DType::kF32 || dtype == DType::kF64) continue;
    use_copy(graph, op, MatmulOp::kB, dtype);
    use_copy(graph, op, MatmulOp::kBias, dtype);
    if (gradients != dtype) op.attributes.set("gradient_dtype", std::string(dtype_name(gradients)));
  }
  // An embedding table can also be the weight of a matrix product (tied embeddings). Both ops must then read the 16-bit copy, because the
  // table has one gradient, which is computed with respect to the copy.
  for (Op& op : ops) {
    if (op.def != &embedding_sum_op()) continue;
    for (size_t table = EmbeddingSumOp::kTable; table < op.inputs.size(); table += 2) {
      const ValueId copy = graph.find(weight_copy_name(
          graph.value(op.inputs[table]).name, graph.value(op.outputs[EmbeddingSumOp::kX]).type.dtype));
      if (copy == kNoValue) continue;
      // The lookup's result has the type of the table unless an attribute states another. Sets the attribute, so that the result keeps its
      // type.
      const DType x = graph.value(op.outputs[EmbeddingSumOp::kX]).type.dtype;
      op.attributes.set("dtype", std::string(dtype_name(x)));
      op.inputs[table] = copy;
    }
  }
  graph.replace_ops(std::move(ops));
}

// Returns one element per value of the graph: the fp32 matrix of which the value is a persistent 16-bit copy, or kNoValue if it is not such
// a copy. A copy that an update writes must remain persistent; its entry is therefore kNoValue too.
std::vector<ValueId> masters_of_matrix_copies(const Graph& graph, DType dtype) {
  const std::string suffix = weight_copy_name("", dtype);
  std::vector<ValueId> masters(graph.values().size(), kNoValue);
  for (size_t i = 0; i < masters.size(); ++i) {
    const Value& value = graph.values()[i];
    if (value.storage != Storage::kWeight || value.type.dtype != dtype || value.type.shape.rank() < 2)
      continue;
    if (value.name.ends_with(suffix)) {
      masters[i] = graph.find(value.name.substr(0, value.name.size() - suffix.size()));
    }
  }
  for (const Value& value : graph.values()) {
    if (value.version_of != kNoValue) masters[index_of(value.version_of)] = kNoValue;
  }
  return masters;
}

// Inserts, before every op that reads a persistent 16-bit copy, an op that makes a transient copy for it.
void copy_at_use(Graph& graph, DType dtype) {
  const std::vector<ValueId> masters = masters_of_matrix_copies(graph, dtype);
  std::vector<Op> ops;
  std::vector<Op> old_ops = graph.ops();
  for (Op& op : old_ops) {
    for (ValueId& input : op.inputs) {
      if (input == kNoValue || index_of(input) >= masters.size()) continue;
      const ValueId master = masters[index_of(input)];
      if (master == kNoValue) continue;
      const ValueType type = graph.value(input).type;
      input =
          graph.add_value(graph.unique_name(graph.value(master).name + ".read"), type, Storage::kTransient);
      graph.value(input).module = op.module;
      ops.push_back({.def = &cast_op(),
                     .inputs = {master},
                     .outputs = {input},
                     .attributes = {{"dtype", std::string(dtype_name(dtype))}},
                     .segment = op.segment,
                     .module = op.module});
    }
    ops.push_back(std::move(op));
  }
  for (size_t i = 0; i < masters.size(); ++i) {
    if (masters[i] != kNoValue) graph.values()[i].storage = Storage::kTransient;
  }
  graph.replace_ops(std::move(ops));
  graph.drop_unused_values();
}

}  // namespace

std::string weight_copy_name(std::string_view weight, DType dtype) {
  return fmt::format("{}.{}", weight, dtype_name(dtype));
}

Pass weight_copies_pass(DType gradients) {
  return {.name = "weight_copies",
          .numerics = Numerics::kChanging,
          .help =
              "lets matrix products of 16-bit activations read 16-bit copies of the weights that the "
              "optimizer updates",
          .needed_for = "--bf16 or --fp16 on this device",
          .run = [gradients](Graph& graph) { use_copies(graph, gradients); }};
}

Pass copies_at_use_pass(DType copies) {
  return {.name = "copies_at_use",
          .numerics = copies == DType::kF16 ? Numerics::kPreserving : Numerics::kChanging,
          .help = "makes 16-bit copies of matrices before each matrix product instead of keeping them",
          .run = [copies](Graph& graph) { copy_at_use(graph, copies); }};
}

namespace {

// Removes the weights that no op reads any more because all readers use the copy.
void drop_masters(Graph& graph, DType copies) {
  std::vector<bool> read(graph.values().size(), false);
  for (const Op& op : graph.ops()) {
    for (ValueId id : op.inputs) {
      if (id != kNoValue) read[index_of(id)] = true;
    }
  }
  for (size_t i = 0; i < graph.values().size(); ++i) {
    Value& value = graph.values()[i];
    if (value.storage != Storage::kWeight || read[i]) continue;
    if (graph.find(weight_copy_name(value.name, copies)) == kNoValue) continue;
    value.storage = Storage::kTransient;
  }
  graph.drop_unused_values();
}

}  // namespace

Pass split_weights_pass(DType copies) {
  return {.name = "split_weights",
          .numerics = Numerics::kPreserving,
          .help = "stores the upper and the lower 16 bits of weights separately, instead of fp32 and a copy",
          .run = [copies](Graph& graph) { drop_masters(graph, copies); }};
}

}  // namespace plimsoll
