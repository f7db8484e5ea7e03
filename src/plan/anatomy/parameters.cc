#include "plan/anatomy/anatomy.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "optim/optimizers.h"
#include "plan/anatomy/memory.h"

namespace plimsoll {
namespace {

// A rule of thumb for the memory per parameter. Rules with six bytes of weights count an fp32 master weight and a 16-bit copy of it.
struct Rule {
  std::string name;
  std::string made_of;
  double bytes_per_parameter = 0;
  bool train = false;
  bool mixed = false;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  int states = 0;     // number of states per parameter that the optimizer has
  bool half = false;  // true if all weights are stored in 16 bits
};

// Returns the rules of thumb: for each optimizer one in fp32 and one in mixed precision, then one for inference and one for training with
// weights in bf16 alone. The rules for training count the gradients of all parameters.
std::vector<Rule> quoted_rules() {
  std::vector<Rule> rules;
  for (const OptimizerRow& optimizer : optimizer_rows()) {
    for (const StateRule& rule : optimizer.rules) {
      const std::string states = rule.states.empty() ? std::string() : fmt::format(" + {}", rule.states);
      rules.push_back({fmt::format("{} in fp32", rule.variant), "4 weights + 4 gradients" + states,
                       8.0 + rule.bytes, true, false, optimizer.kind, rule.num_kinds});
      rules.push_back({fmt::format("{}, mixed precision", rule.variant), "6 weights + 4 gradients" + states,
                       10.0 + rule.bytes, true, true, optimizer.kind, rule.num_kinds});
    }
  }
  rules.push_back({"inference in fp32", "4 weights", 4, false, false});
  rules.push_back({"inference, mixed precision", "6 weights", 6, false, true});
  rules.push_back({"inference in 16 bits", "2 weights", 2, false, true, OptimizerKind::kAdamW, 0, true});
  rules.push_back({"AdamW in pure bf16", "2 weights + 2 gradients + 8 moments", 12, true, true,
                   OptimizerKind::kAdamW, 2, true});
  return rules;
}

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

// Returns the bytes of gradients that would be needed if all of them were live at the same time.
double all_gradient_bytes(const ProgramPlan& program) {
  double sum = 0;
  for (const TransientBuffer& buffer : program.buffers) {
    if (buffer.purpose == Purpose::kGradients) sum += static_cast<double>(buffer.bytes);
  }
  return sum;
}

std::string explain(const ParameterBytes& here, const QuotedFormula& rule, const Plan& plan) {
  std::string text = fmt::format(
      "{:g} bytes per parameter ({}) would be {:.0f} MiB; at its peak, this plan needs {:.1f} bytes per "
      "parameter: weights {:.1f}, states {:.1f}, gradients {:.1f}.",
      rule.bytes_per_parameter, rule.made_of, static_cast<double>(rule.bytes) / 1048576.0, here.sum(),
      here.weights, here.states, here.gradients);
  if (!plan.trains()) return text + " The rule counts no activations.";
  if (plan.num_trainable_parameters() < here.num_parameters) {
    text += fmt::format(
        " Only {:.1f} % of the parameters are trained; the others have neither gradients nor states.",
        100.0 * static_cast<double>(plan.num_trainable_parameters()) /
            static_cast<double>(here.num_parameters));
  }
  if (plan.request.batches.accumulation_steps > 1) {
    text += " Gradients accumulate over micro-batches, so all of them live through the whole step.";
  } else if (here.gradients * static_cast<double>(here.num_parameters) >
             0.9 * all_gradient_bytes(plan.programs.at(kTrainProgram))) {
    text += " At the peak, nearly all gradients and hardly any activations are live.";
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
  const PhaseMemory* peak = plan.trains() ? anatomy.find(Phase::kTrain) : &anatomy.phases[anatomy.largest];
  const auto per_parameter = [&](Purpose purpose) {
    return static_cast<double>(peak->by_purpose[index_of(purpose)]) / n;
  };
  here.weights = per_parameter(Purpose::kWeights);
  here.states = per_parameter(Purpose::kOptimizerStates);
  here.gradients = per_parameter(Purpose::kGradients);
  here.activations = per_parameter(Purpose::kSaved) + per_parameter(Purpose::kTemporary) +
                     static_cast<double>(peak->gaps_bytes) / n;
  for (const Rule& rule : quoted_rules()) {
    here.quoted.push_back({.name = rule.name,
                           .made_of = rule.made_of,
                           .bytes_per_parameter = rule.bytes_per_parameter,
                           .bytes = std::llround(rule.bytes_per_parameter * n),
                           .applies = applies(rule, plan.request)});
    if (here.quoted.back().applies) here.difference = explain(here, here.quoted.back(), plan);
  }
  return here;
}

}  // namespace plimsoll
