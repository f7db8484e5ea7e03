#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "graph/ops/ops.h"
#include "graph/ops/update.h"
#include "optim/emit_update.h"
#include "optim/optimizers.h"

namespace plimsoll {
namespace {

// Appends the op that updates matrices (if `factored` is set) or vectors. A matrix has one state number per row, and one per column for
// each tensor of the checkpoint that it contains. A vector has one state number per element. With beta1, matrices and vectors also have a
// momentum in the shape of the parameter. All states are fp32 (fp64 in an f64 graph).
void add_group(Graph& graph, const OptimizerRow& row, std::span<const Parameter> group,
               const OptimizerConfig& config, double weight_decay, ValueId clip, ValueId finite,
               bool factored) {
  const auto states = [&](const Parameter& parameter, const ValueType& weight) {
    const DType dtype = whole_state_dtype(weight);
    std::vector<UpdateState> of;
    if (factored) {
      of.push_back({"adafactor.row", {dtype, Shape{weight.shape[0]}}});
      of.push_back(
          {"adafactor.column", {dtype, Shape{std::ssize(part_rows(graph, parameter)), weight.shape[1]}}});
    } else {
      of.push_back({"adafactor.v", {dtype, weight.shape}});
    }
    if (config.adafactor.beta1) of.push_back({"adafactor.m", {dtype, weight.shape}});
    return of;
  };
  Attributes attributes = optimizer_settings(row.kind).constants(config);
  attributes.set("weight_decay", weight_decay);
  attributes.set("factored", int64_t{factored});
  attributes.set(kPartRows, format_part_rows(graph, group));
  set_noise(graph, group, config, attributes);
  emit_update(graph, update_op(row.kind), group, states, std::move(attributes), clip, finite);
}

bool is_factored(const Graph& graph, const Parameter& parameter) {
  return graph.value(parameter.weight).type.shape.rank() == 2;
}

std::vector<std::string> adafactor_state_names(const OptimizerRow&, const OptimizerConfig& config) {
  std::vector<std::string> names{"adafactor.row", "adafactor.column", "adafactor.v"};
  if (config.adafactor.beta1) names.emplace_back("adafactor.m");
  return names;
}

int64_t adafactor_state_bytes(const OptimizerRow&, const OptimizerConfig&) {
  return 0;
}

TakenSites adafactor_sites(const Graph& graph, const Parameter& parameter) {
  return {is_factored(graph, parameter) ? NoiseSites::kFirst : NoiseSites::kSecond,
          std::ssize(part_rows(graph, parameter))};
}

void add_adafactor_update(Graph& graph, const OptimizerRow& row, std::span<const Parameter> group,
                          const OptimizerConfig& config, double weight_decay, ValueId clip, ValueId finite) {
  for (const bool factored : {true, false}) {
    std::vector<Parameter> part;
    for (const Parameter& parameter : group) {
      const Value& weight = graph.value(parameter.weight);
      PLIMSOLL_CHECK(
          weight.type.shape.rank() <= 2,
          "Adafactor cannot update '{}': a weight must have at most 2 dimensions, but this one has {}",
          weight.name, weight.type.shape.rank());
      if (is_factored(graph, parameter) == factored) part.push_back(parameter);
    }
    if (!part.empty()) add_group(graph, row, part, config, weight_decay, clip, finite, factored);
  }
}

}  // namespace

const UpdateBuilder kAdafactorUpdates{add_adafactor_update, adafactor_state_names, adafactor_state_bytes,
                                      adafactor_sites};

double learning_rate_of_step(const OptimizerConfig& config, double scheduled, int64_t step) {
  if (config.kind != OptimizerKind::kAdafactor || !config.adafactor.relative_step) return scheduled;
  const auto t = static_cast<double>(step);
  return std::min(config.adafactor.warmup_init ? 1e-6 * t : 1e-2, 1.0 / std::sqrt(t));
}

}  // namespace plimsoll
