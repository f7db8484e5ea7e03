#include "graph/ops/ops.h"
#include "optim/optimizer.h"

namespace plimsoll {

// One state per parameter where there is momentum, none otherwise (Trainer's default is momentum 0).
void add_sgd(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
             double weight_decay, ValueId clip, ValueId finite) {
  std::vector<ValueId> inputs{graph.input("learning_rate"), graph.input("step"), clip, finite};
  std::vector<std::string> names;
  for (const Parameter& parameter : group) {
    const Value weight = graph.value(parameter.weight);
    inputs.push_back(parameter.weight);
    inputs.push_back(parameter.gradient);
    names.push_back(weight.name + ".updated");
    if (config.momentum > 0.0) {
      inputs.push_back(graph.add_value("sgd.momentum/" + weight.name, weight.type, Storage::kOptimizerState));
      names.push_back("sgd.momentum.updated/" + weight.name);
    }
    if (parameter.copy != kNoValue) {
      inputs.push_back(parameter.copy);
      names.push_back(graph.value(parameter.copy).name + ".updated");
    }
  }
  emit_all(graph, sgd_op(), std::move(inputs),
           {{"momentum", config.momentum},
            {"nesterov", int64_t{config.nesterov}},
            {"weight_decay", weight_decay},
            {"copies", int64_t{group.front().copy != kNoValue}}},
           names);
}

}  // namespace plimsoll
