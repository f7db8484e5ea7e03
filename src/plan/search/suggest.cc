#include "plan/search/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/counted.h"
#include "base/units.h"
#include "plan/anatomy/memory.h"

namespace plimsoll {
namespace {

// A limit that is enough, in whole MiB.
int64_t mib_up(int64_t bytes) {
  return (bytes + kMiB - 1) / kMiB;
}

// As the table of the plan rounds.
std::string mib_text(int64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / kMiB);
}

// Time says nothing of what is lost where texts are cut or another optimizer trains.
bool trains_differently(const Suggestion& suggestion) {
  return suggestion.effect == Effect::kOtherModel;
}

class Search {
 public:
  Search(const Plan& plan, int64_t limit) : plan_(plan), limit_(limit), own_ms_(ms_per_sample(plan)) {}

  std::vector<Suggestion> run() {
    const PlanRequest& request = plan_.request;
    try_sizes(smaller_micro_batches(request), &Change::use_micro_batch);
    try_recomputing();
    if (can_update_in_backward(request)) try_one(&Change::use_optimizer_in_backward);
    if (can_copy_at_use(plan_)) try_one(&Change::use_copies_at_use);
    if (can_use_bf16(request)) try_one(&Change::use_bf16);
    if (evaluation_is_larger(plan_))
      try_sizes(smaller_evaluation_batches(request), &Change::use_evaluation_batch);
    try_sizes(shorter_lengths(request), &Change::use_length);
    if (can_use_sgd(request)) try_one(&Change::use_sgd);
    const auto fits = [](const Suggestion& s) { return s.fits; };
    if (std::none_of(found_.begin(), found_.end(), fits)) try_combined();
    std::stable_sort(found_.begin(), found_.end(), [](const Suggestion& a, const Suggestion& b) {
      if (a.fits != b.fits) return a.fits;
      if (a.fits && trains_differently(a) != trains_differently(b)) return trains_differently(b);
      return a.fits ? a.relative_time < b.relative_time : a.total_bytes < b.total_bytes;
    });
    return std::move(found_);
  }

 private:
  void try_one(void (Change::*make)()) {
    Change change(plan_.request);
    (change.*make)();
    if (std::optional<Suggestion> suggestion = change.planned(limit_, own_ms_))
      found_.push_back(std::move(*suggestion));
  }

  // The mildest policy that fits, else the strongest; and where one fits that is not the mildest, the choice
  // between the policies that uses the limit up, if it is faster.
  void try_recomputing() {
    std::optional<Suggestion> best;
    for (const RecomputePolicy policy : stronger_policies(plan_.request)) {
      Change change(plan_.request);
      change.use_recompute(policy);
      std::optional<Suggestion> suggestion = change.planned(limit_, own_ms_);
      if (!suggestion) continue;
      if (!best || suggestion->total_bytes < best->total_bytes) best = std::move(suggestion);
      if (best->fits) break;
    }
    if (!best) return;
    if (best->fits) {
      Change change(plan_.request);
      change.use_recompute_budget(limit_);
      std::optional<Suggestion> mixed = change.planned(limit_, own_ms_);
      if (mixed && mixed->fits && mixed->relative_time < best->relative_time)
        found_.push_back(std::move(*mixed));
    }
    found_.push_back(std::move(*best));
  }

  // The first size that fits, else the one that needs least.
  void try_sizes(const std::vector<int64_t>& sizes, void (Change::*make)(int64_t)) {
    std::optional<Suggestion> best;
    for (int64_t size : sizes) {
      Change change(plan_.request);
      (change.*make)(size);
      std::optional<Suggestion> suggestion = change.planned(limit_, own_ms_);
      if (!suggestion) continue;
      if (!best || suggestion->total_bytes < best->total_bytes) best = std::move(suggestion);
      if (best->fits) break;
    }
    if (best) found_.push_back(std::move(*best));
  }

  // One change after the other, each kept, until the sum of them fits; first with smaller micro-batches, then
  // without, because gradients that accumulate may cost more than a smaller micro-batch saves.
  void try_combined() {
    const PlanRequest& request = plan_.request;
    std::optional<Suggestion> smallest;
    for (const bool smaller_batches : {true, false}) {
      Change change(request);
      if (smaller_batches && !smaller_micro_batches(request).empty()) change.use_micro_batch(1);
      if (!smaller_evaluation_batches(request).empty()) change.use_evaluation_batch(1);
      if (combined_fits(change, smallest)) break;
      if (!stronger_policies(request).empty()) change.use_recompute(RecomputePolicy::kFull);
      if (combined_fits(change, smallest)) break;
      if (can_use_sgd(request)) change.use_sgd();
      if (can_use_sgd(request) && combined_fits(change, smallest)) break;
      bool fits = false;
      for (int64_t size : shorter_lengths(request)) {
        Change shorter = change;
        shorter.use_length(size);
        fits = combined_fits(shorter, smallest);
        if (fits) break;
      }
      if (fits) break;
    }
    if (smallest) found_.push_back(std::move(*smallest));
  }

  // Plans several changes together; single ones were planned before.
  bool combined_fits(const Change& change, std::optional<Suggestion>& smallest) const {
    if (change.num_changes() < 2) return false;
    std::optional<Suggestion> suggestion = change.planned(limit_, own_ms_);
    if (!suggestion) return false;
    const bool fits = suggestion->fits;
    if (!smallest || suggestion->total_bytes < smallest->total_bytes) smallest = std::move(suggestion);
    return fits;
  }

  const Plan& plan_;
  int64_t limit_;
  double own_ms_;
  std::vector<Suggestion> found_;
};

// "optimizer states 2557, saved activations 1920, weights 1278": the purposes that hold the most, in MiB.
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

std::string peak_words(const MemoryAnatomy& anatomy) {
  const PhaseMemory& phase = anatomy.phases[anatomy.largest];
  std::string text = fmt::format("peak is in {}", phase_name(phase.phase));
  if (const PeakPlace* peak = anatomy.peak_of(phase.phase)) {
    const std::string module = module_words(peak->module);
    text += fmt::format(", {}{} ({}, op {} of {})", segment_name(peak->segment),
                        module.empty() ? "" : " of " + module, peak->op, peak->position + 1, peak->num_ops);
  }
  return text + ": " + largest_purposes(phase);
}

std::string list_text(const std::vector<Suggestion>& suggestions, bool fits) {
  size_t width = 0;
  for (const Suggestion& s : suggestions) width = std::max(width, std::min<size_t>(s.arguments.size(), 64));
  std::string text;
  for (const Suggestion& s : suggestions) {
    if (s.fits != fits) continue;
    const double change = 100.0 * (s.relative_time - 1.0);
    text += fmt::format("\n    {:<{}}  {:>8} MiB  {:>+4.0f} % time{}", s.arguments, width,
                        mib_text(s.total_bytes), change, s.note.empty() ? "" : "  (" + s.note + ")");
  }
  return text;
}

// By how much the smallest run that was planned is too large.
std::string smallest_words(const std::vector<Suggestion>& suggestions, int64_t limit) {
  const auto smallest = std::min_element(
      suggestions.begin(), suggestions.end(),
      [](const Suggestion& a, const Suggestion& b) { return a.total_bytes < b.total_bytes; });
  if (smallest == suggestions.end()) return {};
  return fmt::format(
      "\n  the smallest of them needs {} MiB, {} more than is allowed; `plimsoll fit` looks further",
      mib_text(smallest->total_bytes), shortage_words(smallest->total_bytes - limit));
}

}  // namespace

std::vector<Suggestion> suggest_changes(const Plan& plan, int64_t limit_bytes) {
  return Search(plan, limit_bytes).run();
}

std::string shortage_words(int64_t bytes) {
  return bytes < kMiB / 20 ? counted(bytes, "byte") : mib_text(bytes) + " MiB";
}

void require_fit(const Plan& plan) {
  if (plan.fits()) return;
  const int64_t limit = *plan.request.memory_limit_bytes;
  const int64_t needed = plan.total_bytes();
  std::string message = fmt::format("will not fit: {} MiB needed, {} MiB allowed ({}), short by {}\n  {}",
                                    mib_text(needed), mib_text(limit), plan.request.memory_limit_label,
                                    shortage_words(needed - limit), peak_words(memory_anatomy(plan)));
  const std::vector<Suggestion> suggestions = suggest_changes(plan, limit);
  const std::string fitting = list_text(suggestions, true);
  const std::string others = list_text(suggestions, false);
  if (!fitting.empty())
    message +=
        "\n  fits with, fastest first, what trains differently last (estimated time a sample):" + fitting;
  if (!others.empty())
    message +=
        fmt::format("\n  {}not enough:{}", fitting.empty() ? "nothing that was planned fits; " : "", others);
  if (fitting.empty()) message += smallest_words(suggestions, limit);
  if (fitting.empty() && plan.request.memory_limit_label != "--memory_limit")
    message += "\n  take a smaller model, or a larger device";
  else if (fitting.empty())
    message += fmt::format("\n  take a smaller model, or allow more: --memory_limit {}MiB", mib_up(needed));
  throw Error(ErrorCode::kWillNotFit, message);
}

}  // namespace plimsoll
