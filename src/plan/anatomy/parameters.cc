#include "plan/anatomy/parameters.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "plan/anatomy/memory.h"

namespace plimsoll {
namespace {

// A rule of thumb. Six bytes of weights are one copy of two bytes and one of four.
struct Rule {
  std::string_view name;
  std::string_view made_of;
  double bytes_per_parameter;
  bool train;
  bool mixed;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  int states = 0;     // kinds of states that the optimizer keeps
  bool half = false;  // all weights are in 16 bits
};
// The arithmetic of the rules of thumb: fp32 moments, and gradients of all parameters at the same time.
constexpr Rule kRules[] = {
    {"AdamW in fp32", "4 weights + 4 gradients + 8 moments", 16, true, false, OptimizerKind::kAdamW, 2},
    {"AdamW, mixed precision", "6 weights + 4 gradients + 8 moments", 18, true, true, OptimizerKind::kAdamW,
     2},
    {"SGD with momentum in fp32", "4 weights + 4 gradients + 4 momentum", 12, true, false,
     OptimizerKind::kSgd, 1},
    {"SGD with momentum, mixed precision", "6 weights + 4 gradients + 4 momentum", 14, true, true,
     OptimizerKind::kSgd, 1},
    {"SGD in fp32", "4 weights + 4 gradients", 8, true, false, OptimizerKind::kSgd, 0},
    {"SGD, mixed precision", "6 weights + 4 gradients", 10, true, true, OptimizerKind::kSgd, 0},
    {"Lion in fp32", "4 weights + 4 gradients + 4 momentum", 12, true, false, OptimizerKind::kLion, 1},
    {"Lion, mixed precision", "6 weights + 4 gradients + 4 momentum", 14, true, true, OptimizerKind::kLion,
     1},
    {"Adagrad in fp32", "4 weights + 4 gradients + 4 sums", 12, true, false, OptimizerKind::kAdagrad, 1},
    {"Adagrad, mixed precision", "6 weights + 4 gradients + 4 sums", 14, true, true, OptimizerKind::kAdagrad,
     1},
    {"Adafactor in fp32", "4 weights + 4 gradients", 8, true, false, OptimizerKind::kAdafactor, 3},
    {"Adafactor, mixed precision", "6 weights + 4 gradients", 10, true, true, OptimizerKind::kAdafactor, 3},
    {"Adafactor with beta1 in fp32", "4 weights + 4 gradients + 4 momentum", 12, true, false,
     OptimizerKind::kAdafactor, 4},
    {"Adafactor with beta1, mixed precision", "6 weights + 4 gradients + 4 momentum", 14, true, true,
     OptimizerKind::kAdafactor, 4},
    {"8-bit AdamW in fp32", "4 weights + 4 gradients + 2 moments", 10, true, false, OptimizerKind::kAdamW8Bit,
     6},
    {"8-bit AdamW, mixed precision", "6 weights + 4 gradients + 2 moments", 12, true, true,
     OptimizerKind::kAdamW8Bit, 6},
    {"8-bit Lion in fp32", "4 weights + 4 gradients + 1 momentum", 9, true, false, OptimizerKind::kLion8Bit,
     3},
    {"8-bit Lion, mixed precision", "6 weights + 4 gradients + 1 momentum", 11, true, true,
     OptimizerKind::kLion8Bit, 3},
    {"8-bit SGD with momentum in fp32", "4 weights + 4 gradients + 1 momentum", 9, true, false,
     OptimizerKind::kSgd8Bit, 3},
    {"8-bit SGD with momentum, mixed precision", "6 weights + 4 gradients + 1 momentum", 11, true, true,
     OptimizerKind::kSgd8Bit, 3},
    {"8-bit Adagrad in fp32", "4 weights + 4 gradients + 1 sums", 9, true, false, OptimizerKind::kAdagrad8Bit,
     3},
    {"8-bit Adagrad, mixed precision", "6 weights + 4 gradients + 1 sums", 11, true, true,
     OptimizerKind::kAdagrad8Bit, 3},
    {"inference in fp32", "4 weights", 4, false, false},
    {"inference, mixed precision", "6 weights", 6, false, true},
    {"inference in 16 bits", "2 weights", 2, false, true, OptimizerKind::kAdamW, 0, true},
    {"AdamW in pure bf16", "2 weights + 2 gradients + 8 moments", 12, true, true, OptimizerKind::kAdamW, 2,
     true},
};

int num_states(const PlanRequest& request) {
  return static_cast<int>(optimizer_state_names(request.update.optimizer).size());
}

bool applies(const Rule& rule, const PlanRequest& request) {
  const DType computed = request.precision.activation_dtype.value_or(request.precision.dtype);
  const bool mixed = computed == DType::kBF16 || computed == DType::kF16;
  const bool half = request.precision.dtype == DType::kBF16 || request.precision.dtype == DType::kF16;
  return rule.train == request.train && rule.mixed == mixed && rule.half == half &&
         (!rule.train ||
          (rule.optimizer == request.update.optimizer.kind && rule.states == num_states(request)));
}

// Returns the bytes of gradients if all of them were live at the same time.
double all_gradient_bytes(const ProgramPlan& program) {
  double sum = 0;
  for (const TransientBuffer& buffer : program.buffers) {
    if (buffer.purpose == Purpose::kGradients) sum += static_cast<double>(buffer.bytes);
  }
  return sum;
}

std::string explain(const ParameterBytes& here, const QuotedFormula& rule, const Plan& plan) {
  std::string text = fmt::format(
      "{:g} bytes per parameter ({}) would be {:.0f} MiB; here they are {:.1f} at the peak: weights {:.1f}, "
      "states {:.1f}, gradients {:.1f}.",
      rule.bytes_per_parameter, rule.made_of, static_cast<double>(rule.bytes) / 1048576.0, here.sum(),
      here.weights, here.states, here.gradients);
  if (!plan.train) return text + " The rule counts no activations.";
  if (plan.num_trainable_parameters() < here.num_parameters) {
    text += fmt::format(
        " Only {:.1f} % of the parameters are trained; the others have neither gradients nor states.",
        100.0 * static_cast<double>(plan.num_trainable_parameters()) /
            static_cast<double>(here.num_parameters));
  }
  if (plan.request.batches.accumulation_steps > 1) {
    text += " Gradients accumulate over micro-batches, so all of them live through the whole step.";
  } else if (here.gradients * static_cast<double>(here.num_parameters) >
             0.9 * all_gradient_bytes(*plan.train)) {
    text += " The peak is late, when nearly all gradients and hardly any activations are live.";
  } else {
    text +=
        " Without accumulation, gradients are created while saved activations are freed, so not all of them "
        "are live at the peak.";
  }
  return text + fmt::format(
                    " The rule counts no activations; they and temporary buffers are {:.1f} bytes per "
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
