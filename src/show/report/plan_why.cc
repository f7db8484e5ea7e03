#include <fmt/format.h>
#include <fmt/ranges.h>

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

// How each product of the largest bucket is done, by the tuning table.
std::string products_text(const ProgramPlan& program, const PlanRequest& request) {
  const auto products = products_of(program, program.bucket, request);
  if (products.empty()) return "";
  std::string text = fmt::format("matrix products of {}, {} tokens\n", program.name, program.bucket.tokens);
  for (const auto& [key, product] : products) {
    const TunedProduct* exact = request.tuning.find(key);
    const TunedProduct* near = request.tuning.nearest(key);
    std::string words = "the library's first choice, not measured";
    if (exact != nullptr) {
      words = fmt::format("{:.3f} ms, the best of {} (first choice {:.3f}): {}", exact->ms,
                          exact->num_candidates, exact->first_ms, exact->words);
    } else if (near != nullptr) {
      words = "as the nearest that was measured: " + near->words;
    }
    text += left_aligned("  " + product_key_text(key), 66) +
            right_aligned(fmt::format("{} x", product.second), 8) + "\n      " + wrapped(words, 94, 8);
  }
  return text + "\n";
}

std::string passes_text(const ProgramPlan& program) {
  std::string text = fmt::format("passes of {}\n", program.name);
  for (const PassRecord& pass : program.passes) {
    text += left_aligned("  " + pass.name, 34);
    text += pass.ran ? fmt::format("{:>5} -> {:>5} ops  {:>8.2f} ms{}\n", pass.ops_before, pass.ops_after,
                                   pass.milliseconds, pass.despite_stop ? ", needed" : "")
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

// Where the updates stand of a run that keeps states on the host, and why.
std::string update_place_text(const Plan& plan) {
  if (!plan.train || !plan.train->update_place) return "";
  const UpdatePlace& place = *plan.train->update_place;
  const auto ms = [](double value) { return fmt::format("{:.1f} ms a step", value); };
  std::string text = place.is_at_use
                         ? "updates run in the next step's forward pass, where their weights are read: " +
                               ms(place.at_use_ms) + ", " + ms(place.in_step_ms) + " within their own"
                         : "updates run within their step: " + ms(place.in_step_ms);
  if (!place.is_at_use) text += ", no less where the next one's forward pass has them, or there is no room";
  return wrapped(text, 98) + "\n";
}

}  // namespace

std::string stopped_passes_text(const Plan& plan) {
  const PassOptions& options = plan.request.passes;
  const std::optional<ProgramPlan>& program = plan.train ? plan.train : plan.evaluate;
  if (options.stop_after.empty() || !program) return "";
  std::vector<std::string> left_out;
  std::string needed;
  for (const PassRecord& pass : program->passes) {
    if (!pass.ran && !options.disabled.contains(pass.name)) left_out.push_back(pass.name);
    if (pass.despite_stop)
      needed += fmt::format("; {} runs all the same, for {}", pass.name, pass.needed_for);
  }
  return fmt::format("--stop_after_pass {}: left out {} {}{}", options.stop_after,
                     left_out.size() == 1 ? "is" : "are",
                     left_out.empty() ? "none" : fmt::format("{}", fmt::join(left_out, ", ")), needed);
}

std::string plan_why(const Plan& plan) {
  std::string text;
  for (const std::optional<ProgramPlan>* program : {&plan.train, &plan.evaluate}) {
    if (!*program) continue;
    text += kernels_text(**program) + "\n" + products_text(**program, plan.request) + passes_text(**program) +
            "\n";
  }
  text += update_place_text(plan);
  const std::string saved = saved_text(plan);
  if (!saved.empty()) text += saved + "\n";
  return text + formulas_text(plan);
}

}  // namespace plimsoll
