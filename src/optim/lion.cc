#include "graph/ops/ops.h"
#include "optim/optimizer.h"

namespace plimsoll {

// One state per parameter in its shape, fp32 (fp64 in an f64 graph): the momentum.
void add_lion(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
              double weight_decay, ValueId clip, ValueId finite) {
  std::vector<ValueId> inputs{graph.input("learning_rate"), graph.input("step"), clip, finite};
  std::vector<std::string> names;
  for (const Parameter& parameter : group) {
    const Value weight = graph.value(parameter.weight);
    const DType dtype = weight.type.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    inputs.push_back(parameter.weight);
    inputs.push_back(parameter.gradient);
    inputs.push_back(
        graph.add_value("lion.m/" + weight.name, {dtype, weight.type.shape}, Storage::kOptimizerState));
    names.push_back(weight.name + ".updated");
    names.push_back("lion.m.updated/" + weight.name);
    if (parameter.copy != kNoValue) {
      inputs.push_back(parameter.copy);
      names.push_back(graph.value(parameter.copy).name + ".updated");
    }
  }
  emit_all(graph, lion_op(), std::move(inputs),
           {{"beta1", config.beta1},
            {"beta2", config.beta2},
            {"weight_decay", weight_decay},
            {"copies", int64_t{group.front().copy != kNoValue}}},
           names);
}

}  // namespace plimsoll
