// Chooses the kernel of each op of a program, for one bucket (batch size) after another. Ops of the same kind share one search of the
// kernel catalog. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "graph/analysis/analysis.h"
#include "lowering/lowering.h"
#include "plan/compile/plan.h"

namespace plimsoll {

// Returns the description of the device for which kernels are chosen.
KernelTarget kernel_target(const PlanRequest& request);

// Finds the implementations that --kernels names without effect: removes from `names` every one that an op of the given programs uses. Call
// it for all programs of a run (in a pipeline, those of all stages). What is left in `names` has no effect.
void remove_used_kernels(std::vector<std::string>& names, const Programs& programs);
// Reports implementations of --kernels that no op uses. Errors: kUsage if `names` is not empty.
void refuse_unused_kernels(const std::vector<std::string>& names);

class KernelChoice {
 public:
  explicit KernelChoice(const Graph& graph);

  // Chooses the kernels for the batch size program.bucket. Sets the kernel, the reasons against other kernels and the scratch bytes of each
  // element of program.ops, and program.library_bytes. Requires: the graph is the one that the constructor received; only this function has
  // written to program.ops. Errors: kUsage if no kernel computes an op.
  void choose(ProgramPlan& program, const PlanRequest& request);

  // Returns the scratch bytes of the kernel of each op of a graph for which no plan exists. Requires and errors: as choose().
  std::vector<int64_t> scratch_bytes(const Graph& graph, const Bucket& bucket,
                                     const PlanRequest& request) const;

  const OpKinds& kinds() const { return kinds_; }

 private:
  OpKinds kinds_;
  // the kernel chosen for each kind of op by the last call of choose()
  std::vector<Selection> selections_;
};

// Lists the matrix products of a plan for a GPU: those that a library computes (the tuning table has algorithms for them), and those that
// Plimsoll's own kernels compute. Thread-safe: pure functions.

struct LibraryMatmul {
  PlannedMatmul matmul = {};
  int64_t count = 0;  // number of ops with this matrix product
};
// Returns the distinct matrix products of a program that a library computes for a batch of this size; none on a CPU.
std::map<ProductKey, LibraryMatmul> list_matmuls(const ProgramPlan& program, const Bucket& bucket,
                                                 const PlanRequest& request);

struct CustomMatmul {
  std::string_view kernel = {};  // name of the kernel implementation
  int64_t count = 0;             // number of ops with this matrix product
  // True if the matrix product is part of a fused op, whose kernel calls the library for small numbers of rows.
  bool is_part = false;
};
// Returns the distinct matrix products of a program that Plimsoll's own kernels compute on a GPU for a batch of this size, including those
// within linear_gelu and linear_norm; none on a CPU. list_matmuls() does not contain them.
std::map<ProductKey, CustomMatmul> list_custom_matmuls(const ProgramPlan& program, const Bucket& bucket,
                                                       const PlanRequest& request);

}  // namespace plimsoll
