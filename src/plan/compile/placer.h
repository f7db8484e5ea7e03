// Makes plans of one set of graphs for one size of buckets after another, for searches that ask hundreds of
// times. What depends on the graphs alone, and all names, are made once. Takes over the graphs without
// copying them. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "plan/compile/plan.h"
#include "plan/compile/program_placer.h"

namespace plimsoll {

// What may differ between the requests that one set of graphs is placed for.
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
  // Requires: as place_plan() of a request with any of the sizes to come. Errors: kInternal where the
  // programs contradict each other.
  Placer(const PlanRequest& request, PlanGraphs graphs);

  // The plan that place_plan() makes of the request with these sizes; it holds until the next call. Errors:
  // as build_plan(); what was placed before is lost then. Cost: for BERT-large half a millisecond.
  const Plan& place(const PlanSizes& sizes);

  // The plan of the last place(), moved out. Requires: place() was called.
  Plan take() && { return std::move(plan_); }

 private:
  // Calls work(program, its placer) for those that the plan has.
  template <typename Work>
  void for_each_program(const Work& work);
  void name_parts_of_weights();
  void place_persistent();
  void stage_inputs();
  void place_transient();
  void add_constants();

  Plan plan_;
  std::optional<ProgramPlacer> train_;
  std::optional<ProgramPlacer> evaluate_;
};

}  // namespace plimsoll
