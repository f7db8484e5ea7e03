// Changes of a request that make its plan smaller, and the words by which a user asks for them. Pure;
// thread-safe. What to try, and what is worth saying, is for suggest.h and savings.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/compile/plan.h"

namespace plimsoll {

// What a change does to the result of training.
enum class Effect : uint8_t {
  kNone,       // the same sums, or the same up to their order
  kRounding,   // numbers of another precision
  kOtherModel  // another optimizer, other texts: what is learned differs
};

// A changed set of arguments and what it needs.
struct Suggestion {
  std::string
      arguments;  // as a user types them: "--per_device_train_batch_size 2 --gradient_accumulation_steps 2"
  int64_t total_bytes = 0;  // planned
  bool fits = false;
  double relative_time = 1;  // estimated time a sample, over that of the plan as it is
  std::string note = {};     // what else changes, or why it does not help; may be empty
  Effect effect = Effect::kNone;
};

class MethodSet;

// A request with changes made to it one after the other.
class Change {
 public:
  explicit Change(const PlanRequest& request);

  // Of the same effective batch. Requires: sequences divides it.
  void use_micro_batch(int64_t sequences);
  void use_evaluation_batch(int64_t sequences);
  void use_length(int64_t longest);
  void use_sgd();  // without momentum, so without states
  void use_bf16();
  void use_optimizer_in_backward();
  void use_copies_at_use();
  void use_recompute(RecomputePolicy policy);
  // Of the table, but for recompute_budget. Requires: with_methods() makes them of the request.
  void use_methods(const MethodSet& set);
  // The least recomputed time that fits the limit: choose_recompute. Where nothing fits, the change is that
  // of RecomputePolicy::kFull.
  void use_recompute_budget(int64_t limit_bytes);

  size_t num_changes() const { return arguments_.size(); }
  const PlanRequest& request() const { return request_; }

  // Builds the plan. `own_ms` is ms_per_sample of the plan without changes. Nothing where the combination is
  // refused by name, such as a type that no kernel computes in. Cost: a plan.
  std::optional<Suggestion> planned(int64_t limit_bytes, double own_ms) const;

 private:
  void note(std::string text);

  PlanRequest request_;
  std::vector<std::string> arguments_;
  std::vector<std::string> notes_;
  Effect effect_ = Effect::kNone;
};

// The estimated time of a step over its samples; 0 where there are none.
double ms_per_sample(const Plan& plan);

// The sizes that changes try, largest first. Micro-batches divide the effective batch; each is at most half
// of the one before, so that the number of plans is logarithmic.
std::vector<int64_t> smaller_micro_batches(const PlanRequest& request);
std::vector<int64_t> smaller_evaluation_batches(const PlanRequest& request);
std::vector<int64_t> shorter_lengths(const PlanRequest& request);

// Policies that recompute more than the request does, the mildest first.
std::vector<RecomputePolicy> stronger_policies(const PlanRequest& request);

// Whether a change can help at all.
bool can_use_bf16(const PlanRequest& request);
bool can_use_sgd(const PlanRequest& request);
bool can_update_in_backward(const PlanRequest& request);
bool can_copy_at_use(const Plan& plan);
// The evaluation needs more than training does.
bool evaluation_is_larger(const Plan& plan);

}  // namespace plimsoll
