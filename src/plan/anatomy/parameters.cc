#include "plan/anatomy/parameters.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "plan/anatomy/memory.h"

namespace plimsoll {
namespace {

// Six bytes of weights are one copy of two and one of four.
struct Rule {
  std::string_view name;
  std::string_view made_of;
  double bytes_per_parameter;
  bool train;
  bool mixed;
  int states;         // moments per parameter
  bool half = false;  // weights in 16 bits and no others
};
// The arithmetic behind the sentences that circulate: fp32 moments, gradients of every parameter at once.
constexpr Rule kRules[] = {
    {"AdamW in fp32", "4 weights + 4 gradients + 8 moments", 16, true, false, 2},
    {"AdamW, mixed precision", "6 weights + 4 gradients + 8 moments", 18, true, true, 2},
    {"SGD with momentum in fp32", "4 weights + 4 gradients + 4 momentum", 12, true, false, 1},
    {"SGD with momentum, mixed precision", "6 weights + 4 gradients + 4 momentum", 14, true, true, 1},
    {"SGD in fp32", "4 weights + 4 gradients", 8, true, false, 0},
    {"SGD, mixed precision", "6 weights + 4 gradients", 10, true, true, 0},
    {"inference in fp32", "4 weights", 4, false, false, 0},
    {"inference, mixed precision", "6 weights", 6, false, true, 0},
    {"inference in 16 bits", "2 weights", 2, false, true, 0, true},
    {"AdamW in pure bf16", "2 weights + 2 gradients + 8 moments", 12, true, true, 2, true},
};

int num_states(const PlanRequest& request) {
  return static_cast<int>(optimizer_state_names(request.optimizer).size());
}

bool applies(const Rule& rule, const PlanRequest& request) {
  const DType computed = request.activation_dtype.value_or(request.dtype);
  const bool mixed = computed == DType::kBF16 || computed == DType::kF16;
  const bool half = request.dtype == DType::kBF16 || request.dtype == DType::kF16;
  return rule.train == request.train && rule.mixed == mixed && rule.half == half &&
         (!rule.train || rule.states == num_states(request));
}

// What gradients would be if all of them lived at once.
double all_gradient_bytes(const ProgramPlan& program) {
  double sum = 0;
  for (const TransientBuffer& buffer : program.buffers) {
    if (buffer.purpose == Purpose::kGradients) sum += static_cast<double>(buffer.bytes);
  }
  return sum;
}

std::string explain(const ParameterBytes& here, const QuotedFormula& rule, const Plan& plan) {
  std::string text = fmt::format(
      "{:g} bytes a parameter ({}) would be {:.0f} MiB; here they are {:.1f} at the peak: weights {:.1f}, "
      "states {:.1f}, gradients {:.1f}.",
      rule.bytes_per_parameter, rule.made_of, static_cast<double>(rule.bytes) / 1048576.0, here.sum(),
      here.weights, here.states, here.gradients);
  if (!plan.train) return text + " The rule counts no activations.";
  if (plan.request.gradient_accumulation_steps > 1) {
    text += " Gradients accumulate over micro-batches, so all of them live through the whole step.";
  } else if (here.gradients * static_cast<double>(here.num_parameters) >
             0.9 * all_gradient_bytes(*plan.train)) {
    text += " The peak comes late, when nearly every gradient is there and hardly an activation is left.";
  } else {
    text +=
        " Without accumulation a gradient is born in the backward pass, when saved activations die, so not "
        "all of them"
        " are there at the peak.";
  }
  return text + fmt::format(
                    " The rule counts no activations; they and temporary buffers are {:.1f} bytes a "
                    "parameter at the peak.",
                    here.activations);
}

}  // namespace

ParameterBytes parameter_bytes(const Plan& plan) {
  ParameterBytes here{.num_parameters = plan.num_parameters()};
  const auto n = static_cast<double>(here.num_parameters);
  const MemoryAnatomy anatomy = memory_anatomy(plan);
  const PhaseMemory* peak = plan.train ? anatomy.find(Phase::kTrain) : &anatomy.phases[anatomy.largest];
  const auto per_parameter = [&](Purpose purpose) {
    return static_cast<double>(peak->by_purpose[index_of(purpose)]) / n;
  };
  here.weights = per_parameter(Purpose::kWeights);
  here.states = per_parameter(Purpose::kOptimizerStates);
  here.gradients = per_parameter(Purpose::kGradients);
  here.activations = per_parameter(Purpose::kSaved) + per_parameter(Purpose::kTemporary) +
                     static_cast<double>(peak->gaps_bytes) / n;
  for (const Rule& rule : kRules) {
    here.quoted.push_back({.name = std::string(rule.name),
                           .made_of = std::string(rule.made_of),
                           .bytes_per_parameter = rule.bytes_per_parameter,
                           .bytes = std::llround(rule.bytes_per_parameter * n),
                           .applies = applies(rule, plan.request)});
    if (here.quoted.back().applies) here.difference = explain(here, here.quoted.back(), plan);
  }
  return here;
}

}  // namespace plimsoll
