#include "plan/search/fit_planner.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "plan/anatomy/operations.h"
#include "plan/compile/graphs.h"
#include "plan/compile/op_times.h"
#include "plan/search/budget.h"

namespace plimsoll {
namespace {

constexpr double kShareThatMoves = 0.98;

FitNeeds needs_of(const Plan& plan) {
  const OperationsAnatomy operations = operations_anatomy(plan);
  FitNeeds needs{.bytes = plan.total_bytes(), .least_bytes = plan.total_bytes()};
  if (operations.samples == 0) return needs;
  const auto samples = static_cast<double>(operations.samples);
  needs.ms_per_sample = operations.total().ms / samples;
  // Optimizer states in host memory are transferred twice per step, to the device and back. Both directions of the link are used at the
  // same time, except for some small states.
  const double link_ms = plan.is_on_gpu()
                             ? kShareThatMoves * static_cast<double>(plan.host_persistent_bytes) /
                                   link_bytes_per_ms(plan.request, LinkUse::kBothWays)
                             : 0;
  const double ops_ms = operations.total().ms - operations.group(OpGroup::kDataMovement).ms;
  needs.least_ms = std::max(ops_ms, link_ms) / samples;
  const double update_ms = operations.segment(Segment::kOptimizer).ms;
  needs.passes_ms = plan.request.update.in_backward ? 0 : (ops_ms - update_ms) / samples;
  return needs;
}

}  // namespace

FitPlanner::FitPlanner(const MethodSpace& space, const MethodSet& set, SharedGraphs& shared)
    : FitPlanner(space.run_with(set), shared) {}

FitPlanner::FitPlanner(RunSpec run, SharedGraphs& shared)
    : shared_(shared),
      run_(std::move(run)),
      recompute_(recompute_chosen(run_)),
      budget_bytes_(run_.arguments.recompute_budget.value_or(0)),
      request_(request_of(run_)) {
  run_.facts.passes.dump = nullptr;
}

bool FitPlanner::takes(const FitShape& shape) const {
  return shape.accumulation == 1 || !run_.arguments.optimizer_in_backward;
}

bool FitPlanner::fits(int64_t bytes) const {
  if (recompute_ == RecomputeChosen::kByBudget && bytes > budget_bytes_) return false;
  return !request_.memory_limit_bytes || bytes <= *request_.memory_limit_bytes;
}

void FitPlanner::set(const FitShape& shape) {
  RunSpec shaped = with_train_batch(run_, shape.micro_batch, shape.accumulation);
  if (shape.longest != run_.facts.train_bucket.longest)
    shaped = with_longest(std::move(shaped), shape.longest);
  request_ = request_of(shaped);
}

FitNeeds FitPlanner::placed_with(const FitShape& shape, RecomputePolicy policy) {
  set(shape);
  request_.offload.early_states = request_.offload.saved_in_headroom = false;
  if (recompute_ != RecomputeChosen::kByPolicy) request_.recompute = {.policy = policy};
  const bool accumulates = shape.accumulation > 1;
  Graphs& graphs =
      graphs_[{accumulates, chunks_loss(request_, request_.batches.train), request_.recompute.policy}];
  const bool is_first = !graphs.placer;
  if (is_first) graphs.placer.emplace(request_, finish_graphs(request_, shared_.begun(request_)));
  const auto start = std::chrono::steady_clock::now();
  const FitNeeds needs = needs_of(graphs.placer->place(sizes_of(request_)));
  if (is_first) graphs = {.placer = std::move(graphs.placer), .built_for = shape, .own_needs = needs};
  ++num_plans_;
  plan_ms_ += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return needs;
}

FitNeeds FitPlanner::placed(const FitShape& shape) {
  switch (recompute_) {
    case RecomputeChosen::kByPolicy:
      return placed_with(shape, request_.recompute.policy);
    case RecomputeChosen::kSelective: {
      FitNeeds needs = placed_with(shape, RecomputePolicy::kCheap);
      if (!fits(needs.bytes)) needs.least_bytes = placed_with(shape, RecomputePolicy::kFull).bytes;
      return needs;
    }
    case RecomputeChosen::kByBudget:
      break;
  }
  FitNeeds needs = placed_with(shape, RecomputePolicy::kFull);
  needs.least_ms = placed_with(shape, RecomputePolicy::kNone).least_ms;
  return needs;
}

FitNeeds FitPlanner::built_with(const FitShape& shape, RecomputeChoice choice) {
  set(shape);
  request_.recompute = std::move(choice);
  const auto it = graphs_.find(
      {shape.accumulation > 1, chunks_loss(request_, request_.batches.train), request_.recompute.policy});
  const bool is_placed = (!request_.update.offload_states || !request_.offload.early_states) &&
                         (!request_.offload.activations || !request_.offload.saved_in_headroom) &&
                         request_.recompute.kept_of_block.empty();
  if (is_placed && it != graphs_.end() && it->second.built_for == shape) return it->second.own_needs;
  ++num_plans_;
  return needs_of(build_plan(request_, shared_));
}

std::optional<FitNeeds> FitPlanner::built(const FitShape& shape) {
  set(shape);
  if (recompute_ == RecomputeChosen::kByPolicy) return built_with(shape, request_.recompute);
  request_.recompute = {};
  try {
    BudgetChoice found = choose_recompute_of(run_, request_);
    num_plans_ += found.num_plans;
    return built_with(shape, std::move(found.best.choice));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kWillNotFit) throw;
    return std::nullopt;
  }
}

int64_t FitPlanner::sure_bytes(const FitShape& shape) {
  set(shape);
  request_.offload.early_states = request_.offload.saved_in_headroom = false;
  if (recompute_ == RecomputeChosen::kByBudget) request_.recompute = {.policy = RecomputePolicy::kFull};
  const auto it = graphs_.find(
      {shape.accumulation > 1, chunks_loss(request_, request_.batches.train), request_.recompute.policy});
  if (it != graphs_.end() && it->second.built_for == shape) return it->second.own_needs.bytes;
  ++num_plans_;
  return place_plan(request_, finish_graphs(request_, shared_.begun(request_))).total_bytes();
}

namespace {

// Returns the largest value from `low` to `high` for which the batch shape fits, or low - 1. Bisection finds a value with placed(), which
// is fast because its graphs already exist. The value is then reduced until a complete plan confirms that the shape fits: a complete plan
// orders its ops for exactly this batch size, and may need a little more memory.
template <typename MakeShape>
int64_t largest(FitPlanner& planner, int64_t low, int64_t high, MakeShape make_shape) {
  int64_t good = low - 1;
  int64_t bad = high + 1;
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    (planner.fits(planner.placed(make_shape(middle)).bytes) ? good : bad) = middle;
  }
  while (good >= low && !planner.fits(planner.sure_bytes(make_shape(good))))
    good -= std::max<int64_t>(1, good / 512);
  return good;
}

}  // namespace

FitLimits find_limits(FitPlanner& planner, const FitShape& shape, int64_t most_sequences,
                      int64_t most_tokens) {
  FitLimits limits{.largest_batch = shape.accumulation == 1 ? shape.micro_batch : 0,
                   .longest_sequence = shape.longest};
  // Graphs are built for the first batch shape that is requested. Their order of ops also suits similar shapes.
  planner.placed({shape.micro_batch, 1, shape.longest});
  if (planner.takes(shape)) planner.placed(shape);
  limits.largest_batch =
      std::max(limits.largest_batch, largest(planner, 1, most_sequences, [&](int64_t batch) {
                 return FitShape{batch, 1, shape.longest};
               }));
  const int64_t most = std::max(shape.longest, most_tokens);
  limits.longest_sequence =
      std::max(limits.longest_sequence, largest(planner, shape.longest, most, [&](int64_t tokens) {
                 return FitShape{shape.micro_batch, shape.accumulation, tokens};
               }));
  return limits;
}

}  // namespace plimsoll
