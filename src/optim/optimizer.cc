#include "optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "graph/ops/ops.h"
#include "optim/emit_update.h"
#include "optim/optimizers.h"

namespace plimsoll {
namespace {

// How a parameter is stored: whole, with a 16-bit copy, or split into two halves. The parameters that one op updates are stored alike.
enum class WeightFormat : uint8_t { kWhole, kWithCopy, kSplit };
WeightFormat format_of(const Parameter& parameter) {
  if (parameter.remainder != kNoValue) return WeightFormat::kSplit;
  return parameter.copy != kNoValue ? WeightFormat::kWithCopy : WeightFormat::kWhole;
}

// Returns the index after the last parameter of the op whose first parameter has the index `first` in `group`. One op updates consecutive
// parameters that together have at most `most_elements` elements, or a single larger parameter; 0 means no limit.
size_t end_of_op(const Graph& graph, std::span<const Parameter> group, size_t first, int64_t most_elements) {
  if (most_elements == 0) return group.size();
  int64_t elements = 0;
  size_t end = first;
  for (; end < group.size(); ++end) {
    elements += graph.value(group[end].weight).type.shape.elements({});
    if (end > first && elements > most_elements) break;
  }
  return end;
}

// The number of random sites (numbered random sequences) that updates already use for the noise of rounding, for each kind in NoiseSites.
using SitesTaken = std::array<int64_t, 2>;

// Returns the distinct factors on the learning rate, in increasing order.
std::set<double> rate_factors(std::span<const Parameter> parameters) {
  std::set<double> factors;
  for (const Parameter& parameter : parameters) factors.insert(parameter.rate_factor);
  return factors;
}

// Groups the parameters by weight decay, storage and learning rate, and appends one or more ops for each group. `taken` is the number of
// random sites (numbered random sequences) that already provide noise for rounding; the function adds those that it uses.
void add_updates(Graph& graph, std::span<const Parameter> parameters, const OptimizerConfig& config,
                 ValueId clip, ValueId finite, SitesTaken& taken) {
  const OptimizerRow& row = optimizer_row(config.kind);
  const UpdateBuilder& builder = update_builder(row.frame);
  const std::set<double> factors = rate_factors(parameters);
  for (const bool decays : {true, false}) {
    for (const WeightFormat format : {WeightFormat::kSplit, WeightFormat::kWithCopy, WeightFormat::kWhole}) {
      for (const double factor : factors) {
        std::vector<Parameter> group;
        for (const Parameter& each : parameters) {
          const bool is_of_group =
              each.decays == decays && format_of(each) == format && each.rate_factor == factor;
          if (!is_of_group) continue;
          Parameter& parameter = group.emplace_back(each);
          if (parameter.name.empty()) parameter.name = graph.value(parameter.weight).name;
          const TakenSites its = builder.sites(graph, parameter);
          int64_t& next_site = taken[static_cast<size_t>(its.sites)];
          parameter.sites = its.sites;
          parameter.first_site = next_site;
          next_site += its.count;
        }
        for (size_t first = 0; first < group.size();) {
          const size_t end = end_of_op(graph, group, first, config.most_elements_at_once);
          builder.add(graph, row, std::span(group).subspan(first, end - first), config,
                      decays ? config.weight_decay : 0.0, clip, finite);
          first = end;
        }
      }
    }
  }
}

// Declares the inputs of all updates: one learning rate for each factor, and the number of the update.
void declare_scalars(Graph& graph, std::span<const Parameter> parameters) {
  for (const double factor : rate_factors(parameters)) {
    graph.add_input(learning_rate_input(factor), {DType::kF64, Shape{1}},
                    {.source = InputSource::kLearningRate, .factor = factor});
  }
  graph.add_input("step", {DType::kI64, Shape{1}}, {.source = InputSource::kUpdateNumber});
}

// Adds the loss to the inputs of the op that computes the norm of gradients and checks that its inputs are finite: if the loss or a
// gradient is not, no parameter is updated. In a pipeline, only the last stage has a loss.
std::vector<ValueId> with_loss(const Graph& graph, std::vector<ValueId> gradients) {
  if (const ValueId loss = graph.newest(graph.find("loss")); loss != kNoValue) gradients.push_back(loss);
  return gradients;
}
Attributes norm_attributes(const Graph& graph) {
  Attributes attributes;
  if (graph.find("loss") != kNoValue) attributes.set("with_loss", int64_t{1});
  return attributes;
}

// Appends the op that computes the outputs "grad_norm", "finite" and "first_bad", which the host reads, from the gradients.
std::vector<ValueId> add_norm(Graph& graph, std::vector<ValueId> gradients,
                              const LossScale& loss_scale = {}) {
  const std::string names[] = {loss_scale ? "scaled_grad_norm" : "grad_norm", "finite", "first_bad"};
  Attributes attributes = norm_attributes(graph);
  attributes.set("names_bad", int64_t{1});
  std::vector<ValueId> norm =
      emit_all(graph, global_norm_op(), with_loss(graph, std::move(gradients)), std::move(attributes), names);
  graph.value(norm[1]).storage = graph.value(norm[2]).storage = Storage::kOutput;
  // Without loss scaling, norm[0] is the output "grad_norm" that the host reads. With it, the op that adjusts the scale computes that
  // output, the norm of the unscaled gradients.
  if (!loss_scale) graph.value(norm[0]).storage = Storage::kOutput;
  return norm;
}

}  // namespace

OptimizerOutputs add_optimizer(Graph& graph, std::span<const Parameter> parameters,
                               const OptimizerConfig& config, const LossScale& loss_scale) {
  graph.set_segment(Segment::kOptimizer);
  graph.set_module("optimizer");
  declare_scalars(graph, parameters);
  std::vector<ValueId> gradients;
  for (const Parameter& parameter : parameters) gradients.push_back(parameter.gradient);
  const std::vector<ValueId> norm = add_norm(graph, std::move(gradients), loss_scale);
  std::vector<ValueId> clipped{norm[0]};
  if (loss_scale) clipped.push_back(loss_scale.scale);
  const ValueId clip = config.max_grad_norm > 0.0 || loss_scale
                           ? emit(graph, clip_coefficient_op(), std::move(clipped),
                                  {{"max_norm", config.max_grad_norm}}, "clip_coefficient")
                           : kNoValue;
  if (loss_scale) add_loss_scale_adjustment(graph, loss_scale, norm[0], norm[1]);
  SitesTaken taken{};
  add_updates(graph, parameters, config, clip, norm[1], taken);
  return {graph.find("grad_norm"), norm[1]};
}

OptimizerOutputs add_optimizer_in_backward(Graph& graph, std::span<const Parameter> parameters,
                                           const OptimizerConfig& config) {
  PLIMSOLL_CHECK(config.max_grad_norm == 0.0,
                 "gradients cannot be clipped to {} if the backward pass updates the weights: the global "
                 "norm is only known after it",
                 config.max_grad_norm);
  graph.set_segment(Segment::kBackward);
  declare_scalars(graph, parameters);
  std::vector<std::pair<ModuleId, std::vector<Parameter>>> groups;
  for (const Parameter& parameter : parameters) {
    const ModuleId module = graph.op(graph.value(parameter.gradient).producer).module;
    const auto it =
        std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == module; });
    if (it != groups.end()) {
      it->second.push_back(parameter);
    } else {
      groups.push_back({module, {parameter}});
    }
  }
  std::vector<ValueId> norms;
  SitesTaken taken{};
  for (const auto& [module, group] : groups) {
    graph.set_current_module(module);
    std::vector<ValueId> gradients;
    for (const Parameter& parameter : group) gradients.push_back(parameter.gradient);
    const std::string names[] = {"grad_norm/" + graph.module_name(module),
                                 "finite/" + graph.module_name(module)};
    const auto norm = emit_all(graph, global_norm_op(), with_loss(graph, std::move(gradients)),
                               norm_attributes(graph), names);
    add_updates(graph, group, config, kNoValue, norm[1], taken);
    norms.push_back(norm[0]);
  }
  graph.set_segment(Segment::kOptimizer);
  graph.set_module("optimizer");
  const std::vector<ValueId> norm = add_norm(graph, std::move(norms));
  return {norm[0], norm[1]};
}

std::vector<int64_t> part_rows(const Graph& graph, const Parameter& parameter) {
  if (!parameter.part_rows.empty()) return parameter.part_rows;
  return {graph.value(parameter.weight).type.shape[0].offset};
}

const UpdateBuilder& update_builder(UpdateFrame frame) {
  switch (frame) {
    case UpdateFrame::kPlain:
      return kPlainUpdates;
    case UpdateFrame::kEightBit:
      return kEightBitUpdates;
    case UpdateFrame::kFactored:
      return kAdafactorUpdates;
  }
  PLIMSOLL_CHECK(false, "no UpdateBuilder exists for the UpdateFrame with the number {}",
                 static_cast<int>(frame));
}

int64_t least_state_bytes(const OptimizerConfig& config) {
  const OptimizerRow& row = optimizer_row(config.kind);
  return update_builder(row.frame).least_state_bytes(row, config);
}

std::vector<std::string> optimizer_state_names(const OptimizerConfig& config) {
  const OptimizerRow& row = optimizer_row(config.kind);
  return update_builder(row.frame).states(row, config);
}

std::string describe_optimizer(const OptimizerConfig& config) {
  const OptimizerRow& row = optimizer_row(config.kind);
  const bool has_momentum = row.needs_momentum() || (row.has_optional_momentum && config.momentum > 0.0);
  if (!has_momentum) return std::string(row.label);
  return fmt::format("{} with momentum {:g}", row.label, config.momentum);
}

}  // namespace plimsoll
