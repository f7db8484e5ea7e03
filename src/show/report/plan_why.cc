#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "plan/anatomy/parameters.h"
#include "plan/anatomy/saved.h"
#include "show/report/plan_table.h"

namespace plimsoll {
namespace {

// One implementation of one op, how often it was chosen, and which faster ones declined.
struct Choice {
  int64_t count = 0;
  std::set<std::string> refusals;
};

std::string kernels_text(const ProgramPlan& program) {
  std::map<std::pair<std::string, std::string>, Choice> choices;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const OpPlan& op = program.ops[i];
    if (op.kernel == nullptr) continue;
    Choice& choice =
        choices[{std::string(program.graph.ops()[i].def->name()), std::string(op.kernel->implementation)}];
    ++choice.count;
    for (const Refusal& refusal : op.refused) {
      choice.refusals.insert(fmt::format("{} declined: {}", refusal.row->implementation, refusal.reason));
    }
  }
  std::string text = fmt::format("kernels of {}, {} ops\n", program.name, program.ops.size());
  for (const auto& [key, choice] : choices) {
    text += left_aligned("  " + key.first, 34) + left_aligned(key.second, 40) +
            right_aligned(fmt::format("{} x", choice.count), 8) + "\n";
    for (const std::string& refusal : choice.refusals) text += "      " + wrapped(refusal, 94, 8);
  }
  return text;
}

std::string passes_text(const ProgramPlan& program) {
  std::string text = fmt::format("passes of {}\n", program.name);
  for (const PassRecord& pass : program.passes) {
    text += left_aligned("  " + pass.name, 34);
    text += pass.ran ? fmt::format("{:>5} -> {:>5} ops  {:>8.2f} ms\n", pass.ops_before, pass.ops_after,
                                   pass.milliseconds)
                     : std::string("switched off\n");
  }
  return text;
}

std::string saved_text(const Plan& plan) {
  const std::vector<SavedKind> kinds = saved_kinds(plan);
  if (kinds.empty()) return "";
  std::string text =
      "saved for the backward pass, at the peak                                    values      MiB\n";
  for (const SavedKind& kind : kinds) {
    text += left_aligned("  " + shortened(kind.values + " " + kind.type, 72), 74) +
            right_aligned(fmt::format("{}", kind.count), 8) + right_aligned(mib_text(kind.bytes), 9) + "\n";
  }
  return text;
}

std::string formulas_text(const Plan& plan) {
  const ParameterBytes parameters = parameter_bytes(plan);
  std::string text = "formulas that people quote, bytes a parameter (> for this run)\n";
  for (const QuotedFormula& formula : parameters.quoted) {
    text += left_aligned((formula.applies ? "> " : "  ") + formula.name, 38) +
            right_aligned(fmt::format("{:g}", formula.bytes_per_parameter), 4) +
            right_aligned(fmt::format("{:.0f} MiB", static_cast<double>(formula.bytes) / 1048576.0), 12) +
            "  " + formula.made_of + "\n";
  }
  return text + "  " + wrapped(parameters.difference, 98);
}

}  // namespace

std::string plan_why(const Plan& plan) {
  std::string text;
  for (const std::optional<ProgramPlan>* program : {&plan.train, &plan.evaluate}) {
    if (*program) text += kernels_text(**program) + "\n" + passes_text(**program) + "\n";
  }
  const std::string saved = saved_text(plan);
  if (!saved.empty()) text += saved + "\n";
  return text + formulas_text(plan);
}

}  // namespace plimsoll
