#include <utility>

#include "graph/ops/ops.h"
#include "optim/emit_update.h"
#include "optim/optimizer.h"

namespace plimsoll {

// One state per parameter in its shape, fp32 (fp64 in an f64 graph), where there is momentum, none otherwise
// (Trainer's default is momentum 0).
void add_sgd(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
             double weight_decay, ValueId clip, ValueId finite) {
  const auto states = [&](const Parameter&, const ValueType& weight) -> std::vector<UpdateState> {
    if (config.momentum > 0.0) return {{"sgd.momentum", {whole_state_dtype(weight), weight.shape}}};
    return {};
  };
  Attributes attributes{
      {"momentum", config.momentum}, {"nesterov", int64_t{config.nesterov}}, {"weight_decay", weight_decay}};
  set_noise(graph, group, config, attributes);
  emit_update(graph, sgd_op(), group, states, std::move(attributes), clip, finite);
}

}  // namespace plimsoll
