#include <utility>

#include "graph/ops/ops.h"
#include "optim/emit_update.h"
#include "optim/optimizer.h"

namespace plimsoll {

// Two states per parameter in its shape, first and second moment: fp32 or bf16, fp64 in an f64 graph.
void add_adamw(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
               double weight_decay, ValueId clip, ValueId finite) {
  const auto states = [&config](const Parameter&, const ValueType& weight) -> std::vector<UpdateState> {
    const DType whole = whole_state_dtype(weight);
    const auto type = [&](DType dtype) {
      return ValueType{whole == DType::kF32 ? dtype : whole, weight.shape};
    };
    return {{"adamw.m", type(config.momentum_dtype)}, {"adamw.v", type(config.variance_dtype)}};
  };
  Attributes attributes{{"beta1", config.beta1},
                        {"beta2", config.beta2},
                        {"epsilon", config.epsilon},
                        {"weight_decay", weight_decay},
                        {"split", int64_t{group.front().remainder != kNoValue}}};
  set_noise(graph, group, config, attributes,
            config.variance_dtype == DType::kBF16 ? RoundedStates::kYes : RoundedStates::kNo);
  emit_update(graph, adamw_op(), group, states, std::move(attributes), clip, finite);
}

}  // namespace plimsoll
