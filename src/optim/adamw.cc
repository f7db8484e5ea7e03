#include <utility>

#include "graph/ops/ops.h"
#include "optim/emit_update.h"
#include "optim/optimizer.h"

namespace plimsoll {
namespace {

// Sites of dropout are small numbers.
constexpr int64_t kFirstNoiseSite = int64_t{1} << 30;

}  // namespace

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
  // Weights in bf16 that nothing makes whole, and variances in bf16: a change smaller than their spacing is
  // kept on average.
  const bool weight_is_bf16 =
      group.front().remainder == kNoValue && graph.value(group.front().weight).type.dtype == DType::kBF16;
  if (weight_is_bf16 || config.variance_dtype == DType::kBF16) {
    attributes.set("noise_seed", static_cast<int64_t>(config.noise_seed));
    attributes.set("noise_site", kFirstNoiseSite + group.front().index);
  }
  emit_update(graph, adamw_op(), group, states, std::move(attributes), clip, finite);
}

}  // namespace plimsoll
