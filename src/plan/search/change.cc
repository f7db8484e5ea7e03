#include "plan/search/change.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "plan/anatomy/operations.h"
#include "plan/search/budget.h"
#include "plan/search/method_set.h"

namespace plimsoll {
namespace {

constexpr int64_t kShortestSequence = 16;

// Returns a bucket for this number of sequences. It never holds more tokens than the larger batch did.
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

std::vector<int64_t> halves(int64_t from, int64_t down_to) {
  std::vector<int64_t> sizes;
  for (int64_t size = from / 2; size >= down_to; size /= 2) sizes.push_back(size);
  return sizes;
}

}  // namespace

Change::Change(const PlanRequest& request, PlanLabels labels)
    : request_(request), labels_(std::move(labels)) {
  request_.passes.dump = nullptr;
}

void Change::note(std::string text) {
  if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(std::move(text));
}

void Change::use_micro_batch(int64_t sequences) {
  const int64_t effective = request_.batches.train.sequences * request_.batches.accumulation_steps;
  PLIMSOLL_CHECK(sequences > 0 && effective % sequences == 0, "{} sequences of {}", sequences, effective);
  if (request_.batches.accumulation_steps == 1) note("same effective batch; gradients then accumulate");
  request_.batches.train = with_sequences(request_.batches.train, sequences);
  request_.batches.accumulation_steps = effective / sequences;
  arguments_.push_back(fmt::format("--per_device_train_batch_size {} --gradient_accumulation_steps {}",
                                   sequences, request_.batches.accumulation_steps));
}

void Change::use_evaluation_batch(int64_t sequences) {
  request_.batches.evaluate = with_sequences(request_.batches.evaluate, sequences);
  arguments_.push_back(fmt::format("--per_device_eval_batch_size {}", sequences));
}

void Change::use_length(int64_t longest) {
  request_.batches.train = with_longest(request_.batches.train, longest);
  request_.batches.evaluate = with_longest(request_.batches.evaluate, longest);
  arguments_.push_back(fmt::format("{} {}", labels_.length_argument, longest));
  note(labels_.shorter_effect);
  effect_ = Effect::kOtherModel;
}

void Change::use_sgd() {
  request_.update.optimizer.kind = OptimizerKind::kSgd;
  request_.update.optimizer.momentum = 0.0;
  arguments_.emplace_back("--optim sgd");
  note("trains differently");
  effect_ = Effect::kOtherModel;
}

void Change::use_bf16() {
  request_.precision.activation_dtype = DType::kBF16;
  arguments_.emplace_back("--bf16");
  note("rounds differently");
  effect_ = std::max(effect_, Effect::kRounding);
}

void Change::use_optimizer_in_backward() {
  request_.update.in_backward = true;
  arguments_.emplace_back("--optimizer_in_backward");
}

void Change::use_copies_at_use() {
  request_.precision.copies_at_use = true;
  arguments_.emplace_back("--weight_copies at_use");
  // The pass rounds ties of bf16 differently.
  if (request_.precision.activation_dtype == DType::kBF16) effect_ = std::max(effect_, Effect::kRounding);
}

void Change::use_recompute(RecomputePolicy policy) {
  // If the arguments name another choice, the last argument counts.
  const bool is_named =
      request_.recompute.policy == RecomputePolicy::kNone || !request_.recompute.kept_of_block.empty();
  request_.recompute = {.policy = policy};
  arguments_.push_back(policy == RecomputePolicy::kFull && !is_named
                           ? "--gradient_checkpointing"
                           : fmt::format("--recompute {}", recompute_policy_name(policy)));
  // Normalized values are rounded before they are read again.
  if (request_.precision.activation_dtype) effect_ = std::max(effect_, Effect::kRounding);
}

void Change::use_methods(const MethodSet& set) {
  const Effect effect = effect_of(set, request_);
  std::vector<std::string> words = words_of(set, request_, 0);
  // A flag needs no value.
  std::erase(words, "True");
  std::optional<PlanRequest> changed = with_methods(request_, set);
  PLIMSOLL_CHECK(changed.has_value(), "{} cannot be requested", set.text());
  request_ = std::move(*changed);
  arguments_.push_back(fmt::format("{}", fmt::join(words, " ")));
  if (effect == Effect::kRounding) note("rounds differently");
  if (effect == Effect::kOtherModel) note("trains differently");
  if (set.has("pure_bf16")) note("weights without fp32 masters");
  effect_ = std::max(effect_, effect);
}

void Change::use_recompute_budget(int64_t limit_bytes) {
  try {
    request_.recompute = choose_recompute(request_, limit_bytes / kMiB * kMiB).best.choice;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kWillNotFit) throw;
    use_recompute(RecomputePolicy::kFull);
    return;
  }
  arguments_.push_back(fmt::format("--recompute_budget {}MiB", limit_bytes / kMiB));
  if (request_.precision.activation_dtype) effect_ = std::max(effect_, Effect::kRounding);
}

std::optional<Suggestion> Change::planned(int64_t limit_bytes, double own_ms) const {
  try {
    const Plan plan = build_plan(request_);
    Suggestion suggestion{.arguments = fmt::format("{}", fmt::join(arguments_, " ")),
                          .total_bytes = plan.total_bytes(),
                          .fits = plan.total_bytes() <= limit_bytes,
                          .note = fmt::format("{}", fmt::join(notes_, ", ")),
                          .effect = effect_};
    if (own_ms > 0) suggestion.relative_time = ms_per_sample(plan) / own_ms;
    return suggestion;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUsage) throw;
    return std::nullopt;
  }
}

double ms_per_sample(const Plan& plan) {
  const OperationsAnatomy operations = operations_anatomy(plan);
  return operations.samples > 0 ? operations.total().ms / static_cast<double>(operations.samples) : 0.0;
}

std::vector<int64_t> smaller_micro_batches(const PlanRequest& request) {
  if (!request.train || request.update.in_backward) return {};
  const int64_t batch = request.batches.train.sequences;
  const int64_t effective = batch * request.batches.accumulation_steps;
  std::vector<int64_t> sizes;
  for (int64_t size = batch / 2; size >= 1; --size) {
    if (effective % size == 0 && (sizes.empty() || size <= sizes.back() / 2)) sizes.push_back(size);
  }
  return sizes;
}

std::vector<int64_t> smaller_evaluation_batches(const PlanRequest& request) {
  if (!request.evaluate) return {};
  return halves(request.batches.evaluate.sequences, 1);
}

std::vector<int64_t> shorter_lengths(const PlanRequest& request) {
  const int64_t train = request.train ? request.batches.train.longest : 0;
  const int64_t evaluate = request.evaluate ? request.batches.evaluate.longest : 0;
  return halves(std::max(train, evaluate), kShortestSequence);
}

std::vector<RecomputePolicy> stronger_policies(const PlanRequest& request) {
  std::vector<RecomputePolicy> policies;
  if (!request.train || !request.passes.is_on("recompute")) return policies;
  // A choice value by value is between all policies.
  const bool is_mixed = !request.recompute.kept_of_block.empty();
  for (const RecomputePolicy policy : {RecomputePolicy::kCheap, RecomputePolicy::kFull}) {
    if (is_mixed ? policy == RecomputePolicy::kFull : policy > request.recompute.policy)
      policies.push_back(policy);
  }
  return policies;
}

bool can_use_bf16(const PlanRequest& request) {
  return request.train && request.precision.dtype == DType::kF32 && !request.precision.activation_dtype &&
         request.device.has_bf16();
}

bool can_use_sgd(const PlanRequest& request) {
  return request.train && !optimizer_state_names(request.update.optimizer).empty();
}

bool can_update_in_backward(const PlanRequest& request) {
  return request.train && !request.update.in_backward && request.update.optimizer.max_grad_norm == 0.0 &&
         request.batches.accumulation_steps == 1;
}

bool can_copy_at_use(const Plan& plan) {
  return !plan.request.precision.copies_at_use && !plan.weight_copies.empty();
}

bool evaluation_is_larger(const Plan& plan) {
  const ProgramPlan* train = plan.programs.find(kTrainProgram);
  const ProgramPlan* evaluate = plan.programs.find(kEvaluateProgram);
  return evaluate != nullptr && (train == nullptr || evaluate->transient_bytes > train->transient_bytes);
}

}  // namespace plimsoll
