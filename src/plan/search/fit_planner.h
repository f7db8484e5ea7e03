// Plans of one set of methods for batches of one shape after another, from graphs that are built as seldom as
// possible: what a search for what fits asks hundreds of times. A planner is not thread-safe; the graphs that
// planners share are.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "plan/compile/placer.h"
#include "plan/search/method_space.h"

namespace plimsoll {

struct FitShape {
  int64_t micro_batch = 1;
  int64_t accumulation = 1;
  int64_t longest = 1;
  friend bool operator==(const FitShape&, const FitShape&) = default;
};

// What a plan of a shape needs. Where each plan chooses for itself what it computes again, these are bounds.
struct FitNeeds {
  int64_t bytes = 0;        // at most
  int64_t least_bytes = 0;  // about: of the policy that computes everything again
  double ms_per_sample = 0;
  // A sample: of the ops alone or of the link alone, for when copies run and how long ops wait for them
  // depends on the shape.
  double least_ms = 0;
  double passes_ms = 0;  // of these the forward and the backward pass, without updates and copies
};

// The first part of graphs, for requests whose graphs begin alike. Thread-safe.
class SharedGraphs {
 public:
  PlanGraphs begun(const PlanRequest& request);

 private:
  struct Group {
    PlanRequest request = {};
    std::mutex mutex = {};
    std::optional<PlanGraphs> graphs = {};
  };

  std::mutex mutex_;
  std::list<Group> groups_;
};

class FitPlanner {
 public:
  // Requires: a set of the space; both outlive the planner.
  FitPlanner(const MethodSpace& space, const MethodSet& set, SharedGraphs& shared);

  // Whether a run of that shape can be asked for.
  bool takes(const FitShape& shape) const;

  // From graphs that were built before, for the first shape that they were asked for: what the search goes
  // by. States from the host come late in them, and activations leave the device that have room there: how
  // early and which depends on the shape, and where the limit has no room for it, it is not done. Errors: as
  // build_plan(). Cost: for BERT-large half a millisecond, for the first shape some.
  FitNeeds placed(const FitShape& shape);
  // From the pipeline that a run goes through: what an answer stands on; nothing where there is a budget and
  // no choice of what is computed again fits into it. Cost: a plan, and that choice where there is one.
  std::optional<FitNeeds> built(const FitShape& shape);
  // What that plan needs at most where the limit has no room for early copies: with them late, and with the
  // policy that placed() calls `bytes`. Cost: a plan.
  int64_t sure_bytes(const FitShape& shape);

  // Into the limit, and into the budget where there is one.
  bool fits(int64_t bytes) const;
  // Drops the graphs; they are built again where they are asked for.
  void release() { graphs_.clear(); }

  int64_t num_plans() const { return num_plans_; }
  double plan_ms() const { return plan_ms_; }

 private:
  struct Graphs {
    std::optional<Placer> placer = {};
    FitShape built_for = {};
    FitNeeds own_needs = {};  // of that shape
  };
  // Accumulates, holds logits in chunks, computes again.
  using Kind = std::tuple<bool, bool, RecomputePolicy>;

  void set(const FitShape& shape);
  FitNeeds placed_with(const FitShape& shape, RecomputePolicy policy);
  FitNeeds built_with(const FitShape& shape, RecomputeChoice choice);

  SharedGraphs& shared_;
  PlanRequest given_;
  RecomputeChosen recompute_;
  int64_t budget_bytes_;
  const FitSubject& subject_;
  PlanRequest request_;  // as given, of the shape that was last asked for
  std::map<Kind, Graphs> graphs_;
  int64_t num_plans_ = 0;
  double plan_ms_ = 0;
};

}  // namespace plimsoll
