#include <utility>

#include "graph/ops/ops.h"
#include "optim/emit_update.h"
#include "optim/optimizer.h"

namespace plimsoll {
namespace {

// Sites of dropout are small numbers.
constexpr int64_t kFirstNoiseSite = int64_t{1} << 30;

}  // namespace

// Two states per parameter in its shape, fp32 (fp64 in an f64 graph): first and second moment.
void add_adamw(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
               double weight_decay, ValueId clip, ValueId finite) {
  const auto states = [](const Parameter&, const ValueType& weight) -> std::vector<UpdateState> {
    const ValueType type{whole_state_dtype(weight), weight.shape};
    return {{"adamw.m", type}, {"adamw.v", type}};
  };
  Attributes attributes{{"beta1", config.beta1},
                        {"beta2", config.beta2},
                        {"epsilon", config.epsilon},
                        {"weight_decay", weight_decay},
                        {"split", int64_t{group.front().remainder != kNoValue}}};
  // Weights in bf16 that nothing makes whole: an update smaller than their spacing is kept on average.
  if (group.front().remainder == kNoValue && graph.value(group.front().weight).type.dtype == DType::kBF16) {
    attributes.set("noise_seed", static_cast<int64_t>(config.noise_seed));
    attributes.set("noise_site", kFirstNoiseSite + group.front().index);
  }
  emit_update(graph, adamw_op(), group, states, std::move(attributes), clip, finite);
}

}  // namespace plimsoll
