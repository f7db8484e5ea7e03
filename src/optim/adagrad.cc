#include "graph/ops/ops.h"
#include "optim/optimizer.h"

namespace plimsoll {

// One state per parameter in its shape, fp32 (fp64 in an f64 graph): the sum of squared gradients.
void add_adagrad(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
                 double weight_decay, ValueId clip, ValueId finite) {
  std::vector<ValueId> inputs{graph.input("learning_rate"), graph.input("step"), clip, finite};
  std::vector<std::string> names;
  for (const Parameter& parameter : group) {
    const Value weight = graph.value(parameter.weight);
    const DType dtype = weight.type.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    inputs.push_back(parameter.weight);
    inputs.push_back(parameter.gradient);
    inputs.push_back(
        graph.add_value("adagrad.sum/" + weight.name, {dtype, weight.type.shape}, Storage::kOptimizerState));
    names.push_back(weight.name + ".updated");
    names.push_back("adagrad.sum.updated/" + weight.name);
    if (parameter.copy != kNoValue) {
      inputs.push_back(parameter.copy);
      names.push_back(graph.value(parameter.copy).name + ".updated");
    }
  }
  emit_all(graph, adagrad_op(), std::move(inputs),
           {{"lr_decay", config.adagrad.lr_decay},
            {"epsilon", config.adagrad.epsilon},
            {"weight_decay", weight_decay},
            {"copies", int64_t{group.front().copy != kNoValue}}},
           names);
}

}  // namespace plimsoll
