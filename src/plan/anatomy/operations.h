// The anatomy of operations: floating-point operations, bytes moved and estimated time of every op of a step, by group of ops and by
// segment (forward, backward, optimizer). Pure; thread-safe.
//
// Times are estimates from the tables of rates in hardware/cpu_target.h, hardware/gpu_target.h and hardware/gpu_efficiency.h: the time of
// an op follows from its arithmetic or its memory traffic, whichever takes longer. Copies between a GPU and the host overlap with other
// ops; the time of a copy is the time for which other ops wait for it. Operations and bytes are those of a batch of the largest size
// (bucket) that the plan has room for.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/ops/op.h"
#include "plan/compile/plan.h"

namespace plimsoll {

inline constexpr int kNumOpGroups = 5;
constexpr size_t index_of(OpGroup group) {
  return static_cast<size_t>(group);
}

// The estimate for one op of a program. Estimates are in the order in which the ops run.
struct OpEstimate {
  std::string op = {};      // kind of the op, such as "matmul"
  std::string output = {};  // name of the op's first output
  std::string module = {};
  std::string kernel = {};  // kernel that the plan chose
  OpGroup group = OpGroup::kElementWise;
  Segment segment = Segment::kForward;
  double flops = 0;  // floating-point operations per run of the op
  double bytes = 0;
  double ms = 0;  // estimated time of one run of the op
  int64_t runs_per_step = 1;
};
std::vector<OpEstimate> estimate_ops(const Plan& plan, const ProgramPlan& program);

struct OpTotals {
  double flops = 0;
  double bytes = 0;
  double ms = 0;
  OpTotals& operator+=(const OpTotals& other);
};

// Sums over a whole optimizer step: forward and backward passes of every micro-batch, and one run of the optimizer. For a plan that does
// not train, sums over one batch of evaluation.
struct OperationsAnatomy {
  std::array<std::array<OpTotals, kNumSegments>, kNumOpGroups> by_group{};
  OpTotals group(OpGroup group) const;
  OpTotals segment(Segment segment) const;
  OpTotals total() const;
  // With pipeline parallelism: the time of a step including its update and the waits of stages for each other. Otherwise 0.
  double pipeline_ms = 0;
  int64_t samples = 0;  // number of sequences per step
  int64_t tokens = 0;
  double samples_per_s() const;
  std::string rates = {};  // describes the source of the rates from which times are estimated
};
OperationsAnatomy operations_anatomy(const Plan& plan);

// Returns the floating-point operations of matrix products and attention in a forward and backward pass of a batch of this size, without
// recomputation: the numerator of model FLOPs utilization (MFU), as in PaLM (Chowdhery et al., arXiv 2204.02311, appendix B).
double model_flops(const ProgramPlan& program, const Bucket& bucket);

// Returns the peak rate of matrix products in the plan's data type, according to the data sheet of the GPU, in 1e9 operations per second.
// Returns 0 on a CPU, for which no data sheet is stored.
double peak_product_gflops(const PlanRequest& request);

}  // namespace plimsoll
