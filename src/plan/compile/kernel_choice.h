// Chooses the kernel of each op of a program, for one bucket after another. The catalog is asked only once
// for all ops that are alike. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/analysis/op_kinds.h"
#include "plan/compile/plan.h"

namespace plimsoll {

class KernelChoice {
 public:
  explicit KernelChoice(const Graph& graph);

  // Fills in the kernels of program.ops, their refusals and scratch, and program.library_bytes, for
  // program.bucket. Requires: the graph is the constructor's; program.ops holds nothing but what this
  // function wrote into it. Errors: kUsage where no kernel computes an op.
  void choose(ProgramPlan& program, const PlanRequest& request);

  // Only the scratch bytes of each op's kernel, for a graph without a plan. Requires and errors: as choose().
  std::vector<int64_t> scratch_bytes(const Graph& graph, const Bucket& bucket,
                                     const PlanRequest& request) const;

  const OpKinds& kinds() const { return kinds_; }

 private:
  OpKinds kinds_;
  std::vector<Selection> selections_;  // for each kind of op, from the last choose()
};

}  // namespace plimsoll
