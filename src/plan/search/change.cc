#include "plan/search/change.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "plan/anatomy/operations.h"
#include "plan/compile/generation_sizes.h"
#include "plan/search/budget.h"
#include "plan/search/method_set.h"
#include "plan/search/shared_graphs.h"

namespace plimsoll {
namespace {

constexpr int64_t kShortestSequence = 16;

std::vector<int64_t> halves(int64_t from, int64_t down_to) {
  std::vector<int64_t> sizes;
  for (int64_t size = from / 2; size >= down_to; size /= 2) sizes.push_back(size);
  return sizes;
}

}  // namespace

Change::Change(RunSpec run, PlanLabels labels) : run_(std::move(run)), labels_(std::move(labels)) {
  run_.facts.passes.dump = nullptr;
  // Plans with changed arguments are never executed, because a user who follows a suggestion starts a new run. Therefore their graphs
  // are not verified.
  if (run_.facts.passes.verification == Verification::kOnce)
    run_.facts.passes.verification = Verification::kNever;
}

void Change::note(std::string text) {
  if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(std::move(text));
}

void Change::use_micro_batch(int64_t sequences) {
  const int64_t accumulation = run_.arguments.gradient_accumulation_steps;
  const int64_t effective = run_.facts.train_bucket.sequences * accumulation;
  PLIMSOLL_CHECK(sequences > 0 && effective % sequences == 0,
                 "a micro-batch must divide the sequences of a step, but has {} of {}", sequences, effective);
  if (accumulation == 1) note("same effective batch; gradients then accumulate");
  run_ = with_train_batch(std::move(run_), sequences, effective / sequences);
  arguments_.push_back(fmt::format("--per_device_train_batch_size {} --gradient_accumulation_steps {}",
                                   sequences, effective / sequences));
}

void Change::use_evaluation_batch(int64_t sequences) {
  run_ = with_evaluate_batch(std::move(run_), sequences);
  arguments_.push_back(fmt::format("--per_device_eval_batch_size {}", sequences));
}

void Change::use_length(int64_t longest) {
  run_ = with_longest(std::move(run_), longest);
  arguments_.push_back(fmt::format("{} {}", labels_.length_argument, longest));
  note(labels_.shorter_effect);
  effect_ = Effect::kOtherModel;
}

void Change::use_prompts_at_once(int64_t prompts) {
  GenerationSizes sizes = run_.facts.generation;
  sizes.prompts_at_once = prompts;
  run_ = with_generation(std::move(run_), sizes);
  arguments_.push_back(fmt::format("--per_device_eval_batch_size {}", prompts));
}

void Change::use_sequences_per_prompt(int64_t sequences) {
  const bool are_beams = run_.arguments.num_beams.value_or(1) > 1;
  run_ = with_generation(run_, generation_with_sequences(run_.facts, sequences));
  (are_beams ? run_.arguments.num_beams : run_.arguments.num_return_sequences) = sequences;
  arguments_.push_back(fmt::format("--{} {}", are_beams ? "num_beams" : "num_return_sequences", sequences));
  note(are_beams ? "a narrower search" : "fewer texts");
  effect_ = Effect::kOtherModel;
}

void Change::use_new_tokens(int64_t tokens) {
  GenerationSizes sizes = run_.facts.generation;
  sizes.max_new_tokens = tokens;
  run_ = with_generation(std::move(run_), sizes);
  run_.arguments.max_new_tokens = tokens;
  arguments_.push_back(fmt::format("--max_new_tokens {}", tokens));
  note("shorter texts");
  effect_ = Effect::kOtherModel;
}

void Change::use_16_bit_weights() {
  run_.arguments.bf16 = run_.arguments.fp16 = false;
  run_.arguments.bf16_full_eval = true;
  arguments_.emplace_back("--bf16_full_eval");
  note("weights in bf16");
  effect_ = std::max(effect_, Effect::kRounding);
}

void Change::use_recompute(RecomputePolicy policy) {
  // If the arguments already name a policy, the added argument replaces it, because the last of several equal arguments counts.
  const bool is_named = run_.arguments.recompute == recompute_policy_name(RecomputePolicy::kNone) ||
                        run_.facts.recompute.has_value();
  run_ = with_recompute(std::move(run_), policy);
  arguments_.push_back(policy == RecomputePolicy::kFull && !is_named
                           ? "--gradient_checkpointing"
                           : fmt::format("--recompute {}", recompute_policy_name(policy)));
  // With 16-bit activations, recomputation changes rounding: the recomputed values are computed from normalized values that were rounded
  // to 16 bits.
  if (request_of(run_).precision.activation_dtype) effect_ = std::max(effect_, Effect::kRounding);
}

void Change::use_zero_stage(ZeroStage stage) {
  run_.arguments.zero_stage = static_cast<int64_t>(stage);
  arguments_.push_back(fmt::format("--zero_stage {}", static_cast<int>(stage)));
}

void Change::use_sequence_parallel() {
  run_.arguments.sequence_parallel = true;
  arguments_.emplace_back("--sequence_parallel");
}

void Change::use_methods(const MethodSet& all) {
  // If a search has chosen individual values to recompute for this run, checkpointing replaces this selection.
  const bool replaces_choice = all.has("checkpointing") && run_.facts.recompute;
  if (replaces_choice) use_recompute(RecomputePolicy::kFull);
  const MethodSet set = replaces_choice ? all.without_kind("recompute") : all;
  if (set.empty()) return;
  const Effect effect = effect_of(set, request_of(run_));
  std::vector<std::string> words = words_of(set, run_);
  // Leaves out the value True, because a flag needs no value on the command line.
  std::erase(words, "True");
  run_ = with_methods(run_, set);
  arguments_.push_back(fmt::format("{}", fmt::join(words, " ")));
  if (effect == Effect::kRounding) note("rounds differently");
  if (effect == Effect::kOtherModel) note("trains differently");
  if (set.has("pure_bf16")) note("weights without fp32 masters");
  effect_ = std::max(effect_, effect);
}

void Change::use_recompute_budget(int64_t limit_bytes) {
  const PlanRequest request = request_of(run_);
  RecomputeChoice choice;
  try {
    choice = choose_recompute(request, limit_bytes / kMiB * kMiB).best.choice;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kWillNotFit) throw;
    return use_recompute(RecomputePolicy::kFull);
  }
  run_ = with_recompute(std::move(run_), RecomputePolicy::kCheap);
  run_.facts.recompute = std::move(choice);
  arguments_.push_back(fmt::format("--recompute_budget {}MiB", limit_bytes / kMiB));
  if (request.precision.activation_dtype) effect_ = std::max(effect_, Effect::kRounding);
}

namespace {

// Returns the result of a call, or nothing if it throws an error of kind kUsage.
template <typename Make>
auto unless_refused(const Make& make) -> std::optional<decltype(make())> {
  try {
    return make();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUsage) throw;
    return std::nullopt;
  }
}

}  // namespace

std::optional<PlanRequest> Change::request() const {
  return unless_refused([&] { return request_of(run_); });
}

std::optional<Suggestion> Change::planned(int64_t limit_bytes, double own_ms) const {
  return unless_refused([&] { return suggestion_of(build_plan(request_of(run_)), limit_bytes, own_ms); });
}

std::optional<Suggestion> Change::planned(const PlanRequest& request, int64_t limit_bytes, double own_ms,
                                          SharedGraphs& shared) const {
  return unless_refused([&] { return suggestion_of(build_plan(request, shared), limit_bytes, own_ms); });
}

Suggestion Change::suggestion_of(const Plan& plan, int64_t limit_bytes, double own_ms) const {
  Suggestion suggestion{.arguments = fmt::format("{}", fmt::join(arguments_, " ")),
                        .total_bytes = plan.total_bytes(),
                        .fits = plan.total_bytes() <= limit_bytes,
                        .note = fmt::format("{}", fmt::join(notes_, ", ")),
                        .effect = effect_};
  if (own_ms > 0) suggestion.relative_time = ms_per_sample(plan) / own_ms;
  return suggestion;
}

double ms_per_sample(const Plan& plan) {
  if (plan.request.generation.num_pages > 0) {
    const double per_second = generation_estimate(plan).new_tokens_per_s;
    return per_second > 0 ? 1e3 / per_second : 0.0;
  }
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

std::vector<int64_t> fewer_prompts_at_once(const PlanRequest& request) {
  return halves(request.generation.num_pages > 0 ? request.generation.sizes.prompts_at_once : 0, 1);
}

std::vector<int64_t> fewer_sequences_per_prompt(const PlanRequest& request) {
  const GenerationSizes& sizes = request.generation.sizes;
  const bool are_texts = sizes.texts_per_prompt == sizes.sequences_per_prompt;
  // Beam search returns at most as many texts as it has beams, so the number of beams stays at least the number of texts.
  return halves(sizes.sequences_per_prompt, are_texts ? 1 : sizes.texts_per_prompt);
}

std::vector<int64_t> fewer_new_tokens(const PlanRequest& request) {
  return halves(request.generation.sizes.max_new_tokens, kShortestSequence);
}

std::vector<ZeroStage> higher_zero_stages(const PlanRequest& request) {
  const bool is_divisible = request.update.optimizer.kind != OptimizerKind::kAdafactor &&
                            !request.update.in_backward && !request.update.offload_states;
  std::vector<ZeroStage> stages;
  if (!request.train || request.ranks.data_size() == 1 || request.ranks.updates_on_first || !is_divisible)
    return stages;
  for (const ZeroStage stage : {ZeroStage::kStates, ZeroStage::kGradients, ZeroStage::kWeights}) {
    if (stage > request.ranks.zero_stage) stages.push_back(stage);
  }
  return stages;
}

std::vector<RecomputePolicy> stronger_policies(const PlanRequest& request) {
  std::vector<RecomputePolicy> policies;
  if (!request.train || !request.passes.is_on("recompute")) return policies;
  // Only policies that recompute more than the request are returned. A request that selects individual values recomputes less than the
  // policy kFull, so only kFull is returned for it.
  const bool is_mixed = !request.recompute.kept_of_block.empty();
  for (const RecomputePolicy policy : {RecomputePolicy::kCheap, RecomputePolicy::kFull}) {
    if (is_mixed ? policy == RecomputePolicy::kFull : policy > request.recompute.policy)
      policies.push_back(policy);
  }
  return policies;
}

bool can_copy_at_use(const Plan& plan) {
  return !plan.request.precision.copies_at_use && !plan.weight_copies.empty();
}

bool evaluation_is_larger(const Plan& plan) {
  const ProgramPlan* train = plan.programs.find(kTrainProgram);
  const ProgramPlan* evaluate = plan.programs.find(kEvaluateProgram);
  return evaluate != nullptr && (train == nullptr || evaluate->transient_bytes > train->transient_bytes);
}

std::vector<BeamCost> beam_costs(const RunSpec& run, std::span<const int64_t> numbers) {
  std::vector<BeamCost> costs;
  for (const int64_t number : numbers) {
    RunSpec changed = with_generation(run, generation_with_sequences(run.facts, number));
    changed.facts.passes.dump = nullptr;
    const Plan plan = build_plan(request_of(changed));
    costs.push_back({.num_beams = number,
                     .cache = cache_anatomy(plan),
                     .arena_bytes = plan.arena_bytes,
                     .total_bytes = plan.total_bytes(),
                     .fits = plan.fits(),
                     .estimate = generation_estimate(plan)});
  }
  return costs;
}

}  // namespace plimsoll
