// Plans a run with one set of training methods (such as checkpointing or offloading) for batches of many shapes. It builds graphs as
// rarely as possible, because the search for runs that fit needs hundreds of plans. A planner is not thread-safe, but several planners
// may share graphs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "plan/compile/placer.h"
#include "plan/search/method_space.h"
#include "plan/search/shared_graphs.h"

namespace plimsoll {

struct FitShape {
  int64_t micro_batch = 1;
  int64_t accumulation = 1;
  int64_t longest = 1;
  friend bool operator==(const FitShape&, const FitShape&) = default;
};

// The memory and the time that a plan for a batch shape needs. If a separate search chooses the recomputed values of each plan, the plan
// needs at most this memory, and the time is a lower bound.
struct FitNeeds {
  int64_t bytes = 0;        // upper bound of the bytes that the plan needs
  int64_t least_bytes = 0;  // estimate of the fewest bytes possible, which full recomputation needs
  double ms_per_sample = 0;
  // Lower bound of the time per sample: the time of the ops alone or that of the transfers alone, whichever is
  // longer. The time for which ops wait for transfers is not included, because it depends on the shape.
  double least_ms = 0;
  double passes_ms = 0;  // time of the forward and the backward pass, without updates and copies
};

class FitPlanner {
 public:
  // Requires: the set of methods belongs to the method space; the space and the shared graphs outlive the planner.
  FitPlanner(const MethodSpace& space, const MethodSet& set, SharedGraphs& shared);
  // Plans the run as its arguments state it, without further methods that save memory (such as recomputation). Requires: the shared graphs
  // outlive the planner.
  FitPlanner(RunSpec run, SharedGraphs& shared);

  // Returns true if the arguments of a run can express this batch shape. They cannot if the shape accumulates gradients and the run updates
  // weights in the backward pass.
  bool takes(const FitShape& shape) const;

  // Returns the memory and the time that the shape needs, computed from graphs that were built for the first requested shape. The search
  // uses these figures to choose what it tries next. They assume that states are transferred as late as possible, and that all activations
  // are offloaded even if some would fit into the memory of the device, because the better choices depend on the shape. Errors: as
  // build_plan(). Cost: half a millisecond for BERT-large, some more for the first shape.
  FitNeeds placed(const FitShape& shape);
  // Returns the memory and the time that the shape needs, computed from the plan of a real run. The search reports these figures as its
  // results. Returns nothing if the run has a recomputation budget (a limit of its bytes) and no choice of recomputed values fits into it.
  // Cost: a plan, and the search for recomputed values if there is one.
  std::optional<FitNeeds> built(const FitShape& shape);
  // Returns an upper bound for the bytes that the plan needs if the memory limit leaves no memory for early copies. It is computed
  // from a plan whose copies are as late as possible, with the same recomputation policy as the bytes that placed() returns. Cost: a
  // plan.
  int64_t sure_bytes(const FitShape& shape);

  // Returns how recomputed values are chosen: by a policy, or by a separate search for each plan.
  RecomputeChosen chosen() const { return recompute_; }
  // Returns true if a plan of this size fits into the memory limit, and into the recomputation budget if the run has one.
  bool fits(int64_t bytes) const;
  // Frees the graphs. They are built again when they are needed.
  void release() { graphs_.clear(); }

  int64_t num_plans() const { return num_plans_; }
  double plan_ms() const { return plan_ms_; }

 private:
  struct Graphs {
    std::optional<Placer> placer = {};
    FitShape built_for = {};
    FitNeeds own_needs = {};  // memory and time of a batch of the shape `built_for`
  };
  // Graphs with equal values of these properties can be shared: accumulation of gradients, logits in chunks, and the recomputation policy.
  using Kind = std::tuple<bool, bool, RecomputePolicy>;

  void set(const FitShape& shape);
  FitNeeds placed_with(const FitShape& shape, RecomputePolicy policy);
  FitNeeds built_with(const FitShape& shape, RecomputeChoice choice);

  SharedGraphs& shared_;
  RunSpec run_;
  RecomputeChosen recompute_;
  int64_t budget_bytes_;
  PlanRequest request_;  // the request with the shape that was requested last
  std::map<Kind, Graphs> graphs_;
  int64_t num_plans_ = 0;
  double plan_ms_ = 0;
};

// The largest batch and the longest sequence that fit with a set of methods.
struct FitLimits {
  // Largest number of sequences that fit in a batch without accumulation; 0 if none fits.
  int64_t largest_batch = 0;
  // Largest number of tokens per sequence that fits with the batch size of the shape.
  int64_t longest_sequence = 0;
};

// Finds the largest batch, up to `most_sequences`, and the longest sequence, up to `most_tokens`. `shape` is known to fit. If a separate
// search chooses the recomputed values of each plan, a fixed policy that needs at least as much memory is used instead. Cost: about twenty
// placements and two plans.
FitLimits find_limits(FitPlanner& planner, const FitShape& shape, int64_t most_sequences,
                      int64_t most_tokens);

}  // namespace plimsoll
