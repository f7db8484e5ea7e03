// The description of collective operations.
#include <algorithm>

#include "graph/ops/ops.h"
#include "lowering/lowering.h"

namespace plimsoll {
namespace {

LoweredOp describe_all_reduce(const OpView& op, const Bucket& bucket, const KernelTarget&) {
  AllReduceProblem problem{.ranks = AllReduceOp::num_ranks(op.attributes())};
  for (int i = 0; i < op.num_inputs(); ++i) {
    const int64_t bytes = op.input(i).bytes(bucket);
    problem.largest_bytes = std::max(problem.largest_bytes, bytes);
    if (bytes < kSmallTensorBytes) problem.small_bytes += bytes;
  }
  return {.dtype = op.input(AllReduceOp::kX).type.dtype, .family = problem};
}

}  // namespace

std::vector<Lowering> communication_lowerings() {
  return {{&all_reduce_op(), "all_reduce", describe_all_reduce}};
}

}  // namespace plimsoll
