// Makes plans for many batch sizes (buckets) from one set of graphs, for searches that need hundreds of plans. Everything that depends on
// the graphs alone is computed once. The class takes ownership of the graphs without copying them. Not thread-safe.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "plan/compile/plan.h"
#include "plan/compile/program_placer.h"

namespace plimsoll {

// The fields of a request that do not affect the graphs, so that plans with different values can be made from the same graphs.
struct PlanSizes {
  Bucket train_bucket = {};
  Bucket evaluate_bucket = {};
  int64_t gradient_accumulation_steps = 1;
  CapturedBuckets captured_buckets = {};
  HostMemory host = {};
};
PlanSizes sizes_of(const PlanRequest& request);

class Placer {
 public:
  // Requires: the graphs, and all sizes that are passed to place() later, satisfy the requirements of place_plan(). Errors: kInternal if
  // the programs contradict each other.
  Placer(const PlanRequest& request, PlanGraphs graphs);

  // Returns the plan that place_plan() would make for the request with these sizes. The reference is valid until the next call. Errors:
  // as build_plan(); after an error the previous plan is invalid. Cost: half a millisecond for BERT-large.
  const Plan& place(const PlanSizes& sizes);

  // Moves the plan of the last call of place() out of this object. Requires: place() was called.
  Plan take() && { return std::move(plan_); }

 private:
  // Calls work(program, placer) for each program of the plan; `placer` is its ProgramPlacer.
  template <typename Work>
  void for_each_program(const Work& work);
  void name_parts_of_weights();
  void place_persistent();
  void stage_inputs();
  void place_transient();
  void add_constants();

  Plan plan_;
  std::vector<ProgramPlacer> placers_;  // one element per program, in the order of plan_.programs
};

}  // namespace plimsoll
