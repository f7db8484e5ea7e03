// The anatomy of operations: floating-point operations, bytes moved and estimated time of every op of a step,
// by group and by segment. Pure; thread-safe.
//
// Times are estimates from the tables of rates in hardware/cpu_target.h, hardware/gpu_target.h and
// hardware/gpu_efficiency.h: an op takes as long as the slower of its arithmetic and its memory traffic. Copies
// between a GPU and the host run beside other ops: theirs is the time that others wait for them. Ops
// and bytes are those of the largest bucket, every row a real token.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/ops/op.h"
#include "plan/compile/plan.h"

namespace plimsoll {

inline constexpr int kNumOpGroups = 5;
inline constexpr int kNumSegments = 3;
constexpr size_t index_of(OpGroup group) {
  return static_cast<size_t>(group);
}
constexpr size_t index_of(Segment segment) {
  return static_cast<size_t>(segment);
}

// One op of a program, in the order of the schedule.
struct OpEstimate {
  std::string op = {};      // "matmul"
  std::string output = {};  // the name of its first output
  std::string module = {};
  std::string kernel = {};  // the implementation that the plan chose
  OpGroup group = OpGroup::kElementWise;
  Segment segment = Segment::kForward;
  double flops = 0;  // of one run
  double bytes = 0;
  double ms = 0;  // estimated
  int64_t runs_per_step = 1;
};
std::vector<OpEstimate> estimate_ops(const Plan& plan, const ProgramPlan& program);

struct OpTotals {
  double flops = 0;
  double bytes = 0;
  double ms = 0;
  OpTotals& operator+=(const OpTotals& other);
};

// Sums over a whole step: every micro-batch's forward and backward, one optimizer run. Of a plan that does
// not train: over one batch of evaluation.
struct OperationsAnatomy {
  std::array<std::array<OpTotals, kNumSegments>, kNumOpGroups> by_group{};
  OpTotals group(OpGroup group) const;
  OpTotals segment(Segment segment) const;
  OpTotals total() const;
  int64_t samples = 0;  // sequences in a step
  int64_t tokens = 0;
  double samples_per_s() const;
  std::string rates = {};  // where the rates come from, for people: "avx512, 2 threads; ..."
};
OperationsAnatomy operations_anatomy(const Plan& plan);

// Floating-point operations of the contractions of one forward and backward pass in this bucket, without
// those that the backward pass computes again: what the utilisation of a device (MFU) counts, as in PaLM
// (Chowdhery et al., arXiv 2204.02311, appendix B).
double model_flops(const ProgramPlan& program, const Bucket& bucket);

// What a data sheet promises of products in the plan's type, 1e9 operations a second; 0 on a CPU, of which
// no table of ours says it.
double peak_product_gflops(const PlanRequest& request);

}  // namespace plimsoll
