// Makes a setting for several tests: the backward pass recomputes the attention of every layer instead of saving it.
// Thread-safe (values only).
#pragma once

#include <string>

#include "graph/analysis/analysis.h"
#include "graph/ops/ops.h"
#include "plan/compile/plan.h"

namespace plimsoll::testing {

// Returns the setting with which the backward pass recomputes the attention of every layer. Unless `others` is kNone, it also
// recomputes all values that are cheap to compute. Cost: the time to make a plan, from which the names of the values are read.
inline RecomputeChoice attention_again(PlanRequest request, RecomputePolicy others = RecomputePolicy::kNone) {
  PLIMSOLL_CHECK(others != RecomputePolicy::kFull, "recomputing whole layers includes attention");
  request.recompute = {.policy = RecomputePolicy::kNone};
  const Plan plan = build_plan(request);
  const Graph& graph = plan.programs.at(kTrainProgram).graph;
  RecomputeChoice choice{.policy = others};
  for (const Op& op : graph.ops()) {
    const std::string block(block_of(graph.module_name(op.module)));
    if (block.empty() || op.segment != Segment::kForward) continue;
    auto& kept = choice.kept_of_block[block];
    if (op.def == &attention_op()) continue;
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      const bool is_cheap = schema_of(op).recipe({graph, op}, static_cast<int>(i)).has_value();
      if (others == RecomputePolicy::kNone || !is_cheap) kept.insert(graph.value(op.outputs[i]).name);
    }
  }
  return choice;
}

}  // namespace plimsoll::testing
