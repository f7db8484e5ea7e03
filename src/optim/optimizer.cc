#include "optim/optimizer.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

struct Row {
  OptimizerKind kind;
  std::string_view name;
  void (*add)(Graph&, std::span<const Parameter>, const OptimizerConfig&, double, ValueId, ValueId);
  std::vector<std::string> (*states)(const OptimizerConfig&);
  TakenSites (*sites)(const Graph&, const Parameter&);
};

// Parameters that are kept in the same way are updated together.
enum class Storing : uint8_t { kWhole, kWithCopy, kSplit };
Storing storing_of(const Parameter& parameter) {
  if (parameter.remainder != kNoValue) return Storing::kSplit;
  return parameter.copy != kNoValue ? Storing::kWithCopy : Storing::kWhole;
}

std::vector<std::string> adamw_states(const OptimizerConfig&) {
  return {"adamw.m", "adamw.v"};
}
std::vector<std::string> sgd_states(const OptimizerConfig& config) {
  return config.momentum > 0.0 ? std::vector<std::string>{"sgd.momentum"} : std::vector<std::string>{};
}
std::vector<std::string> lion_states(const OptimizerConfig&) {
  return {"lion.m"};
}
std::vector<std::string> adagrad_states(const OptimizerConfig&) {
  return {"adagrad.sum"};
}

std::vector<std::string> adafactor_states(const OptimizerConfig& config) {
  std::vector<std::string> names{"adafactor.row", "adafactor.column", "adafactor.v"};
  if (config.adafactor.beta1) names.emplace_back("adafactor.m");
  return names;
}
std::vector<std::string> adamw_8bit_states(const OptimizerConfig&) {
  return {"adamw_8bit.m", "adamw_8bit.m.absmax", "adamw_8bit.v", "adamw_8bit.v.absmax", "adamw.m", "adamw.v"};
}
std::vector<std::string> lion_8bit_states(const OptimizerConfig&) {
  return {"lion_8bit.m", "lion_8bit.m.absmax", "lion.m"};
}

std::vector<std::string> sgd_8bit_states(const OptimizerConfig&) {
  return {"sgd_8bit.momentum", "sgd_8bit.momentum.absmax", "sgd.momentum"};
}
std::vector<std::string> adagrad_8bit_states(const OptimizerConfig&) {
  return {"adagrad_8bit.sum", "adagrad_8bit.sum.absmax", "adagrad.sum"};
}

TakenSites one_site(const Graph&, const Parameter&) {
  return {};
}

constexpr Row kRows[] = {
    {OptimizerKind::kAdamW, "adamw", add_adamw, adamw_states, one_site},
    {OptimizerKind::kSgd, "sgd", add_sgd, sgd_states, one_site},
    {OptimizerKind::kLion, "lion", add_lion, lion_states, one_site},
    {OptimizerKind::kAdagrad, "adagrad", add_adagrad, adagrad_states, one_site},
    {OptimizerKind::kAdafactor, "adafactor", add_adafactor, adafactor_states, adafactor_sites},
    {OptimizerKind::kAdamW8Bit, "adamw_8bit", add_adamw_8bit, adamw_8bit_states, eight_bit_sites},
    {OptimizerKind::kLion8Bit, "lion_8bit", add_lion_8bit, lion_8bit_states, eight_bit_sites},
    {OptimizerKind::kSgd8Bit, "sgd_8bit", add_sgd_8bit, sgd_8bit_states, eight_bit_sites},
    {OptimizerKind::kAdagrad8Bit, "adagrad_8bit", add_adagrad_8bit, adagrad_8bit_states, eight_bit_sites}};

const Row& row_of(OptimizerKind kind) {
  const auto row =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.kind == kind; });
  PLIMSOLL_CHECK(row != std::end(kRows), "optimizer {} has no row", static_cast<int>(kind));
  return *row;
}

// The end of the parameters from `first` on that one op updates.
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

// How many sites of either kind are taken.
using SitesTaken = std::array<int64_t, 2>;

// One op for each group of parameters that are updated alike, or several, with sites from `taken` on.
void add_updates(Graph& graph, std::span<const Parameter> parameters, const OptimizerConfig& config,
                 ValueId clip, ValueId finite, SitesTaken& taken) {
  const Row& row = row_of(config.kind);
  for (const bool decays : {true, false}) {
    for (const Storing storing : {Storing::kSplit, Storing::kWithCopy, Storing::kWhole}) {
      std::vector<Parameter> group;
      for (Parameter parameter : parameters) {
        if (parameter.decays != decays || storing_of(parameter) != storing) continue;
        if (parameter.name.empty()) parameter.name = graph.value(parameter.weight).name;
        const TakenSites its = row.sites(graph, parameter);
        int64_t& next_site = taken[static_cast<size_t>(its.sites)];
        parameter.sites = its.sites;
        parameter.first_site = next_site;
        next_site += its.count;
        group.push_back(std::move(parameter));
      }
      for (size_t first = 0; first < group.size();) {
        const size_t end = end_of_op(graph, group, first, config.most_elements_at_once);
        row.add(graph, std::span(group).subspan(first, end - first), config,
                decays ? config.weight_decay : 0.0, clip, finite);
        first = end;
      }
    }
  }
}

void declare_scalars(Graph& graph) {
  graph.add_value("learning_rate", {DType::kF64, Shape{1}}, Storage::kInput);
  graph.add_value("step", {DType::kI64, Shape{1}}, Storage::kInput);
}

// A loss that is not finite keeps every update from happening, as a gradient does.
std::vector<ValueId> with_loss(const Graph& graph, std::vector<ValueId> gradients) {
  gradients.push_back(graph.find("loss"));
  return gradients;
}

// "grad_norm", "finite" and "first_bad" of these gradients, for the host to read.
std::vector<ValueId> add_norm(Graph& graph, std::vector<ValueId> gradients,
                              const LossScale& loss_scale = {}) {
  const std::string names[] = {loss_scale ? "scaled_grad_norm" : "grad_norm", "finite", "first_bad"};
  std::vector<ValueId> norm = emit_all(graph, global_norm_op(), with_loss(graph, std::move(gradients)),
                                       {{"with_loss", int64_t{1}}, {"names_bad", int64_t{1}}}, names);
  graph.value(norm[1]).storage = graph.value(norm[2]).storage = Storage::kOutput;
  // What the host reads is the norm of unscaled gradients.
  if (!loss_scale) graph.value(norm[0]).storage = Storage::kOutput;
  return norm;
}

}  // namespace

OptimizerOutputs add_optimizer(Graph& graph, std::span<const Parameter> parameters,
                               const OptimizerConfig& config, const LossScale& loss_scale) {
  graph.set_segment(Segment::kOptimizer);
  graph.set_module("optimizer");
  declare_scalars(graph);
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
  PLIMSOLL_CHECK(config.max_grad_norm == 0.0, "clipping to {} by a norm that is not known yet",
                 config.max_grad_norm);
  graph.set_segment(Segment::kBackward);
  declare_scalars(graph);
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
                               {{"with_loss", int64_t{1}}}, names);
    add_updates(graph, group, config, kNoValue, norm[1], taken);
    norms.push_back(norm[0]);
  }
  graph.set_segment(Segment::kOptimizer);
  graph.set_module("optimizer");
  const std::vector<ValueId> norm = add_norm(graph, std::move(norms));
  return {norm[0], norm[1]};
}

bool takes_split_weights(const OptimizerConfig& config) {
  return config.kind == OptimizerKind::kAdamW;
}

std::vector<int64_t> part_rows(const Graph& graph, const Parameter& parameter) {
  if (!parameter.part_rows.empty()) return parameter.part_rows;
  return {graph.value(parameter.weight).type.shape[0].offset};
}

std::string_view optimizer_kind_name(OptimizerKind kind) {
  return row_of(kind).name;
}

std::vector<std::string> optimizer_state_names(const OptimizerConfig& config) {
  return row_of(config.kind).states(config);
}

}  // namespace plimsoll
