// The sets of methods that a run can use in addition to its arguments, and lower bounds of the bytes that
// each needs. Precisions, optimizers and trained parts make a step faster or leave it as it is: a set of
// those is a base set. The other methods trade time for memory and are added to base sets. Pure;
// thread-safe after construction.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "plan/compile/plan.h"
#include "plan/search/method_set.h"

namespace plimsoll {

// States who chooses what is recomputed: the policy of the request, or each plan for its own batch
// (budget.h).
enum class RecomputeChosen : uint8_t { kByPolicy, kSelective, kByBudget };

// The lengths of sequences in a smaller batch: all as long as the longest, or at most as many tokens as in
// the request's batch, which comes from data.
enum class SequenceLengths : uint8_t { kAllLongest, kAsInBatch };

// The run that the search is about, before any method.
struct FitSubject {
  PlanRequest request = {};  // its recompute.policy is used only for kByPolicy
  RecomputeChosen recompute = RecomputeChosen::kByPolicy;
  int64_t budget_bytes = 0;  // the budget for kByBudget
  int64_t host_bytes_per_token =
      0;  // the part of request.host.data_bytes that grows per token of batches.train
  SequenceLengths lengths = SequenceLengths::kAllLongest;
  // Returns the captured buckets of a request with other batches. If it is empty, they are those of the
  // request. Pure.
  std::function<CapturedBuckets(const PlanRequest&)> captured_buckets = {};
};

// A method of the kind "trained part", and the request that its arguments make of the subject.
struct TrainedPart {
  const Method* method = nullptr;
  PlanRequest request = {};
};

struct MethodScope {
  std::vector<const Method*> methods = {};  // without trained parts
  std::vector<TrainedPart> trained_parts = {};
  Effect most = Effect::kRounding;  // the strongest effect that a set may have
};

// Returns true if a batch of this number of sequences has 1 MiB of logits. Computing fewer logits in chunks
// does not change a plan.
bool has_many_logits(const PlanRequest& request, int64_t sequences);

class MethodSpace {
 public:
  // `most_sequences` is the largest micro-batch. Leaves out sets that cannot matter: logits in chunks if
  // there are few, and 16-bit gradients if nothing accumulates. A trained part has few gradients and
  // states, so it is combined only with the subject's own optimizer.
  MethodSpace(FitSubject subject, MethodScope scope, int64_t most_sequences, int64_t most_accumulation);

  const FitSubject& subject() const { return subject_; }
  // The first is the empty set: the subject itself.
  const std::vector<MethodSet>& base_sets() const { return base_sets_; }
  // Returns the sets with one more method that trades time for memory, if arguments allow it. Recomputation
  // is by policy, not by a budget.
  std::vector<MethodSet> with_one_more(const MethodSet& set) const;
  // Returns every set except those with a budget.
  std::vector<MethodSet> all_fixed() const;
  // Returns the set with a budget instead of checkpointing. Returns nothing if arguments do not allow it,
  // or if host memory is part of a step: such a step waits for the link, and a choice takes a second.
  std::optional<MethodSet> with_budget(const MethodSet& set) const;
  // Returns the methods that are in any set, in the order of the table.
  std::vector<const Method*> methods() const;

  // Returns the subject's request with the set. Requires: the set is one of this space.
  PlanRequest request_of(const MethodSet& set) const;
  Effect effect(const MethodSet& set) const { return effect_of(set, subject_.request); }
  RecomputeChosen recompute_of(const MethodSet& set) const;
  int64_t budget_bytes(const MethodSet& set) const;

  // Returns a lower bound of the total bytes of any plan of the set: weights, states and, if one update
  // waits for all of them, gradients are on the device at the same time. Cost: microseconds.
  int64_t least_bytes(const MethodSet& set, int64_t accumulation) const;

 private:
  struct Elements {  // elements of the plan's weights
    int64_t trained = 0;
    int64_t frozen = 0;
  };

  std::optional<PlanRequest> made(const MethodSet& set) const;
  bool can_be_asked(const MethodSet& set) const;
  const TrainedPart* part_of(const MethodSet& set) const;

  FitSubject subject_;
  MethodScope scope_;
  std::vector<const Method*> savers_;
  const Method* budget_ = nullptr;
  std::vector<MethodSet> base_sets_;
  std::vector<Elements> elements_;  // elements of the whole model, then of each trained part
};

}  // namespace plimsoll
