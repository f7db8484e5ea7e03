// The updates of AdamW, Lion, SGD and Adagrad with states in 8 bits: one code per element, and one fp32
// number per block of 256 elements of a tensor of the checkpoint. The states of embeddings and of tensors
// with fewer than 4096 elements stay in fp32, as in bitsandbytes and Trainer.
#include <algorithm>
#include <utility>

#include "graph/ops/ops.h"
#include "graph/ops/update.h"
#include "optim/emit_update.h"
#include "optim/optimizer.h"

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

// Returns true if the states are in 8 bits. If a weight consists of several tensors, the smallest decides for
// all.
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

// Appends the update of `group` with these states. Each state is a value of codes and one of absmax.
void add_update(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
                const OpSchema& op, std::span<const std::string> states, Attributes attributes, ValueId clip,
                ValueId finite) {
  const auto states_of = [&](const Parameter& parameter, const ValueType& weight) {
    int64_t blocks = 0;
    for (const int64_t elements : part_elements(graph, parameter)) blocks += (elements + kBlock - 1) / kBlock;
    std::vector<UpdateState> of;
    for (const std::string& state : states) {
      of.push_back({state, {DType::kU8, weight.shape}});
      of.push_back({state + ".absmax", {whole_state_dtype(weight), Shape{blocks}}});
    }
    return of;
  };
  attributes.set(kPartRows, format_part_rows(graph, group));
  set_noise(graph, group, config, attributes);
  emit_update(graph, op, group, states_of, std::move(attributes), clip, finite);
}

}  // namespace

TakenSites eight_bit_sites(const Graph& graph, const Parameter& parameter) {
  if (!is_eight_bit(graph, parameter)) return {};
  return {NoiseSites::kSecond, std::ssize(part_rows(graph, parameter))};
}

void add_adamw_8bit(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
                    double weight_decay, ValueId clip, ValueId finite) {
  const Split parts = split(graph, group);
  if (!parts.fp32.empty()) add_adamw(graph, parts.fp32, config, weight_decay, clip, finite);
  if (parts.eight_bit.empty()) return;
  const std::string states[] = {"adamw_8bit.m", "adamw_8bit.v"};
  add_update(graph, parts.eight_bit, config, adamw_8bit_op(), states,
             {{"beta1", config.beta1},
              {"beta2", config.beta2},
              {"epsilon", config.epsilon},
              {"weight_decay", weight_decay}},
             clip, finite);
}

void add_lion_8bit(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
                   double weight_decay, ValueId clip, ValueId finite) {
  const Split parts = split(graph, group);
  if (!parts.fp32.empty()) add_lion(graph, parts.fp32, config, weight_decay, clip, finite);
  if (parts.eight_bit.empty()) return;
  const std::string states[] = {"lion_8bit.m"};
  add_update(graph, parts.eight_bit, config, lion_8bit_op(), states,
             {{"beta1", config.beta1}, {"beta2", config.beta2}, {"weight_decay", weight_decay}}, clip,
             finite);
}

void add_sgd_8bit(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
                  double weight_decay, ValueId clip, ValueId finite) {
  PLIMSOLL_CHECK(config.momentum > 0.0, "8-bit SGD needs a momentum, this one is {}", config.momentum);
  const Split parts = split(graph, group);
  if (!parts.fp32.empty()) add_sgd(graph, parts.fp32, config, weight_decay, clip, finite);
  if (parts.eight_bit.empty()) return;
  const std::string states[] = {"sgd_8bit.momentum"};
  add_update(
      graph, parts.eight_bit, config, sgd_8bit_op(), states,
      {{"momentum", config.momentum}, {"nesterov", int64_t{config.nesterov}}, {"weight_decay", weight_decay}},
      clip, finite);
}

void add_adagrad_8bit(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
                      double weight_decay, ValueId clip, ValueId finite) {
  const Split parts = split(graph, group);
  if (!parts.fp32.empty()) add_adagrad(graph, parts.fp32, config, weight_decay, clip, finite);
  if (parts.eight_bit.empty()) return;
  const std::string states[] = {"adagrad_8bit.sum"};
  add_update(graph, parts.eight_bit, config, adagrad_8bit_op(), states,
             {{"lr_decay", config.adagrad.lr_decay},
              {"epsilon", config.adagrad.epsilon},
              {"weight_decay", weight_decay}},
             clip, finite);
}

}  // namespace plimsoll
