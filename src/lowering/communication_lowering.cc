// The description of collective operations.
#include <algorithm>

#include "graph/ops/ops.h"
#include "lowering/lowering.h"

namespace plimsoll {
namespace {

LoweredOp describe_all_reduce(const OpView& op, const Bucket& bucket, const KernelTarget&) {
  AllReduceProblem problem{.ranks = AllReduceOp::num_ranks(op.attributes()),
                           .maps_peers = AllReduceOp::maps_peers(op.attributes())};
  for (int i = 0; i < op.num_inputs(); ++i) {
    const int64_t bytes = op.input(i).bytes(bucket);
    problem.largest_bytes = std::max(problem.largest_bytes, bytes);
    if (bytes < kSmallTensorBytes) problem.small_bytes += bytes;
    problem.peer_scratch_bytes += peer_scratch_bytes_of(op.in_shape(i).elements(bucket),
                                                        dtype_bytes(op.input(i).type.dtype), problem.ranks);
  }
  return {.dtype = op.input(AllReduceOp::kX).type.dtype, .family = problem};
}

}  // namespace

std::vector<Lowering> communication_lowerings() {
  return {{&all_reduce_op(), "all_reduce", describe_all_reduce}};
}

}  // namespace plimsoll
