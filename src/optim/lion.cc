#include <utility>

#include "graph/ops/ops.h"
#include "optim/emit_update.h"
#include "optim/optimizer.h"

namespace plimsoll {

// One state per parameter in its shape, fp32 (fp64 in an f64 graph): the momentum.
void add_lion(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
              double weight_decay, ValueId clip, ValueId finite) {
  const auto states = [](const Parameter&, const ValueType& weight) -> std::vector<UpdateState> {
    return {{"lion.m", {whole_state_dtype(weight), weight.shape}}};
  };
  Attributes attributes{{"beta1", config.beta1}, {"beta2", config.beta2}, {"weight_decay", weight_decay}};
  set_noise(graph, group, config, attributes);
  emit_update(graph, lion_op(), group, states, std::move(attributes), clip, finite);
}

}  // namespace plimsoll
