// Changes the arguments of a run such that its plan becomes smaller, and plans the changed run. suggest.h decides which changes to try
// and to report. Pure; thread-safe.
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
  kNone,       // computes the same sums, possibly in another order
  kRounding,   // rounds values to another precision
  kOtherModel  // uses another optimizer or generates other texts, so that the result differs
};

// A changed set of arguments and the memory that it needs.
struct Suggestion {
  std::string arguments;    // the arguments as a user types them
  int64_t total_bytes = 0;  // total bytes of the changed plan
  bool fits = false;
  double relative_time = 1;  // estimated time per sample, divided by that of the unchanged plan
  std::string note = {};     // notes about side effects, or why the change does not help; may be empty
  Effect effect = Effect::kNone;
};

class MethodSet;
class SharedGraphs;

// A run and the changes of its arguments so far. Each member function makes one more change.
class Change {
 public:
  // `labels` contains the name of the argument that sets the length of sequences.
  explicit Change(RunSpec run, PlanLabels labels = {});

  // Changes the micro-batch and keeps the effective batch. Requires: `sequences` divides it.
  void use_micro_batch(int64_t sequences);
  void use_evaluation_batch(int64_t sequences);
  void use_length(int64_t longest);
  // Change the sizes of a run that generates texts. Requires: the run generates texts.
  void use_prompts_at_once(int64_t prompts);
  void use_sequences_per_prompt(int64_t sequences);
  void use_new_tokens(int64_t tokens);
  void use_16_bit_weights();
  void use_recompute(RecomputePolicy policy);
  void use_zero_stage(ZeroStage stage);
  // Turns on sequence parallelism. Requires: the run uses tensor parallelism.
  void use_sequence_parallel();
  // Applies training methods of the table in plimsoll/methods.h, such as checkpointing or offloading; all except recompute_budget are
  // supported. Requires: the run accepts them (try_methods()).
  void use_methods(const MethodSet& all);
  // Recomputes as little as the memory limit allows, as choose_recompute() finds it. If nothing fits, uses RecomputePolicy::kFull.
  void use_recompute_budget(int64_t limit_bytes);

  size_t num_changes() const { return arguments_.size(); }
  const RunSpec& run() const { return run_; }

  // Returns the plan request of the changed run, or nothing if the combination of arguments is refused.
  std::optional<PlanRequest> request() const;
  // Builds the plan of the changed run. `own_ms` is ms_per_sample() of the unchanged plan. Returns nothing if the combination of
  // arguments is refused, for example for a data type that no kernel supports. Cost: one plan.
  std::optional<Suggestion> planned(int64_t limit_bytes, double own_ms) const;
  // Builds the plan from shared graphs. Requires: `request` is the result of request().
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

// Return the batch sizes to try, largest first. A micro-batch has to divide the effective batch. Each size is at most half of the
// previous one, so that only a logarithmic number of plans is made.
std::vector<int64_t> smaller_micro_batches(const PlanRequest& request);
std::vector<int64_t> smaller_evaluation_batches(const PlanRequest& request);
std::vector<int64_t> shorter_lengths(const PlanRequest& request);
// Return the sizes of text generation to try. For a plan that does not generate texts, these functions return an empty list.
std::vector<int64_t> fewer_prompts_at_once(const PlanRequest& request);
std::vector<int64_t> fewer_sequences_per_prompt(const PlanRequest& request);
std::vector<int64_t> fewer_new_tokens(const PlanRequest& request);

// Returns the policies that recompute more than the request does, starting with the one that recomputes least.
std::vector<RecomputePolicy> stronger_policies(const PlanRequest& request);

// Returns the ZeRO stages above that of the request, lowest first. Empty for a run of one rank, and if the states of its optimizer cannot
// be divided.
std::vector<ZeroStage> higher_zero_stages(const PlanRequest& request);

// Returns true if the plan has persistent 16-bit copies of weights, which --weight_copies at_use would avoid.
bool can_copy_at_use(const Plan& plan);
// Returns true if evaluation needs more memory than training.
bool evaluation_is_larger(const Plan& plan);

// The memory and the estimated times of a run that generates texts with this number of beams, or of texts, per prompt.
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
