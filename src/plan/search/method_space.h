// The sets of methods that can be asked for beside a run, and bounds of what each needs. Some make a step
// faster or leave it as it is, precisions, optimizers and trained parts: a set of those is a head. The others
// trade time for memory and are added to it. Pure; thread-safe once it is built.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "plan/compile/plan.h"
#include "plan/search/method_set.h"

namespace plimsoll {

// Who chooses what is computed again: nobody, or each plan for its own batch (budget.h).
enum class RecomputeChosen : uint8_t { kByPolicy, kSelective, kByBudget };

// Of which lengths the sequences of a smaller batch are: all as long as the longest, or with as many tokens
// at most as the request's batch, which is that of data.
enum class SequenceLengths : uint8_t { kAllLongest, kAsInBatch };

// What is asked about, before any method.
struct FitSubject {
  PlanRequest request = {};  // its recompute.policy is a stand-in where another one chooses
  RecomputeChosen recompute = RecomputeChosen::kByPolicy;
  int64_t budget_bytes = 0;          // of kByBudget
  int64_t host_bytes_per_token = 0;  // of request.host.data_bytes, for a token of train_bucket
  SequenceLengths lengths = SequenceLengths::kAllLongest;
  // Of a request with other batches; nothing: as the request's. Pure.
  std::function<CapturedBuckets(const PlanRequest&)> captured_buckets = {};
};

// A method of the kind "trained part", and what reading its words alone beside the subject makes of it.
struct TrainedPart {
  const Method* method = nullptr;
  PlanRequest request = {};
};

struct MethodScope {
  std::vector<const Method*> methods = {};  // trained parts are those below
  std::vector<TrainedPart> trained_parts = {};
  Effect most = Effect::kRounding;  // that a set may have
};

// Whether a batch of so many sequences has 1 MiB of logits: chunks of fewer do not change a plan.
bool has_many_logits(const PlanRequest& request, int64_t sequences);

class MethodSpace {
 public:
  // `most_sequences`: of a micro-batch. Sets that cannot matter are left out: logits in chunks where there
  // are few, and gradients in 16 bits where none accumulate. A trained part has few gradients and states, so
  // that it is beside the subject's own optimizer alone.
  MethodSpace(FitSubject subject, MethodScope scope, int64_t most_sequences, int64_t most_accumulation);

  const FitSubject& subject() const { return subject_; }
  // The subject's own, which is empty, is the first.
  const std::vector<MethodSet>& heads() const { return heads_; }
  // Those with one method more that trades time for memory, as far as they can be asked for; with a policy,
  // not with a budget.
  std::vector<MethodSet> with_one_more(const MethodSet& set) const;
  // Every set but those with a budget.
  std::vector<MethodSet> all_fixed() const;
  // With a budget in place of checkpointing; nothing where that cannot be asked for, and where the host's
  // memory has part in a step: its link is what such a step waits for, and a choice takes a second.
  std::optional<MethodSet> with_budget(const MethodSet& set) const;
  // Methods that are in any set, in the order of the table.
  std::vector<const Method*> methods() const;

  // Requires: a set of this space.
  PlanRequest request_of(const MethodSet& set) const;
  Effect effect(const MethodSet& set) const { return effect_of(set, subject_.request); }
  RecomputeChosen recompute_of(const MethodSet& set) const;
  int64_t budget_bytes(const MethodSet& set) const;

  // A bound from below of the total of any plan of the set: weights, states and, where one update waits for
  // all of them, gradients are on the device at once. Cost: microseconds.
  int64_t least_bytes(const MethodSet& set, int64_t accumulation) const;

 private:
  struct Elements {  // of weights that the plan has
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
  std::vector<MethodSet> heads_;
  std::vector<Elements> elements_;  // without a part, then of each part
};

}  // namespace plimsoll
