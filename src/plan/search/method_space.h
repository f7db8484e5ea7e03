// The sets of training methods that can be added to the arguments of a run, and a lower bound of the bytes that each set needs. A base
// set consists of methods that never make a step slower: precisions, optimizers, and methods such as LoRA that train only a part of the
// model. The other methods, which trade time for memory, are added to base sets. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/search/method_set.h"

namespace plimsoll {

struct MethodScope {
  std::vector<const Method*> methods = {};
  Effect most = Effect::kRounding;  // the strongest effect on training that a set may have
};

// The training methods (plimsoll/methods.h) that a run can use, and the reasons why the device or an argument excludes the others.
struct UsableMethods {
  MethodScope scope = {};
  std::vector<std::pair<const Method*, std::string>> refused = {};
};
// Returns the methods that the command `fit` may try: those whose effect on training is at most `most`.
UsableMethods usable_methods(const RunSpec& run, Effect most);

// Returns true if the method can change the plan of a run on this device.
bool applies_to(const Method& method, const DeviceOptions& device);

// Returns the first line of an error message, without the arguments at its beginning.
std::string reason_of(const std::string& message);

// Returns true if a batch of this number of sequences has at least 1 MiB of logits. With fewer logits, computing them in chunks does not
// change a plan.
bool has_many_logits(const PlanRequest& request, int64_t sequences);

class MethodSpace {
 public:
  // `most_sequences` is the largest micro-batch. Leaves out sets that cannot change a plan: chunked logits if there are few logits, and
  // 16-bit gradients without accumulation. If only a part of the model is trained, there are few gradients and states, so methods that
  // train only a part are combined only with the optimizer that the user chose.
  MethodSpace(RunSpec run, MethodScope scope, int64_t most_sequences, int64_t most_accumulation);

  // Returns the sets of methods that never make a step slower. The first one is the empty set, with which the run is as its arguments state
  // it.
  const std::vector<MethodSet>& base_sets() const { return base_sets_; }
  // Returns the sets with one more method that trades time for memory, if the arguments allow it. In these sets recomputation concerns
  // whole layers and does not depend on a budget.
  std::vector<MethodSet> with_one_more(const MethodSet& set) const;
  // Returns every set except those with a recomputation budget.
  std::vector<MethodSet> all_fixed() const;
  // Returns the set with a recomputation budget instead of checkpointing. Returns nothing if the arguments do not allow a budget. Also
  // returns nothing if the run offloads to host memory: its steps wait for transfers, so a budget gains little, and computing it takes a
  // second.
  std::optional<MethodSet> with_budget(const MethodSet& set) const;
  // Returns the methods that occur in any of the sets, in the order of the table of methods.
  std::vector<const Method*> methods() const;

  // Return the run as its arguments state it, but without accumulation, and its plan request.
  const RunSpec& run() const { return run_; }
  const PlanRequest& own_request() const { return own_; }
  // Returns the run with the methods of the set. Requires: the set belongs to this space.
  RunSpec run_with(const MethodSet& set) const;
  Effect effect(const MethodSet& set) const { return effect_of(set, own_); }
  ExtentOfChange extent(const MethodSet& set) const { return extent_of(set, run_, own_); }

  // Returns a lower bound of the total bytes of any plan with this set. It counts the memory outside the arena, the weights, the optimizer
  // states and, if updates wait until all gradients are computed, the gradients. Cost: microseconds.
  int64_t least_bytes(const MethodSet& set, int64_t accumulation) const;

 private:
  struct Elements {  // number of elements of the plan's weights
    int64_t trained = 0;
    int64_t frozen = 0;
  };

  // Returns true if the effect of the set on training is permitted, its arguments are accepted, and the method that was added last changes
  // the plan request; `without` is the plan request of the set without this method.
  bool can_be_asked(const MethodSet& set, const PlanRequest& without) const;
  const Elements& elements_of(const MethodSet& set) const;

  RunSpec run_;
  PlanRequest own_;  // plan request of run_, to which no methods are added
  MethodScope scope_;
  std::vector<const Method*> savers_;
  const Method* budget_ = nullptr;
  std::vector<MethodSet> base_sets_;
  // The numbers of trained and of frozen weight elements if this method trains only a part of the model. The key nullptr is for
  // training the whole model.
  std::map<const Method*, Elements> elements_;
};

}  // namespace plimsoll
