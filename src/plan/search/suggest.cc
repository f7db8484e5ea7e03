#include "plan/search/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/units.h"
#include "plan/anatomy/memory.h"
#include "plan/search/fit_search.h"

namespace plimsoll {
namespace {

// Converts bytes to MiB, rounded up, so that the result is sufficient as a memory limit.
int64_t mib_rounded_up(int64_t bytes) {
  return (bytes + kMiB - 1) / kMiB;
}

// Formats bytes in MiB, rounded in the same way as in the table of the plan.
std::string format_mib(int64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / kMiB);
}

// Limits the number of listed suggestions. Of the changes with which the run fits into memory, kMostOfAnEffect are listed for each Effect
// on training. In addition, kMostNotEnough changes are listed that save memory but not enough.
constexpr size_t kMostOfAnEffect = 6;
constexpr size_t kMostNotEnough = 5;

// Returns true for methods that save memory without changing which model is trained; adapters, for example, train another model.
bool is_worth_suggesting(const Method& method) {
  if (!method.not_in_fit.empty() || method.kind == "trained part") return false;
  // Tries only two optimizers with another update rule than AdamW, because they save the most: one with few states, and one without
  // states.
  const bool is_other_optimizer = method.kind == "optimizer" && method.effect == MethodEffect::kOtherPath;
  return !is_other_optimizer || method.name == "adafactor" || method.name == "sgd";
}

// Returns true if a method can save memory. Matrix products in TF32 need as much memory as in fp32.
bool saves_memory(const Method& method) {
  return method.name != "tf32" && method.name != "tf32x3";
}

class Search {
 public:
  Search(const Plan& plan, const RunSpec& run, int64_t limit, const PlanLabels& labels)
      : plan_(plan), run_(run), limit_(limit), labels_(labels), own_ms_(ms_per_sample(plan)) {}

  std::vector<Suggestion> run() {
    const PlanRequest& request = plan_.request;
    try_sizes(smaller_micro_batches(request), &Change::use_micro_batch);
    try_recomputing();
    try_zero_stages();
    try_divided_rows();
    if (evaluation_is_larger(plan_))
      try_sizes(smaller_evaluation_batches(request), &Change::use_evaluation_batch);
    if (request.train) {
      for (const Method& method : method_table()) try_method(method);
    }
    try_sizes(shorter_lengths(request), &Change::use_length);
    try_generation();
    if (!any_fits() && request.train) try_sets();
    if (!any_fits()) try_combined();
    std::stable_sort(found_.begin(), found_.end(), [](const Suggestion& a, const Suggestion& b) {
      if (a.fits != b.fits) return a.fits;
      if (a.fits && a.effect != b.effect) return a.effect < b.effect;
      return a.fits ? a.relative_time < b.relative_time : a.total_bytes < b.total_bytes;
    });
    return std::move(found_);
  }

 private:
  bool any_fits() const {
    return std::ranges::any_of(found_, [](const Suggestion& suggestion) { return suggestion.fits; });
  }

  bool add(const Change& change) {
    std::optional<Suggestion> suggestion = change.planned(limit_, own_ms_);
    if (!suggestion) return false;
    found_.push_back(std::move(*suggestion));
    return found_.back().fits;
  }

  // Tries a training method of the table in plimsoll/methods.h that none of the other functions tries.
  void try_method(const Method& method) {
    const PlanRequest& request = plan_.request;
    if (!is_worth_suggesting(method) || !saves_memory(method) || method.kind == "recompute") return;
    if (!applies_to(method, request.device)) return;
    // Skips fp16 if bf16 can be suggested, and methods that have no effect on this plan.
    if (method.name == "fp16" && changed_request(run_, MethodSet().with(*find_method("bf16")))) return;
    if (method.name == "copies_at_use" && !can_copy_at_use(plan_)) return;
    if (method.name.ends_with("_gradients") && request.batches.accumulation_steps == 1) return;
    if (method.kind == "loss" && !has_many_logits(request, request.batches.train.sequences)) return;
    const MethodSet alone = MethodSet().with(method);
    if (!changed_request(run_, alone)) return;
    Change change(run_, labels_);
    change.use_methods(alone);
    add(change);
  }

  // Tries the recomputation policy that fits and recomputes least; if none fits, the one that needs the least memory. If a policy fits,
  // also tries recomputing individual values that a search chooses such that the plan just fits, and reports this too if it is faster than
  // the policy.
  void try_recomputing() {
    std::optional<Suggestion> best;
    for (const RecomputePolicy policy : stronger_policies(plan_.request)) {
      Change change(run_, labels_);
      change.use_recompute(policy);
      std::optional<Suggestion> suggestion = change.planned(limit_, own_ms_);
      if (!suggestion) continue;
      if (!best || suggestion->total_bytes < best->total_bytes) best = std::move(suggestion);
      if (best->fits) break;
    }
    if (!best) return;
    // A recomputation budget trades memory of the device for time. Offloading moves the same values to host memory, so the two are not
    // combined.
    if (best->fits && !plan_.request.offload.activations) {
      Change change(run_, labels_);
      change.use_recompute_budget(limit_);
      std::optional<Suggestion> mixed = change.planned(limit_, own_ms_);
      if (mixed && mixed->fits && mixed->relative_time < best->relative_time)
        found_.push_back(std::move(*mixed));
    }
    found_.push_back(std::move(*best));
  }

  // Suggests the lowest ZeRO stage that fits or, if none fits, the one that needs the least memory.
  void try_zero_stages() {
    std::optional<Suggestion> best;
    for (const ZeroStage stage : higher_zero_stages(plan_.request)) {
      Change change(run_, labels_);
      change.use_zero_stage(stage);
      std::optional<Suggestion> suggestion = change.planned(limit_, own_ms_);
      if (!suggestion) continue;
      if (!best || suggestion->total_bytes < best->total_bytes) best = std::move(suggestion);
      if (best->fits) break;
    }
    if (best) found_.push_back(std::move(*best));
  }

  // With tensor parallelism, suggests sequence parallelism.
  void try_divided_rows() {
    const RankOptions& ranks = plan_.request.ranks;
    if (!plan_.request.train || !ranks.divides_layers() || ranks.sequence_parallel) return;
    Change change(run_, labels_);
    change.use_sequence_parallel();
    if (std::optional<Suggestion> suggestion = change.planned(limit_, own_ms_))
      found_.push_back(std::move(*suggestion));
  }

  // Suggests the largest size that fits or, if none fits, the one that needs the least memory.
  void try_sizes(const std::vector<int64_t>& sizes, void (Change::*make)(int64_t)) {
    std::optional<Suggestion> best;
    for (int64_t size : sizes) {
      Change change(run_, labels_);
      (change.*make)(size);
      std::optional<Suggestion> suggestion = change.planned(limit_, own_ms_);
      if (!suggestion) continue;
      if (!best || suggestion->total_bytes < best->total_bytes) best = std::move(suggestion);
      if (best->fits) break;
    }
    if (best) found_.push_back(std::move(*best));
  }

  // For text generation, tries fewer prompts at once, weights in 16 bits, fewer beams and fewer new tokens.
  void try_generation() {
    const PlanRequest& request = plan_.request;
    if (request.generation.num_pages == 0) return;
    try_sizes(fewer_prompts_at_once(request), &Change::use_prompts_at_once);
    if (dtype_bytes(request.precision.dtype) > 2 && request.device.has_bf16() && !request.model.lora) {
      Change change(run_, labels_);
      change.use_16_bit_weights();
      add(change);
    }
    try_sizes(fewer_sequences_per_prompt(request), &Change::use_sequences_per_prompt);
    try_sizes(fewer_new_tokens(request), &Change::use_new_tokens);
  }

  // Tries sets of methods that the search of the command `fit` finds: first sets that keep the result of training, then sets that change
  // its rounding, and, if none of these fits, sets that train another model.
  void try_sets() {
    const bool has_large_evaluation = !smaller_evaluation_batches(plan_.request).empty();
    for (const bool small_evaluation : {false, true}) {
      if (small_evaluation && !has_large_evaluation) break;
      for (const Effect most : {Effect::kNone, Effect::kRounding, Effect::kOtherModel}) {
        if (most == Effect::kOtherModel && any_fits()) break;
        try_sets_of(most, small_evaluation);
      }
      if (any_fits()) break;
    }
  }

  void try_sets_of(Effect most, bool small_evaluation) {
    RunSpec run = searched(small_evaluation ? with_evaluate_batch(run_, 1) : run_);
    run.arguments.memory_limit = limit_;
    const FitQuestion question = question_of(plan_.request);
    const MethodSpace space(run, scope(most), question.most_sequences, question.effective_batch);
    for (const FitAnswer& answer : search_fit(space, question).answers) {
      if (answer.extent.effect != most) continue;
      Change change(run_, labels_);
      if (small_evaluation) change.use_evaluation_batch(1);
      if (answer.micro_batch != plan_.request.batches.train.sequences)
        change.use_micro_batch(answer.micro_batch);
      const MethodSet fixed =
          answer.set.has("recompute_budget") ? answer.set.without_kind("recompute") : answer.set;
      if (!fixed.empty()) change.use_methods(fixed);
      if (answer.set.has("recompute_budget")) change.use_recompute_budget(limit_);
      add(change);
    }
  }

  // Returns the run without the choice of recomputed values that was found for it by a search, because sets of methods have their own
  // choice.
  static RunSpec searched(RunSpec run) {
    if (!run.facts.recompute) return run;
    run = with_recompute(std::move(run), RecomputePolicy::kCheap);
    // Resets --recompute to its default value, so that kCheap does not count as a policy that the user chose.
    run.arguments.recompute = Arguments().recompute;
    return run;
  }

  MethodScope scope(Effect most) const {
    MethodScope scope{.methods = {}, .most = most};
    for (const Method& method : method_table()) {
      if (is_worth_suggesting(method) && applies_to(method, run_.facts.device))
        scope.methods.push_back(&method);
    }
    return scope;
  }

  static FitQuestion question_of(const PlanRequest& request) {
    FitQuestion question;
    question.effective_batch = request.batches.train.sequences * request.batches.accumulation_steps;
    question.most_sequences = request.batches.train.sequences;
    question.longest = request.batches.train.longest;
    question.num_answers = 2;
    question.of_each_effect = false;
    question.num_detailed = 0;
    question.num_threads = std::max(1, request.device.num_threads);
    return question;
  }

  // Tries the set of training methods with which the run needs the least memory. If it does not fit, also tries it with shorter
  // sequences.
  void try_combined() {
    const PlanRequest& request = plan_.request;
    Change change(run_, labels_);
    if (!smaller_evaluation_batches(request).empty()) change.use_evaluation_batch(1);
    bool is_new = change.num_changes() > 0;
    if (request.train) {
      const FitQuestion question = question_of(request);
      const MethodSpace space(searched(change.run()), scope(Effect::kOtherModel), question.most_sequences,
                              question.effective_batch);
      const std::optional<MinimumMemoryRun> smallest = minimum_memory_run(space, question);
      if (smallest && smallest->shape.micro_batch != request.batches.train.sequences)
        change.use_micro_batch(smallest->shape.micro_batch);
      if (smallest && !smallest->set.empty()) change.use_methods(smallest->set);
      // If the set consists of a single method, it was already tried.
      is_new = change.num_changes() > 1 || (smallest && smallest->set.size() > 1);
    }
    if (is_new && add(change)) return;
    for (const int64_t size : shorter_lengths(request)) {
      Change shorter = change;
      shorter.use_length(size);
      std::optional<Suggestion> suggestion = shorter.planned(limit_, own_ms_);
      if (!suggestion || !suggestion->fits) continue;
      found_.push_back(std::move(*suggestion));
      return;
    }
  }

  const Plan& plan_;
  const RunSpec& run_;
  int64_t limit_;
  const PlanLabels& labels_;
  double own_ms_;
  std::vector<Suggestion> found_;
};

// Returns the purposes that take the most bytes, in MiB, such as "optimizer states 2557, saved activations 1920, weights 1278".
std::string largest_purposes(const PhaseMemory& phase) {
  std::vector<std::pair<int64_t, std::string>> parts;
  for (int p = 0; p < kNumPurposes; ++p) {
    const int64_t bytes = phase.by_purpose[static_cast<size_t>(p)];
    if (bytes > 0) parts.emplace_back(bytes, std::string(purpose_name(static_cast<Purpose>(p))));
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  if (parts.size() > 4) parts.resize(4);
  std::vector<std::string> words;
  words.reserve(parts.size());
  for (const auto& [bytes, name] : parts)
    words.push_back(fmt::format("{} {:.1f}", name, static_cast<double>(bytes) / kMiB));
  return fmt::format("{} MiB", fmt::join(words, ", "));
}

std::string describe_peak(const MemoryAnatomy& anatomy) {
  const PhaseMemory& phase = anatomy.phases[anatomy.largest];
  std::string text = fmt::format("peak is in {}", phase_name(phase.phase));
  if (const PeakPlace* peak = anatomy.peak_of(phase.phase)) {
    const std::string module = describe_module(peak->module);
    text += fmt::format(", {}{} ({}, op {} of {})", segment_name(peak->segment),
                        module.empty() ? "" : " of " + module, peak->op, peak->position + 1, peak->num_ops);
  }
  return text + ": " + largest_purposes(phase);
}

std::string format_suggestion(const Suggestion& suggestion, size_t width) {
  const double change = 100.0 * (suggestion.relative_time - 1.0);
  return fmt::format("\n    {:<{}}  {:>8} MiB  {:>+4.0f} % time{}", suggestion.arguments, width,
                     format_mib(suggestion.total_bytes), change,
                     suggestion.note.empty() ? "" : "  (" + suggestion.note + ")");
}

std::string format_suggestions(const std::vector<const Suggestion*>& suggestions) {
  size_t width = 0;
  for (const Suggestion* each : suggestions)
    width = std::max(width, std::min<size_t>(each->arguments.size(), 64));
  std::string text;
  for (const Suggestion* each : suggestions) text += format_suggestion(*each, width);
  return text;
}

// Formats the first suggestions for each effect on training.
std::string format_fitting(const std::vector<Suggestion>& suggestions) {
  std::vector<const Suggestion*> shown;
  std::map<Effect, size_t> counts;
  for (const Suggestion& each : suggestions) {
    if (each.fits && ++counts[each.effect] <= kMostOfAnEffect) shown.push_back(&each);
  }
  return format_suggestions(shown);
}

std::string format_not_fitting(const std::vector<Suggestion>& suggestions) {
  std::vector<const Suggestion*> shown;
  size_t count = 0;
  for (const Suggestion& each : suggestions) {
    if (!each.fits && ++count <= kMostNotEnough) shown.push_back(&each);
  }
  return format_suggestions(shown) +
         (count > kMostNotEnough ? fmt::format("\n    and {} more", count - kMostNotEnough) : "");
}

// Returns a line that states how much memory is missing in the smallest plan that was tried.
std::string describe_smallest(const std::vector<Suggestion>& suggestions, int64_t limit, bool trains) {
  const auto smallest = std::min_element(
      suggestions.begin(), suggestions.end(),
      [](const Suggestion& a, const Suggestion& b) { return a.total_bytes < b.total_bytes; });
  if (smallest == suggestions.end()) return {};
  return fmt::format("\n  the smallest of them needs {} MiB, {} more than the limit{}",
                     format_mib(smallest->total_bytes), format_shortage(smallest->total_bytes - limit),
                     trains ? "; `plimsoll fit` searches further" : "");
}

}  // namespace

std::vector<Suggestion> suggest_changes(const Plan& plan, const RunSpec& run, int64_t limit_bytes,
                                        const PlanLabels& labels) {
  return Search(plan, run, limit_bytes, labels).run();
}

std::string format_shortage(int64_t bytes) {
  return bytes < kMiB / 20 ? counted(bytes, "byte") : format_mib(bytes) + " MiB";
}

std::string describe_shortage(const Plan& plan, const RunSpec& run, const PlanLabels& labels) {
  if (plan.fits()) return {};
  return describe_shortage(plan, suggest_changes(plan, run, *plan.request.memory_limit_bytes, labels),
                           labels);
}

std::string describe_shortage(const Plan& plan, const std::vector<Suggestion>& suggestions,
                              const PlanLabels& labels) {
  const int64_t limit = *plan.request.memory_limit_bytes;
  const int64_t needed = plan.total_bytes();
  std::string message = fmt::format("will not fit: {} MiB needed, {} MiB allowed ({}), short by {}\n  {}",
                                    format_mib(needed), format_mib(limit), labels.memory_limit,
                                    format_shortage(needed - limit), describe_peak(memory_anatomy(plan)));
  const std::string fitting = format_fitting(suggestions);
  const std::string others = format_not_fitting(suggestions);
  if (!fitting.empty()) {
    const char* verb = plan.trains() ? "train" : "compute";
    message += fmt::format(
        "\n  fits with, fastest first: runs that {} the same, then runs that round differently, then runs "
        "that {} "
        "differently (estimated time per {}):{}",
        verb, verb, plan.request.generation.num_pages > 0 ? "new token" : "sample", fitting);
  }
  if (!others.empty())
    message += fmt::format("\n  {}not enough:{}",
                           fitting.empty() ? "none of the plans that were tried fits; " : "", others);
  if (fitting.empty()) message += describe_smallest(suggestions, limit, plan.trains());
  if (fitting.empty() && labels.memory_limit != "--memory_limit")
    message += "\n  use a smaller model or a larger device";
  else if (fitting.empty())
    message += fmt::format("\n  use a smaller model, or raise the limit: --memory_limit {}MiB",
                           mib_rounded_up(needed));
  return message;
}

void require_fit(const Plan& plan, const RunSpec& run, const PlanLabels& labels) {
  if (!plan.fits()) throw Error(ErrorCode::kWillNotFit, describe_shortage(plan, run, labels));
}

}  // namespace plimsoll
