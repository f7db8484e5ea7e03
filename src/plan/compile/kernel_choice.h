// Chooses the kernel of each op of a program, for one bucket after another. Ops of the same kind share one query of the
// catalog. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/analysis/op_kinds.h"
#include "plan/compile/plan.h"

namespace plimsoll {

// Returns the target that the request's kernels run on.
KernelTarget kernel_target(const PlanRequest& request);

class KernelChoice {
 public:
  explicit KernelChoice(const Graph& graph);

  // Writes the kernels, refusals and scratch bytes of program.ops, and program.library_bytes, for program.bucket.
  // Requires: the graph is the constructor's; only this function has written to program.ops. Errors: kUsage if no kernel
  // computes an op.
  void choose(ProgramPlan& program, const PlanRequest& request);

  // Returns only the scratch bytes of each op's kernel, for a graph without a plan. Requires and errors: as choose().
  std::vector<int64_t> scratch_bytes(const Graph& graph, const Bucket& bucket,
                                     const PlanRequest& request) const;

  const OpKinds& kinds() const { return kinds_; }

 private:
  OpKinds kinds_;
  std::vector<Selection> selections_;  // selection for each kind of op, made by the last choose()
};

}  // namespace plimsoll
