#include <algorithm>
#include <cmath>

#include "graph/ops/ops.h"
#include "graph/ops/update_parts.h"
#include "optim/optimizer.h"

namespace plimsoll {
namespace {

// A matrix has a state per row and one per column of each tensor of the checkpoint, a vector one per element;
// with beta1 either has a momentum in its shape. All fp32 (fp64 in an f64 graph).
void add_group(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
               double weight_decay, ValueId clip, ValueId finite, bool factored) {
  std::vector<ValueId> inputs{graph.input("learning_rate"), graph.input("step"), clip, finite};
  std::vector<std::string> names;
  std::vector<std::vector<int64_t>> rows;
  const AdafactorOptions& options = config.adafactor;
  for (const Parameter& parameter : group) {
    const Value weight = graph.value(parameter.weight);
    const Shape& shape = weight.type.shape;
    const DType dtype = weight.type.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    rows.push_back(part_rows(graph, parameter));
    inputs.push_back(parameter.weight);
    inputs.push_back(parameter.gradient);
    names.push_back(weight.name + ".updated");
    const auto add_state = [&](const std::string& state, Shape state_shape) {
      inputs.push_back(
          graph.add_value(state + "/" + weight.name, {dtype, state_shape}, Storage::kOptimizerState));
      names.push_back(state + ".updated/" + weight.name);
    };
    if (factored) {
      add_state("adafactor.row", Shape{shape[0]});
      add_state("adafactor.column", Shape{std::ssize(rows.back()), shape[1]});
    } else {
      add_state("adafactor.v", shape);
    }
    if (options.beta1) add_state("adafactor.m", shape);
    if (parameter.copy != kNoValue) {
      inputs.push_back(parameter.copy);
      names.push_back(graph.value(parameter.copy).name + ".updated");
    }
  }
  emit_all(graph, adafactor_op(), std::move(inputs),
           {{"epsilon1", options.epsilon1},
            {"epsilon2", options.epsilon2},
            {"clip_threshold", options.clip_threshold},
            {"decay_rate", options.decay_rate},
            {"beta1", options.beta1.value_or(-1.0)},
            {"weight_decay", weight_decay},
            {"scale_parameter", int64_t{options.scale_parameter}},
            {"factored", int64_t{factored}},
            {kPartRows, part_rows_text(rows)},
            {"copies", int64_t{group.front().copy != kNoValue}}},
           names);
}

}  // namespace

void add_adafactor(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
                   double weight_decay, ValueId clip, ValueId finite) {
  for (const bool factored : {true, false}) {
    std::vector<Parameter> part;
    for (const Parameter& parameter : group) {
      const Value& weight = graph.value(parameter.weight);
      PLIMSOLL_CHECK(weight.type.shape.rank() <= 2, "Adafactor of '{}' in {} dimensions", weight.name,
                     weight.type.shape.rank());
      if ((weight.type.shape.rank() == 2) == factored) part.push_back(parameter);
    }
    if (!part.empty()) add_group(graph, part, config, weight_decay, clip, finite, factored);
  }
}

double learning_rate_of_step(const OptimizerConfig& config, double scheduled, int64_t step) {
  if (config.kind != OptimizerKind::kAdafactor || !config.adafactor.relative_step) return scheduled;
  const auto t = static_cast<double>(step);
  return std::min(config.adafactor.warmup_init ? 1e-6 * t : 1e-2, 1.0 / std::sqrt(t));
}

}  // namespace plimsoll
