// Changes to the arguments of a run that make its plan smaller.
// suggest.h decides which changes to try and to report. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/anatomy/generation.h"
#include "plan/compile/plan.h"
#include "plan/compile/plan_labels.h"
#include "plan/request/request_of.h"

namespace plimsoll {

// The effect of a change on the result of training.
enum class Effect : uint8_t {
  kNone,       // training computes the same sums, possibly in another order
  kRounding,   // values are rounded to another precision
  kOtherModel  // another optimizer or other texts, with which the model learns something else
};

// A changed set of arguments and the memory that it needs.
struct Suggestion {
  std::string arguments;    // the arguments as a user types them
  int64_t total_bytes = 0;  // bytes of the changed plan
  bool fits = false;
  double relative_time = 1;  // estimated time per sample, relative to the unchanged plan
  std::string note = {};     // other effects of the change, or why it does not help; may be empty
  Effect effect = Effect::kNone;
};

class MethodSet;
class SharedGraphs;

// A run whose arguments are changed by one call after the other.
class Change {
 public:
  // `labels` name the argument that sets the length of sequences.
  explicit Change(RunSpec run, PlanLabels labels = {});

  // Keeps the effective batch. Requires: `sequences` divides it.
  void use_micro_batch(int64_t sequences);
  void use_evaluation_batch(int64_t sequences);
  void use_length(int64_t longest);
  // Change the sizes of a run that generates texts. Requires: the request of the run has generation sizes.
  void use_prompts_at_once(int64_t prompts);
  void use_sequences_per_prompt(int64_t sequences);
  void use_new_tokens(int64_t tokens);
  void use_16_bit_weights();
  void use_recompute(RecomputePolicy policy);
  void use_zero_stage(ZeroStage stage);
  // Requires: the ranks divide layers.
  void use_sequence_parallel();
  // Applies training methods of the table in plimsoll/methods.h, except recompute_budget. Requires: the run accepts them (try_methods()).
  void use_methods(const MethodSet& all);
  // Recomputes as little as the limit allows, by choose_recompute(). If nothing fits, uses RecomputePolicy::kFull.
  void use_recompute_budget(int64_t limit_bytes);

  size_t num_changes() const { return arguments_.size(); }
  const RunSpec& run() const { return run_; }

  // Returns the request of the changed run, or nothing if the combination is refused by name.
  std::optional<PlanRequest> request() const;
  // Builds the plan. `own_ms` is ms_per_sample() of the unchanged plan. Returns nothing if the combination is refused by name, such as
  // a type that no kernel computes. Cost: one plan.
  std::optional<Suggestion> planned(int64_t limit_bytes, double own_ms) const;
  // Does the same from shared graphs. Requires: `request` is request().
  std::optional<Suggestion> planned(const PlanRequest& request, int64_t limit_bytes, double own_ms,
                                    SharedGraphs& shared) const;

 private:
  void note(std::string text);
  Suggestion suggestion_of(const Plan& plan, int64_t limit_bytes, double own_ms) const;

  RunSpec run_;
  PlanLabels labels_;
  std::vector<std::string> arguments_;
  std::vector<std::string> notes_;
  Effect effect_ = Effect::kNone;
};

// Returns the estimated time of a step divided by its samples, or, for a plan that generates texts, the time per new token. Returns 0 if
// the plan has no estimate.
double ms_per_sample(const Plan& plan);

// Return the sizes that changes try, largest first. Micro-batches divide the effective batch; each is at
// most half of the previous one, so that the number of plans is logarithmic.
std::vector<int64_t> smaller_micro_batches(const PlanRequest& request);
std::vector<int64_t> smaller_evaluation_batches(const PlanRequest& request);
std::vector<int64_t> shorter_lengths(const PlanRequest& request);
// The same for the sizes of a plan that generates texts. For other plans these functions return an empty list.
std::vector<int64_t> fewer_prompts_at_once(const PlanRequest& request);
std::vector<int64_t> fewer_sequences_per_prompt(const PlanRequest& request);
std::vector<int64_t> fewer_new_tokens(const PlanRequest& request);

// Returns the policies that recompute more than the request does, the mildest first.
std::vector<RecomputePolicy> stronger_policies(const PlanRequest& request);

// Returns the stages in which the ranks divide more than the request does, the lowest first. Empty for a run of one rank, and if its
// optimizer cannot be divided.
std::vector<ZeroStage> higher_zero_stages(const PlanRequest& request);

// Returns true if the plan has copies of weights that --weight_copies at_use would leave out.
bool can_copy_at_use(const Plan& plan);
// Returns true if evaluation needs more memory than training.
bool evaluation_is_larger(const Plan& plan);

// A plan of the same run with another number of beams.
struct BeamCost {
  int64_t num_beams = 1;
  CacheAnatomy cache = {};
  int64_t arena_bytes = 0;
  int64_t total_bytes = 0;
  bool fits = true;
  GenerationEstimate estimate = {};
};

// Plans the run with each of these numbers of sequences per prompt. Cost: one plan each. Requires: the run generates texts.
std::vector<BeamCost> beam_costs(const RunSpec& run, std::span<const int64_t> numbers);

}  // namespace plimsoll
