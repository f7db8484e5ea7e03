#include <array>

#include "graph/ops/ops.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

// Returns true if the op may add its outputs to the gradients of earlier micro-batches. It may not if another op of the same micro-batch
// reads one of the outputs, because that op would read the sum over micro-batches. One such output prevents the addition for all outputs,
// because an op has one accumulation flag. An example is the gradient of a language-model head with tied weights, which another op adds to
// the gradient of the word embeddings.
bool may_add(const Graph& graph, const Op& op, const std::vector<bool>& is_read) {
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    const ValueId output = op.outputs[i];
    if (output == kNoValue || graph.value(output).is_parameter_gradient) continue;
    if (is_read[index_of(output)] && schema_of(op).into_input({graph, op}, static_cast<int>(i)) >= 0)
      return false;
  }
  return true;
}

// Lets ops that produce gradients add to the persistent buffers of the gradients directly. If an op cannot add to its output, an accumulate
// op is inserted after it.
void keep_gradients(Graph& graph) {
  const ValueId flag = graph.input("accumulate");
  std::vector<ValueId> replacement(graph.values().size(), kNoValue);
  std::vector<Op> ops;
  const size_t num_values = graph.values().size();
  std::vector<Op> old_ops = graph.ops();
  std::vector<bool> is_read(num_values, false);
  for (const Op& op : old_ops) {
    for (const ValueId id : op.inputs) {
      if (id != kNoValue) is_read[index_of(id)] = true;
    }
  }
  for (Op& op : old_ops) {
    for (ValueId& id : op.inputs) {
      if (id != kNoValue && index_of(id) < num_values && replacement[index_of(id)] != kNoValue) {
        id = replacement[index_of(id)];
      }
    }
    std::vector<Op> after;
    const bool adds = may_add(graph, op, is_read);
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      const ValueId gradient = op.outputs[i];
      if (!graph.value(gradient).is_parameter_gradient) continue;
      const ValueType type = graph.value(gradient).type;
      const ValueId buffer =
          graph.add_value("gradient/" + graph.value(gradient).name, type, Storage::kGradient);
      const int into = adds ? schema_of(op).into_input({graph, op}, static_cast<int>(i)) : -1;
      if (into >= 0) {
        op.inputs[static_cast<size_t>(into)] = buffer;
        op.inputs[static_cast<size_t>(schema_of(op).accumulate_flag_input())] = flag;
        graph.value(gradient).version_of = buffer;
        graph.value(gradient).storage = Storage::kGradient;
        continue;
      }
      graph.value(gradient).is_parameter_gradient = false;
      const ValueId sum =
          graph.add_value(graph.unique_name(graph.value(gradient).name), type, Storage::kGradient);
      graph.value(sum).version_of = buffer;
      graph.value(sum).is_parameter_gradient = true;
      replacement[index_of(gradient)] = sum;
      after.push_back({.def = &accumulate_op(),
                       .inputs = {buffer, flag, gradient},
                       .outputs = {sum},
                       .attributes = {},
                       .segment = Segment::kBackward,
                       .module = op.module});
    }
    ops.push_back(std::move(op));
    for (Op& sum : after) ops.push_back(std::move(sum));
  }
  graph.replace_ops(std::move(ops));
}

}  // namespace

Pass accumulate_pass() {
  return {.name = "accumulate",
          .numerics = Numerics::kPreserving,
          .help = "keeps gradients across micro-batches; the ops that compute gradients add to them",
          .needed_for = "--gradient_accumulation_steps above 1",
          .run = keep_gradients};
}

}  // namespace plimsoll
