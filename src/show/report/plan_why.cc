#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/units.h"
#include "plan/anatomy/anatomy.h"
#include "plan/compile/kernel_choice.h"
#include "show/report/plan_table.h"

namespace plimsoll {
namespace {

// The use of one kernel implementation for a kind of op: for how many ops it was chosen, and the reasons why
// faster implementations could not be used.
struct Choice {
  int64_t count = 0;
  std::set<std::string> refusals;
};

// Returns true for a card that is too old for released programs. The report then shows the kernels that a newer card
// would use.
bool is_plan_only(const PlanRequest& request) {
  return request.device.kind == KernelDevice::kCuda && !runs_release(request.device.gpu);
}

std::string format_kernels(const ProgramPlan& program, const PlanRequest& request) {
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
  if (is_plan_only(request)) {
    text +=
        "  " +
        wrapped(fmt::format("none of these kernels runs on {}: releases of Plimsoll contain code for compute "
                            "capability {}.{} and later, and this card has {}.{}; the plan is computed "
                            "as if they ran",
                            request.device.gpu.name, kOldestSmOfReleases / 10, kOldestSmOfReleases % 10,
                            request.device.gpu.sm / 10, request.device.gpu.sm % 10),
                98);
  }
  for (const auto& [key, choice] : choices) {
    text += left_aligned("  " + key.first, 34) + left_aligned(key.second, 40) +
            right_aligned(fmt::format("{} x", choice.count), 8) + "\n";
    for (const std::string& refusal : choice.refusals) text += "      " + wrapped(refusal, 94, 8);
  }
  return text;
}

std::string product_line(const ProductKey& key, int64_t count, const std::string& words) {
  return left_aligned("  " + format_product_key(key), 66) + right_aligned(fmt::format("{} x", count), 8) +
         "\n      " + wrapped(words, 94, 8);
}

// Describes how each matrix product of the largest bucket (the largest batch) is computed: by the library with the
// algorithm of the tuning table, or by a kernel of Plimsoll.
std::string format_products(const ProgramPlan& program, const PlanRequest& request) {
  const auto products = list_matmuls(program, program.bucket, request);
  const auto own = list_custom_matmuls(program, program.bucket, request);
  if (products.empty() && own.empty()) return "";
  std::string text =
      fmt::format("matrix products of {}, {} tokens, {:.1f} MiB of workspace for each\n", program.name,
                  program.bucket.tokens, static_cast<double>(request.products.workspace_bytes) / kMiB);
  bool some_not_measured = false;
  for (const auto& [key, product] : products) {
    const TunedProduct* exact = request.products.tuning.find(key);
    const TunedProduct* near = request.products.tuning.nearest(key);
    std::string words = "the library's first choice, not measured";
    if (exact != nullptr) {
      words = fmt::format("{:.3f} ms, the fastest of {} (the library's first choice: {:.3f} ms): {}",
                          exact->ms, exact->num_candidates, exact->first_ms, exact->words);
    } else if (near != nullptr) {
      words = "the algorithm of the nearest measured size: " + near->words;
    }
    some_not_measured |= exact == nullptr && near == nullptr;
    text += product_line(key, product.count, words);
  }
  for (const auto& [key, product] : own) {
    text += product_line(
        key, product.count,
        product.is_part ? fmt::format("a part of {}, whose algorithm is not measured", product.kernel)
                        : fmt::format("computed by {}, a kernel of Plimsoll; it has no algorithms to measure",
                                      product.kernel));
  }
  if (some_not_measured && !is_plan_only(request)) {
    text += "  " + wrapped(
                       "not measured: a run on the card with --tuning_cache auto times the library's "
                       "algorithms before its first step and keeps the fastest of each product; plan "
                       "--device cuda:N --tuning_cache auto then shows them",
                       98);
  }
  return text + "\n";
}

std::string format_passes(const ProgramPlan& program) {
  std::string text = fmt::format("passes of {}\n", program.name);
  for (const PassRecord& pass : program.passes) {
    text += left_aligned("  " + pass.name, 34);
    text += pass.ran ? fmt::format("{:>5} -> {:>5} ops  {:>8.2f} ms{}\n", pass.ops_before, pass.ops_after,
                                   pass.milliseconds, pass.despite_stop ? ", needed" : "")
                     : std::string("switched off\n");
  }
  return text;
}

std::string format_saved(const Plan& plan) {
  const std::vector<SavedKind> kinds = saved_kinds(plan);
  if (kinds.empty()) return "";
  std::string text =
      "saved for the backward pass, at the peak                                    values      MiB\n";
  for (const SavedKind& kind : kinds) {
    text += left_aligned("  " + shortened(kind.values + " " + kind.type, 72), 74) +
            right_aligned(fmt::format("{}", kind.count), 8) + right_aligned(format_mib(kind.bytes), 9) + "\n";
  }
  return text;
}

std::string format_formulas(const Plan& plan) {
  const ParameterBytes parameters = parameter_bytes(plan);
  std::string text = "rules of thumb, bytes per parameter (> for this run)\n";
  for (const QuotedFormula& formula : parameters.quoted) {
    text += left_aligned((formula.applies ? "> " : "  ") + formula.name, 38) +
            right_aligned(fmt::format("{:g}", formula.bytes_per_parameter), 4) +
            right_aligned(fmt::format("{:.0f} MiB", static_cast<double>(formula.bytes) / 1048576.0), 12) +
            "  " + formula.made_of + "\n";
  }
  return text + "  " + wrapped(parameters.difference, 98);
}

// Describes when the weights are updated if optimizer states are kept on the host, and why: in the next step's forward
// pass just before each weight is read, or in a separate part of the step after the backward pass.
std::string format_update_place(const Plan& plan) {
  if (!plan.trains() || !plan.programs.at(kTrainProgram).update_place) return "";
  const UpdatePlace& place = *plan.programs.at(kTrainProgram).update_place;
  const auto ms = [](double value) { return fmt::format("{:.1f} ms per step", value); };
  std::string text = place.is_at_use
                         ? "updates run in the next step's forward pass, where their weights are read: " +
                               ms(place.at_use_ms) + ", " + ms(place.in_step_ms) +
                               " if they ran after the backward pass"
                         : "updates run after the backward pass: " + ms(place.in_step_ms);
  if (!place.is_at_use)
    text += "; running them in the next step's forward pass is not faster, or needs too much memory";
  return wrapped(text, 98) + "\n";
}

// States for each program how many segments (forward, backward, optimizer) become CUDA graphs, and the memory of the graphs.
std::string format_captured(const Plan& plan) {
  if (!plan.is_on_gpu()) return "";
  std::vector<std::string> parts;
  const auto add = [&](const char* name, const ProgramPlan& program, int buckets) {
    const CapturedGraphs graphs = plan.gpu_constant.graphs_of(program.name);
    parts.push_back(
        graphs.count == 0
            ? fmt::format("none of {}", name)
            : fmt::format("{} of {} in {}, {} MiB", counted(graphs.count, "graph"), name,
                          counted(std::min<int64_t>(buckets, std::ssize(program.ladder)), "bucket"),
                          format_mib(graphs.bytes)));
  };
  const CapturedBuckets& buckets = plan.request.captured_buckets;
  for (const ProgramPlan& program : plan.programs) {
    if (program.name == kTrainProgram) add("training", program, buckets.train);
    if (program.name == kEvaluateProgram) add("evaluation", program, buckets.evaluate);
  }
  return wrapped(fmt::format(
                     "captured programs: {}; a segment (forward, backward or update) is captured as a CUDA "
                     "graph when it runs with a batch size (bucket) for the second time; at most {} are kept",
                     fmt::join(parts, "; "), kMaxCapturedSegments),
                 98) +
         "\n";
}

}  // namespace

std::string format_stopped_passes(const Plan& plan) {
  const PassOptions& options = plan.request.passes;
  if (options.stop_after.empty() || plan.programs.empty()) return "";
  std::vector<std::string> left_out;
  std::string needed;
  for (const PassRecord& pass : plan.programs.first().passes) {
    if (!pass.ran && !options.disabled.contains(pass.name)) left_out.push_back(pass.name);
    if (pass.despite_stop)
      needed += fmt::format("; {} still runs, because it is needed for {}", pass.name, pass.needed_for);
  }
  return fmt::format("--stop_after_pass {} skips {}{}", options.stop_after,
                     left_out.empty() ? "no pass" : fmt::format("{}", fmt::join(left_out, ", ")), needed);
}

std::string plan_why(const Plan& plan) {
  std::string text;
  for (const ProgramPlan& program : plan.programs) {
    text += format_kernels(program, plan.request) + "\n" + format_products(program, plan.request) +
            format_passes(program) + "\n";
  }
  text += format_update_place(plan) + format_captured(plan);
  const std::string saved = format_saved(plan);
  if (!saved.empty()) text += saved + "\n";
  return text + format_formulas(plan);
}

}  // namespace plimsoll
