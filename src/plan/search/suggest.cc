#include "plan/search/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "plan/anatomy/memory.h"
#include "plan/anatomy/operations.h"

namespace plimsoll {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kShortestSequence = 16;

int64_t mib_up(int64_t bytes) {
  return (bytes + kMiB - 1) / kMiB;
}

// A changed request and the words that ask for it.
struct Candidate {
  std::vector<std::string> arguments = {};
  std::vector<std::string> notes = {};
  PlanRequest request = {};
};

void add_note(Candidate& candidate, std::string note) {
  auto& notes = candidate.notes;
  if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(std::move(note));
}

// A batch of that many sequences holds at most so many tokens: never more than the larger batch did.
Bucket with_sequences(Bucket bucket, int64_t sequences) {
  bucket.tokens = std::min(bucket.tokens, sequences * bucket.longest);
  bucket.sequences = sequences;
  return bucket;
}

Bucket with_longest(Bucket bucket, int64_t longest) {
  bucket.longest = std::min(bucket.longest, longest);
  bucket.tokens = std::min(bucket.tokens, bucket.sequences * bucket.longest);
  return bucket;
}

void use_micro_batch(Candidate& candidate, int64_t sequences) {
  PlanRequest& request = candidate.request;
  const int64_t effective = request.train_bucket.sequences * request.gradient_accumulation_steps;
  if (request.gradient_accumulation_steps == 1)
    add_note(candidate, "same effective batch; gradients then accumulate");
  request.train_bucket = with_sequences(request.train_bucket, sequences);
  request.gradient_accumulation_steps = effective / sequences;
  candidate.arguments.push_back(
      fmt::format("--per_device_train_batch_size {} --gradient_accumulation_steps {}", sequences,
                  request.gradient_accumulation_steps));
}

void use_evaluation_batch(Candidate& candidate, int64_t sequences) {
  candidate.request.evaluate_bucket = with_sequences(candidate.request.evaluate_bucket, sequences);
  candidate.arguments.push_back(fmt::format("--per_device_eval_batch_size {}", sequences));
}

void use_length(Candidate& candidate, int64_t longest) {
  candidate.request.train_bucket = with_longest(candidate.request.train_bucket, longest);
  candidate.request.evaluate_bucket = with_longest(candidate.request.evaluate_bucket, longest);
  candidate.arguments.push_back(fmt::format("--max_seq_length {}", longest));
  add_note(candidate, "cuts longer texts");
}

void use_sgd(Candidate& candidate) {
  candidate.request.optimizer.kind = OptimizerKind::kSgd;
  candidate.request.optimizer.momentum = 0.0;
  candidate.arguments.emplace_back("--optim sgd");
  add_note(candidate, "trains differently");
}

void use_bf16(Candidate& candidate) {
  candidate.request.dtype = DType::kBF16;
  candidate.arguments.emplace_back("--bf16");
  add_note(candidate, "rounds differently");
}

// Smaller micro-batches that divide the effective batch, largest first.
std::vector<int64_t> smaller_micro_batches(const PlanRequest& request) {
  const int64_t batch = request.train_bucket.sequences;
  const int64_t effective = batch * request.gradient_accumulation_steps;
  std::vector<int64_t> sizes;
  for (int64_t size = batch / 2; size >= 1; --size) {
    // A half or less each time keeps the number of plans logarithmic.
    if (effective % size == 0 && (sizes.empty() || size <= sizes.back() / 2)) sizes.push_back(size);
  }
  return sizes;
}

std::vector<int64_t> halves(int64_t from, int64_t down_to) {
  std::vector<int64_t> sizes;
  for (int64_t size = from / 2; size >= down_to; size /= 2) sizes.push_back(size);
  return sizes;
}

class Search {
 public:
  Search(const Plan& plan, int64_t limit) : plan_(plan), limit_(limit), own_ms_(ms_per_sample(plan)) {}

  std::vector<Suggestion> run() {
    const PlanRequest& request = plan_.request;
    if (plan_.train) {
      try_sizes(smaller_micro_batches(request), use_micro_batch);
      if (request.dtype == DType::kF32 && has_bf16_products(request.isa)) try_one(use_bf16);
    }
    if (evaluation_is_larger()) try_sizes(halves(request.evaluate_bucket.sequences, 1), use_evaluation_batch);
    try_sizes(halves(longest(), kShortestSequence), use_length);
    if (has_states()) try_one(use_sgd);
    const auto fits = [](const Suggestion& s) { return s.fits; };
    if (std::none_of(found_.begin(), found_.end(), fits)) try_combined();
    std::stable_sort(found_.begin(), found_.end(), [](const Suggestion& a, const Suggestion& b) {
      if (a.fits != b.fits) return a.fits;
      return a.fits ? a.relative_time < b.relative_time : a.total_bytes < b.total_bytes;
    });
    return std::move(found_);
  }

 private:
  Candidate start() const {
    Candidate candidate{.request = plan_.request};
    candidate.request.passes.dump = nullptr;
    return candidate;
  }

  int64_t longest() const {
    const int64_t train = plan_.train ? plan_.request.train_bucket.longest : 0;
    return std::max(train, plan_.evaluate ? plan_.request.evaluate_bucket.longest : 0);
  }

  bool evaluation_is_larger() const {
    return plan_.evaluate && (!plan_.train || plan_.evaluate->transient_bytes > plan_.train->transient_bytes);
  }

  static double ms_per_sample(const Plan& plan) {
    const OperationsAnatomy operations = operations_anatomy(plan);
    return operations.samples > 0 ? operations.total().ms / static_cast<double>(operations.samples) : 0.0;
  }

  // Nothing where the combination is refused by name, such as a type that no kernel computes in.
  std::optional<Suggestion> planned(const Candidate& candidate) const {
    try {
      const Plan plan = build_plan(candidate.request);
      Suggestion suggestion{.arguments = fmt::format("{}", fmt::join(candidate.arguments, " ")),
                            .total_bytes = plan.total_bytes(),
                            .fits = plan.total_bytes() <= limit_,
                            .note = fmt::format("{}", fmt::join(candidate.notes, ", "))};
      if (own_ms_ > 0) suggestion.relative_time = ms_per_sample(plan) / own_ms_;
      return suggestion;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUsage) throw;
      return std::nullopt;
    }
  }

  template <typename Change>
  void try_one(Change change) {
    Candidate candidate = start();
    change(candidate);
    if (std::optional<Suggestion> suggestion = planned(candidate)) found_.push_back(std::move(*suggestion));
  }

  // The first size that fits, else the one that needs least.
  template <typename Change>
  void try_sizes(const std::vector<int64_t>& sizes, Change change) {
    std::optional<Suggestion> best;
    for (int64_t size : sizes) {
      Candidate candidate = start();
      change(candidate, size);
      std::optional<Suggestion> suggestion = planned(candidate);
      if (!suggestion) continue;
      if (!best || suggestion->total_bytes < best->total_bytes) best = std::move(suggestion);
      if (best->fits) break;
    }
    if (best) found_.push_back(std::move(*best));
  }

  // One change after the other, each kept, until the sum of them fits; first with smaller micro-batches, then
  // without, because gradients that accumulate may cost more than a smaller micro-batch saves.
  void try_combined() {
    std::optional<Suggestion> smallest;
    for (const bool smaller_batches : {true, false}) {
      Candidate candidate = start();
      if (smaller_batches && plan_.train && plan_.request.train_bucket.sequences > 1)
        use_micro_batch(candidate, 1);
      if (evaluates_batches()) use_evaluation_batch(candidate, 1);
      if (combined_fits(candidate, smallest)) break;
      if (has_states()) use_sgd(candidate);
      if (has_states() && combined_fits(candidate, smallest)) break;
      bool fits = false;
      for (int64_t size : halves(longest(), kShortestSequence)) {
        Candidate shorter = candidate;
        use_length(shorter, size);
        fits = combined_fits(shorter, smallest);
        if (fits) break;
      }
      if (fits) break;
    }
    if (smallest) found_.push_back(std::move(*smallest));
  }

  bool has_states() const { return plan_.train && !optimizer_state_names(plan_.request.optimizer).empty(); }
  bool evaluates_batches() const { return plan_.evaluate && plan_.request.evaluate_bucket.sequences > 1; }

  // Plans several changes together; single ones were planned before.
  bool combined_fits(const Candidate& candidate, std::optional<Suggestion>& smallest) const {
    if (candidate.arguments.size() < 2) return false;
    std::optional<Suggestion> suggestion = planned(candidate);
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
    text += fmt::format("\n    {:<{}}  {:>6} MiB  {:>+4.0f} % time{}", s.arguments, width,
                        mib_up(s.total_bytes), change, s.note.empty() ? "" : "  (" + s.note + ")");
  }
  return text;
}

}  // namespace

std::vector<Suggestion> suggest_changes(const Plan& plan, int64_t limit_bytes) {
  return Search(plan, limit_bytes).run();
}

void require_fit(const Plan& plan) {
  if (!plan.request.memory_limit_bytes || plan.total_bytes() <= *plan.request.memory_limit_bytes) return;
  const int64_t limit = *plan.request.memory_limit_bytes;
  const int64_t needed = mib_up(plan.total_bytes());
  const int64_t allowed = limit / kMiB;
  std::string message =
      fmt::format("will not fit: {} MiB needed, {} MiB allowed (--memory_limit), short by {} MiB\n  {}",
                  needed, allowed, needed - allowed, peak_words(memory_anatomy(plan)));
  const std::vector<Suggestion> suggestions = suggest_changes(plan, limit);
  const std::string fitting = list_text(suggestions, true);
  const std::string others = list_text(suggestions, false);
  if (!fitting.empty()) message += "\n  fits with, fastest first (estimated time a sample):" + fitting;
  if (!others.empty())
    message +=
        fmt::format("\n  {}not enough:{}", fitting.empty() ? "nothing that was planned fits; " : "", others);
  if (fitting.empty())
    message += fmt::format("\n  take a smaller model, or allow more: --memory_limit {}MiB", needed);
  throw Error(ErrorCode::kWillNotFit, message);
}

}  // namespace plimsoll
