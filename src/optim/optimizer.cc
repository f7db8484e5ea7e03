#include "optim/optimizer.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

struct Row {
  OptimizerKind kind;
  void (*add)(Graph&, std::span<const Parameter>, const OptimizerConfig&, double, ValueId, ValueId);
};
constexpr Row kRows[] = {{OptimizerKind::kAdamW, add_adamw}, {OptimizerKind::kSgd, add_sgd}};

// Parameters that are kept in the same way are updated together.
enum class Storing : uint8_t { kWhole, kWithCopy, kSplit };
Storing storing_of(const Parameter& parameter) {
  if (parameter.remainder != kNoValue) return Storing::kSplit;
  return parameter.copy != kNoValue ? Storing::kWithCopy : Storing::kWhole;
}

double parse_value(const std::string& key, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw_error(ErrorCode::kUsage, "--optim_args: '{}' is '{}', a number is expected", key, text);
  }
  return value;
}

// One op for each group of parameters that are updated alike, numbered on from `num_updated`.
void add_updates(Graph& graph, std::span<const Parameter> parameters, const OptimizerConfig& config,
                 ValueId clip, ValueId finite, int64_t& num_updated) {
  for (const Row& row : kRows) {
    if (row.kind != config.kind) continue;
    for (const bool decays : {true, false}) {
      for (const Storing storing : {Storing::kSplit, Storing::kWithCopy, Storing::kWhole}) {
        std::vector<Parameter> group;
        for (Parameter parameter : parameters) {
          if (parameter.decays != decays || storing_of(parameter) != storing) continue;
          if (parameter.name.empty()) parameter.name = graph.value(parameter.weight).name;
          parameter.index = num_updated++;
          group.push_back(std::move(parameter));
        }
        if (!group.empty()) row.add(graph, group, config, decays ? config.weight_decay : 0.0, clip, finite);
      }
    }
  }
}

void declare_scalars(Graph& graph) {
  graph.add_value("learning_rate", {DType::kF64, Shape{1}}, Storage::kInput);
  graph.add_value("step", {DType::kI64, Shape{1}}, Storage::kInput);
}

// "grad_norm" and "finite" of these gradients, for the host to read.
std::vector<ValueId> add_norm(Graph& graph, std::vector<ValueId> gradients,
                              const LossScale& loss_scale = {}) {
  const std::string names[] = {loss_scale ? "scaled_grad_norm" : "grad_norm", "finite"};
  std::vector<ValueId> norm = emit_all(graph, global_norm_op(), std::move(gradients), {}, names);
  graph.value(norm[1]).storage = Storage::kOutput;
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
  int64_t num_updated = 0;
  add_updates(graph, parameters, config, clip, norm[1], num_updated);
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
  int64_t num_updated = 0;
  for (const auto& [module, group] : groups) {
    graph.set_current_module(module);
    std::vector<ValueId> gradients;
    for (const Parameter& parameter : group) gradients.push_back(parameter.gradient);
    const std::string names[] = {"grad_norm/" + graph.module_name(module),
                                 "finite/" + graph.module_name(module)};
    const auto norm = emit_all(graph, global_norm_op(), std::move(gradients), {}, names);
    add_updates(graph, group, config, kNoValue, norm[1], num_updated);
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

std::vector<std::string> optimizer_state_names(const OptimizerConfig& config) {
  if (config.kind == OptimizerKind::kAdamW) return {"adamw.m", "adamw.v"};
  return config.momentum > 0.0 ? std::vector<std::string>{"sgd.momentum"} : std::vector<std::string>{};
}

OptimizerConfig parse_optimizer(const std::string& optim,
                                const std::map<std::string, std::string>& optim_args) {
  OptimizerConfig config;
  if (optim == "sgd") {
    config.kind = OptimizerKind::kSgd;
  } else if (optim != "adamw_torch" && optim != "adamw_torch_fused" && optim != "adamw") {
    throw_error(ErrorCode::kUsage,
                "--optim {}: this version has adamw_torch (also adamw_torch_fused) and sgd", optim);
  }
  for (const auto& [key, text] : optim_args) {
    const bool sgd = config.kind == OptimizerKind::kSgd;
    if (sgd && key == "momentum") {
      config.momentum = parse_value(key, text);
      if (!(config.momentum >= 0.0 && config.momentum < 1.0)) {
        throw_error(ErrorCode::kUsage, "--optim_args: momentum is {}, it must be in [0, 1)", text);
      }
    } else if (sgd && key == "nesterov") {
      config.nesterov = text == "True" || text == "true" || text == "1";
    } else if (!sgd && key == "master_weights") {
      if (text != "whole" && text != "split") {
        throw_error(ErrorCode::kUsage, "--optim_args: master_weights is '{}', it must be whole or split",
                    text);
      }
      config.master_weights = text == "whole" ? MasterWeights::kWhole : MasterWeights::kSplit;
    } else {
      throw_error(ErrorCode::kUsage, "--optim_args: '{}' is no argument of {} ({})", key, optim,
                  sgd ? "it has momentum and nesterov"
                      : "it has master_weights; others are --adam_beta1, --adam_beta2, --adam_epsilon");
    }
  }
  if (config.nesterov && config.momentum == 0.0) {
    throw_error(ErrorCode::kUsage, "--optim_args: nesterov needs momentum above 0, it is 0");
  }
  return config;
}

}  // namespace plimsoll
