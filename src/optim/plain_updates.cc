// The updates of AdamW, SGD, Lion and Adagrad with states in floating point: one state, or two for AdamW, in
// the shape of the parameter. States are fp32, or fp64 in an f64 graph, unless stated otherwise.
#include <utility>

#include "graph/ops/ops.h"
#include "optim/emit_update.h"
#include "optim/optimizer.h"

namespace plimsoll {

// The two moments of AdamW are fp32 or bf16 each.
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

// SGD has a state only with momentum; the default of Trainer is momentum 0.
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

void add_lion(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
              double weight_decay, ValueId clip, ValueId finite) {
  const auto states = [](const Parameter&, const ValueType& weight) -> std::vector<UpdateState> {
    return {{"lion.m", {whole_state_dtype(weight), weight.shape}}};
  };
  Attributes attributes{{"beta1", config.beta1}, {"beta2", config.beta2}, {"weight_decay", weight_decay}};
  set_noise(graph, group, config, attributes);
  emit_update(graph, lion_op(), group, states, std::move(attributes), clip, finite);
}

// The state of Adagrad is the sum of squared gradients.
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
