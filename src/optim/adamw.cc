#include "graph/ops/ops.h"
#include "optim/optimizer.h"

namespace plimsoll {
namespace {

// Sites of dropout are small numbers.
constexpr int64_t kFirstNoiseSite = int64_t{1} << 30;

}  // namespace

// Two states per parameter in its shape, fp32 (fp64 in an f64 graph): first and second moment.
void add_adamw(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
               double weight_decay, ValueId clip, ValueId finite) {
  std::vector<ValueId> inputs{graph.input("learning_rate"), graph.input("step"), clip, finite};
  std::vector<std::string> names;
  for (const Parameter& parameter : group) {
    const Value weight = graph.value(parameter.weight);
    const DType dtype = weight.type.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    inputs.push_back(parameter.weight);
    inputs.push_back(parameter.gradient);
    for (const char* state : {"adamw.m/", "adamw.v/"}) {
      inputs.push_back(
          graph.add_value(state + parameter.name, {dtype, weight.type.shape}, Storage::kOptimizerState));
    }
    names.push_back(weight.name + ".updated");
    names.push_back("adamw.m.updated/" + parameter.name);
    names.push_back("adamw.v.updated/" + parameter.name);
    for (const ValueId other : {parameter.copy, parameter.remainder}) {
      if (other == kNoValue) continue;
      inputs.push_back(other);
      names.push_back(graph.value(other).name + ".updated");
    }
  }
  Attributes attributes{{"beta1", config.beta1},
                        {"beta2", config.beta2},
                        {"epsilon", config.epsilon},
                        {"weight_decay", weight_decay},
                        {"copies", int64_t{group.front().copy != kNoValue}},
                        {"split", int64_t{group.front().remainder != kNoValue}}};
  // Weights in bf16 that nothing makes whole: an update smaller than their spacing is kept on average.
  if (group.front().remainder == kNoValue && graph.value(group.front().weight).type.dtype == DType::kBF16) {
    attributes.set("noise_seed", static_cast<int64_t>(config.noise_seed));
    attributes.set("noise_site", kFirstNoiseSite + group.front().index);
  }
  emit_all(graph, adamw_op(), std::move(inputs), std::move(attributes), names);
}

}  // namespace plimsoll
