#include <utility>

#include "graph/ops/ops.h"
#include "optim/emit_update.h"
#include "optim/optimizer.h"

namespace plimsoll {

// One state per parameter in its shape, fp32 (fp64 in an f64 graph): the sum of squared gradients.
void add_adagrad(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
                 double weight_decay, ValueId clip, ValueId finite) {
  const auto states = [](const Parameter&, const ValueType& weight) -> std::vector<UpdateState> {
    return {{"adagrad.sum", {whole_state_dtype(weight), weight.shape}}};
  };
  Attributes attributes{{"lr_decay", config.adagrad.lr_decay},
                        {"epsilon", config.adagrad.epsilon},
                        {"weight_decay", weight_decay}};
  set_noise(graph, group, config, attributes);
  emit_update(graph, adagrad_op(), group, states, std::move(attributes), clip, finite);
}

}  // namespace plimsoll
