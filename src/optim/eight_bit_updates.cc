// The updates of the optimizers with states in 8 bits (AdamW, Lion, SGD, Adagrad). A state has one 8-bit code per element, and one fp32
// number per block of 256 elements of a tensor of the checkpoint. The states of embeddings and of tensors with fewer than 4096 elements
// stay in fp32, as in bitsandbytes and Trainer.
#include <algorithm>
#include <utility>

#include "graph/ops/ops.h"
#include "graph/ops/update.h"
#include "optim/emit_update.h"
#include "optim/optimizers.h"

namespace plimsoll {
namespace {

constexpr int64_t kBlock = 256;
constexpr int64_t kLeastElements = 4096;

std::vector<int64_t> part_elements(const Graph& graph, const Parameter& parameter) {
  const Shape& shape = graph.value(parameter.weight).type.shape;
  std::vector<int64_t> elements = part_rows(graph, parameter);
  for (int64_t& part : elements) part *= elements_per_row(shape);
  return elements;
}

// Returns true if the states of a parameter are stored in 8 bits. If a fused weight consists of several tensors, all of them must have at
// least kLeastElements elements.
bool is_eight_bit(const Graph& graph, const Parameter& parameter) {
  const std::vector<int64_t> elements = part_elements(graph, parameter);
  return !parameter.is_embedding && *std::min_element(elements.begin(), elements.end()) >= kLeastElements;
}

struct Split {
  std::vector<Parameter> eight_bit, fp32;
};
Split split(const Graph& graph, std::span<const Parameter> group) {
  Split parts;
  for (const Parameter& parameter : group) {
    (is_eight_bit(graph, parameter) ? parts.eight_bit : parts.fp32).push_back(parameter);
  }
  return parts;
}

// Returns the names of the states that are stored as 8-bit codes, such as "adamw_8bit.m".
std::vector<std::string> code_names(const OptimizerRow& row) {
  std::vector<std::string> names;
  for (const std::string_view state : row.states) names.push_back(fmt::format("{}.{}", row.name, state));
  return names;
}
std::string absmax_name(const std::string& state) {
  return state + ".absmax";
}

// Returns the names of all kinds of states: those in 8 bits, and those in fp32, which small tensors and embeddings have.
std::vector<std::string> eight_bit_state_names(const OptimizerRow& row, const OptimizerConfig& config) {
  std::vector<std::string> names;
  for (const std::string& state : code_names(row)) {
    names.push_back(state);
    names.push_back(absmax_name(state));
  }
  for (std::string& state : kPlainUpdates.states(optimizer_row(row.family), config)) {
    names.push_back(std::move(state));
  }
  return names;
}

int64_t eight_bit_state_bytes(const OptimizerRow& row, const OptimizerConfig&) {
  return std::ssize(row.states);
}

// Appends the update of parameters with states in 8 bits. Each state consists of two values: the codes, and the largest magnitude (absmax)
// of each quantization block.
void add_part_in_eight_bits(Graph& graph, const OptimizerRow& row, std::span<const Parameter> group,
                            const OptimizerConfig& config, double weight_decay, ValueId clip,
                            ValueId finite) {
  const auto states = [&](const Parameter& parameter, const ValueType& weight) {
    int64_t blocks = 0;
    for (const int64_t elements : part_elements(graph, parameter)) blocks += (elements + kBlock - 1) / kBlock;
    std::vector<UpdateState> of;
    for (const std::string& state : code_names(row)) {
      of.push_back({state, {DType::kU8, weight.shape}});
      of.push_back({absmax_name(state), {whole_state_dtype(weight), Shape{blocks}}});
    }
    return of;
  };
  Attributes attributes = optimizer_settings(row.kind).constants(config);
  attributes.set("weight_decay", weight_decay);
  attributes.set(kPartRows, format_part_rows(graph, group));
  set_noise(graph, group, config, attributes);
  emit_update(graph, update_op(row.kind), group, states, std::move(attributes), clip, finite);
}

void add_eight_bit_update(Graph& graph, const OptimizerRow& row, std::span<const Parameter> group,
                          const OptimizerConfig& config, double weight_decay, ValueId clip, ValueId finite) {
  PLIMSOLL_CHECK(!row.needs_momentum() || config.momentum > 0.0, "{} needs a momentum above 0, but it is {}",
                 row.label, config.momentum);
  const Split parts = split(graph, group);
  if (!parts.fp32.empty()) {
    kPlainUpdates.add(graph, optimizer_row(row.family), parts.fp32, config, weight_decay, clip, finite);
  }
  if (!parts.eight_bit.empty()) {
    add_part_in_eight_bits(graph, row, parts.eight_bit, config, weight_decay, clip, finite);
  }
}

TakenSites eight_bit_sites(const Graph& graph, const Parameter& parameter) {
  if (!is_eight_bit(graph, parameter)) return {};
  return {NoiseSites::kSecond, std::ssize(part_rows(graph, parameter))};
}

}  // namespace

const UpdateBuilder kEightBitUpdates{add_eight_bit_update, eight_bit_state_names, eight_bit_state_bytes,
                                     eight_bit_sites};

}  // namespace plimsoll
