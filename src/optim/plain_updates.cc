// The updates of the optimizers with states in floating point, in the shape of the parameter (AdamW, SGD, Lion, Adagrad).
// States are fp32, or fp64 in an f64 graph; the two moments of AdamW are fp32 or bf16 each.
#include <array>
#include <utility>

#include "graph/ops/ops.h"
#include "optim/emit_update.h"
#include "optim/optimizers.h"

namespace plimsoll {
namespace {

std::vector<std::string> plain_state_names(const OptimizerRow& row, const OptimizerConfig& config) {
  std::vector<std::string> names;
  if (row.has_optional_momentum && config.momentum == 0.0) return names;
  for (const std::string_view state : row.states) names.push_back(fmt::format("{}.{}", row.name, state));
  return names;
}

// Returns the types of the states in all graphs except fp64 ones. Only AdamW has options for these types.
std::array<DType, 2> state_dtypes(const OptimizerConfig& config) {
  return {config.momentum_dtype, config.variance_dtype};
}

int64_t plain_state_bytes(const OptimizerRow& row, const OptimizerConfig& config) {
  int64_t bytes = 0;
  for (size_t i = 0; i < plain_state_names(row, config).size(); ++i)
    bytes += dtype_bytes(state_dtypes(config)[i]);
  return bytes;
}

void add_plain_update(Graph& graph, const OptimizerRow& row, std::span<const Parameter> group,
                      const OptimizerConfig& config, double weight_decay, ValueId clip, ValueId finite) {
  const std::vector<std::string> names = plain_state_names(row, config);
  const auto states = [&](const Parameter&, const ValueType& weight) {
    const DType whole = whole_state_dtype(weight);
    std::vector<UpdateState> of;
    for (size_t i = 0; i < names.size(); ++i) {
      of.push_back({names[i], {whole == DType::kF32 ? state_dtypes(config)[i] : whole, weight.shape}});
    }
    return of;
  };
  Attributes attributes = optimizer_settings(row.kind).constants(config);
  attributes.set("weight_decay", weight_decay);
  if (row.takes_split_weights) attributes.set("split", int64_t{group.front().remainder != kNoValue});
  const bool rounds_variance = names.size() > 1 && config.variance_dtype == DType::kBF16;
  set_noise(graph, group, config, attributes, rounds_variance ? RoundedStates::kYes : RoundedStates::kNo);
  emit_update(graph, update_op(row.kind), group, states, std::move(attributes), clip, finite);
}

TakenSites one_site(const Graph&, const Parameter&) {
  return {};
}

}  // namespace

const UpdateBuilder kPlainUpdates{add_plain_update, plain_state_names, plain_state_bytes, one_site};

}  // namespace plimsoll
