// Plans the stages of a pipeline: which layers each stage has, what the stages send to one another, and how long a step takes. Every rank
// plans all stages. Thus it knows which stage stores which weight, and planning detects stages that would wait for each other forever.
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/compile/plan.h"

namespace plimsoll {

// Divides layers among stages, or among chunks of stages, such that the largest cost of one of them is as small as possible, and returns
// the first layer of each. Among equally good divisions it chooses the one whose first stages have the fewest layers. `before` and `after`:
// the costs of the ops before the first layer and after the last layer. Requires: 1 <= num_stages <= layers.size().
std::vector<int64_t> divide_layers_evenly(const std::vector<double>& layers, double before, double after,
                                          int64_t num_stages);

// Builds the plan of the pipeline stage that the request names; its member Plan::stages describes all stages. Unless the request states
// the layers of each stage, they are divided by the estimated times of their ops. Errors: as build_plan(); kUsage if the model has fewer
// layers than the request has stages; kInternal if two stages would wait for each other. Cost: that of build_plan() for each stage, and
// that of building the graphs of the whole model once.
Plan build_stage_plan(const PlanRequest& request);

// Returns true for a collective operation between pipeline stages, which StagePlan::exchanges lists.
bool is_collective_of_stages(const Op& op);

// The result of simulating a step of a pipeline.
struct PipelineTime {
  double step_ms = 0;                // time from the first forward pass to the last backward pass
  std::vector<double> busy_ms = {};  // time for which each stage computes
  // Return the time, and the share of the step, for which the slowest stage waits.
  double waiting_ms() const;
  double bubble() const;
};
// Simulates all stages for a step of `num_micro_batches`, or for an evaluation of the same number of batches. A send waits until the
// previous value sent to the same stage through the same channel has been received; a receive waits until its value has been transferred.
// Errors: kInternal if stages wait for each other, or if a stage receives another value than the one that it expects.
PipelineTime simulate_step(std::span<const StagePlan> stages, int64_t num_micro_batches);
PipelineTime simulate_evaluation(std::span<const StagePlan> stages, int64_t num_batches);

}  // namespace plimsoll
