#include "optim/emit_update.h"

#include <iterator>
#include <utility>

#include "graph/ops/ops.h"
#include "graph/ops/update.h"

namespace plimsoll {
namespace {

// Updates take the noise for rounding from the numbered random sequences (random sites) from these two numbers on, one for each value of
// NoiseSites. Dropout uses smaller numbers, so that no sequence is used twice.
constexpr int64_t kFirstSites = int64_t{1} << 30;
constexpr int64_t kSecondSites = kFirstSites + (int64_t{1} << 29);

}  // namespace

DType whole_state_dtype(const ValueType& weight) {
  return weight.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

std::string format_part_rows(const Graph& graph, std::span<const Parameter> group) {
  std::vector<std::vector<int64_t>> rows;
  for (const Parameter& parameter : group) rows.push_back(part_rows(graph, parameter));
  return format_part_rows(rows);
}

void set_noise(const Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
               Attributes& attributes, RoundedStates states) {
  const Parameter& first = group.front();
  const bool weight_is_bf16 =
      first.remainder == kNoValue && graph.value(first.weight).type.dtype == DType::kBF16;
  if (!weight_is_bf16 && states == RoundedStates::kNo) return;
  const int64_t start = first.sites == NoiseSites::kFirst ? kFirstSites : kSecondSites;
  attributes.set("noise_seed", static_cast<int64_t>(config.noise_seed));
  attributes.set("noise_site", start + first.first_site);
}

std::string learning_rate_input(double factor) {
  return factor == 1.0 ? "learning_rate" : fmt::format("learning_rate.{}", factor);
}

void emit_update(Graph& graph, const OpSchema& op, std::span<const Parameter> group,
                 const UpdateStatesOf& states_of, Attributes attributes, ValueId clip, ValueId finite) {
  ValueIds inputs{graph.input(learning_rate_input(group.front().rate_factor)), graph.input("step"), clip,
                  finite};
  std::vector<std::string> names;
  for (const Parameter& parameter : group) {
    inputs.push_back(parameter.weight);
    inputs.push_back(parameter.gradient);
    names.push_back(graph.value(parameter.weight).name + ".updated");
    const ValueType type = graph.value(parameter.weight).type;
    for (const UpdateState& state : states_of(parameter, type)) {
      inputs.push_back(
          graph.add_value(state.name + "/" + parameter.name, state.type, Storage::kOptimizerState));
      names.push_back(state.name + ".updated/" + parameter.name);
    }
    for (const ValueId other : {parameter.copy, parameter.remainder}) {
      if (other == kNoValue) continue;
      inputs.push_back(other);
      names.push_back(graph.value(other).name + ".updated");
    }
  }
  attributes.set("copies", int64_t{group.front().copy != kNoValue});
  emit_all(graph, op, std::move(inputs), std::move(attributes), names);
}

}  // namespace plimsoll
