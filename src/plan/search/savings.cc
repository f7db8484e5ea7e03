#include "plan/search/suggest.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/run_on_threads.h"
#include "plan/search/method_space.h"

namespace plimsoll {
namespace {

constexpr size_t kMostSavings = 3;

// Returns the largest micro-batch below the current one that may save memory. If the run has one micro-batch per step, a smaller one makes
// accumulation necessary: gradients are kept between micro-batches and take as many bytes as fp32 weights. If that is more than half of the
// transient bytes, only a micro-batch of one sequence may still save memory.
std::optional<int64_t> smaller_micro_batch(const Plan& plan) {
  const std::vector<int64_t> sizes = smaller_micro_batches(plan.request);
  if (sizes.empty()) return std::nullopt;
  if (plan.request.batches.accumulation_steps > 1) return sizes.front();
  const int64_t gradient_bytes = plan.num_trainable_parameters() * dtype_bytes(DType::kF32);
  return plan.programs.at(kTrainProgram).transient_bytes / 2 > gradient_bytes ? sizes.front() : sizes.back();
}

std::vector<Change> changes_to_try(const Plan& plan, const RunSpec& run) {
  const PlanRequest& request = plan.request;
  std::vector<Change> changes;
  const auto add = [&](auto make) {
    changes.emplace_back(run);
    make(changes.back());
  };
  const auto add_method = [&](std::string_view name) {
    const MethodSet alone = MethodSet().with(*find_method(name));
    if (request.train && changed_request(run, alone)) add([&](Change& change) { change.use_methods(alone); });
  };
  add_method("bf16");
  if (evaluation_is_larger(plan)) {
    // If evaluation needs more memory than training, only a smaller evaluation batch can reduce the total.
    const std::vector<int64_t> sizes = smaller_evaluation_batches(request);
    if (!sizes.empty()) add([&](Change& change) { change.use_evaluation_batch(sizes.front()); });
  } else if (const std::optional<int64_t> sequences = smaller_micro_batch(plan)) {
    add([&](Change& change) { change.use_micro_batch(*sequences); });
  }
  if (!evaluation_is_larger(plan) && !stronger_policies(request).empty()) {
    add([](Change& change) { change.use_recompute(RecomputePolicy::kFull); });
  }
  if (has_many_logits(request, request.batches.train.sequences)) add_method("chunked_loss");
  // Updates in the backward pass require that gradients are not clipped. If the run does not clip them anyway, this change does not
  // affect the result.
  if (run.arguments.max_grad_norm == 0.0) add_method("optimizer_in_backward");
  if (can_copy_at_use(plan)) add_method("copies_at_use");
  const std::vector<int64_t> lengths = shorter_lengths(request);
  if (!lengths.empty()) add([&](Change& change) { change.use_length(lengths.front()); });
  if (!optimizer_state_names(request.update.optimizer).empty()) add_method("sgd");
  return changes;
}

}  // namespace

std::vector<Suggestion> cheapest_savings(const Plan& plan, const RunSpec& run, SharedGraphs& shared,
                                         int num_threads) {
  const int64_t total = plan.total_bytes();
  const double own_ms = ms_per_sample(plan);
  const std::vector<Change> changes = changes_to_try(plan, run);
  std::vector<std::optional<PlanRequest>> requests;
  for (const Change& change : changes) {
    requests.push_back(change.request());
    if (requests.back()) shared.announce(*requests.back());
  }
  std::vector<std::optional<Suggestion>> planned(changes.size());
  for_each_of(changes.size(), std::max(1, num_threads), [&](size_t i) {
    if (requests[i]) planned[i] = changes[i].planned(*requests[i], total, own_ms, shared);
  });
  std::vector<Suggestion> found;
  for (std::optional<Suggestion>& suggestion : planned) {
    if (suggestion && total - suggestion->total_bytes >= total / 100) found.push_back(std::move(*suggestion));
  }
  const auto saved_per_percent = [&](const Suggestion& suggestion) {
    const double percent = std::max(1.0, 100.0 * (suggestion.relative_time - 1.0));
    return static_cast<double>(total - suggestion.total_bytes) / percent;
  };
  std::stable_sort(found.begin(), found.end(), [&](const Suggestion& a, const Suggestion& b) {
    const bool a_differs = a.effect == Effect::kOtherModel;
    const bool b_differs = b.effect == Effect::kOtherModel;
    if (a_differs != b_differs) return b_differs;
    return saved_per_percent(a) > saved_per_percent(b);
  });
  if (found.size() > kMostSavings) found.resize(kMostSavings);
  return found;
}

}  // namespace plimsoll
