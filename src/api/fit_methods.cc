#include "api/fit_methods.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "base/units.h"
#include "run/run_setup.h"

namespace plimsoll {
namespace {

// Returns the arguments with those that a method sets. Errors: kUsage if the combination is refused.
Arguments with_words(const Arguments& arguments, const std::vector<std::string>& words) {
  const ParseResult parsed = parse_arguments(words);
  const nlohmann::json set = nlohmann::json::parse(arguments_json(parsed.arguments));
  nlohmann::json all = nlohmann::json::parse(arguments_json(arguments));
  for (const std::string& name : parsed.explicitly_set) all[name] = set.at(name);
  Arguments changed = arguments_from_json(all.dump(), "methods");
  resolve_arguments(changed);
  return changed;
}

}  // namespace

std::string reason_of(const std::string& said) {
  std::string reason = said.substr(0, said.find('\n'));
  const size_t colon = reason.find(": ");
  if (reason.starts_with("--") && colon != std::string::npos) reason.erase(0, colon + 2);
  return reason;
}

AskedRun asked_run(const Arguments& arguments) {
  AskedRun run{.arguments = arguments, .planned = arguments};
  if (arguments.recompute == "selective") {
    run.recompute = RecomputeChosen::kSelective;
    run.planned.recompute = Arguments{}.recompute;
  } else if (arguments.recompute_budget) {
    run.recompute = RecomputeChosen::kByBudget;
    run.budget_bytes = *arguments.recompute_budget;
    run.planned.recompute_budget.reset();
  }
  return run;
}

FitMethods methods_beside(const AskedRun& run, const PlanRequest& own, Effect most,
                          const Environment& environment) {
  FitMethods found;
  found.scope.most = most;
  for (const Method& method : method_table()) {
    if (!method.not_in_fit.empty()) continue;
    const MethodSet alone = MethodSet().with(method);
    if (effect_of(alone, own) > most) continue;
    // A method that changes nothing on this device, such as tf32 on a CPU, would only repeat another answer.
    if (own.device.kind == KernelDevice::kCpu && !method.not_on_cpu.empty()) continue;
    const bool has_budget = method.name == "recompute_budget";
    if (has_budget && (!own.memory_limit_bytes || *own.memory_limit_bytes < kMiB)) continue;
    try {
      // The method's arguments are read alone first: they must be complete without those of the run.
      PlanRequest clipped = own;
      clipped.update.optimizer.max_grad_norm = 1.0;
      const std::vector<std::string> words =
          words_of(alone, clipped, has_budget ? *own.memory_limit_bytes / kMiB * kMiB : 0);
      with_words(run.arguments, words);
      // The amount of recomputation is chosen per batch, and no batch is chosen yet.
      if (!has_budget) {
        const Arguments changed = with_words(run.planned, words);
        const RunSetup setup = prepare_run(changed, RunPurpose::kPlan, environment, posix_file_system());
        if (method.kind == "trained part") {
          found.scope.trained_parts.push_back({.method = &method, .request = setup.request});
          continue;
        }
      }
      found.scope.methods.push_back(&method);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUsage) throw;
      found.refused.emplace_back(&method, reason_of(error.what()));
    }
  }
  return found;
}

}  // namespace plimsoll
