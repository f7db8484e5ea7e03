// Lowers collective operations and messages between ranks, that is, describes them as problems for their kernels.
#include <algorithm>

#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "lowering/lowering.h"

namespace plimsoll {
namespace {

LoweredOp describe_all_reduce(const OpView& op, const Bucket& bucket, const KernelTarget&) {
  AllReduceProblem problem{.ranks = AllReduceOp::num_ranks(op.attributes()),
                           .maps_peers = maps_peers(op.attributes())};
  for (int i = 0; i < op.num_inputs(); ++i) {
    const int64_t bytes = op.input(i).bytes(bucket);
    problem.largest_bytes = std::max(problem.largest_bytes, bytes);
    // Counts the bytes of small tensors, because the kernel copies all small tensors into one buffer first. If the op has only one tensor,
    // the kernel does not copy it, whatever its size, so it is not counted.
    if (bytes < kSmallTensorBytes && op.num_inputs() > 1) problem.small_bytes += bytes;
    problem.peer_scratch_bytes += peer_scratch_bytes_of(op.in_shape(i).elements(bucket),
                                                        dtype_bytes(op.input(i).type.dtype), problem.ranks);
  }
  return {.dtype = op.input(AllReduceOp::kX).type.dtype, .family = problem};
}

// Describes reduce_scatter and all_gather. Each output has the size of the complete tensor, of which a rank owns a slice.
AllReduceProblem slices_problem(const OpView& op, const Bucket& bucket) {
  const RankSlices slices = *rank_slices_of(op.attributes());
  AllReduceProblem problem{.ranks = slices.ranks, .maps_peers = maps_peers(op.attributes())};
  for (int i = 0; i < op.num_outputs(); ++i) {
    const int64_t bytes = op.output(i).bytes(bucket);
    problem.largest_bytes = std::max(problem.largest_bytes, bytes);
    if (bytes < kSmallTensorBytes) problem.small_bytes += bytes;
    const int64_t elements = op.out_shape(i).elements(bucket);
    problem.peer_scratch_bytes += peer_scatter_bytes_of(elements, slices.size(elements),
                                                        dtype_bytes(op.output(i).type.dtype), slices.ranks);
  }
  return problem;
}

LoweredOp describe_reduce_scatter(const OpView& op, const Bucket& bucket, const KernelTarget&) {
  return {.dtype = op.input(RankSlicesOp::kX).type.dtype, .family = slices_problem(op, bucket)};
}

// Describes all_gather. It copies bytes of any element type, so its kernels are listed in the catalog under a fixed type, fp32,
// like those of copies.
LoweredOp describe_all_gather(const OpView& op, const Bucket& bucket, const KernelTarget&) {
  return {.dtype = DType::kF32, .family = slices_problem(op, bucket)};
}

// Describes a message between ranks. The kernels copy bytes whatever the element type, so the catalog lists them under fp32 only.
LoweredOp describe_message(const OpView& op, const Bucket& bucket, const KernelTarget&) {
  return {.dtype = DType::kF32,
          .family = AllReduceProblem{.ranks = 2,
                                     .largest_bytes = op.output(0).bytes(bucket),
                                     .maps_peers = maps_peers(op.attributes())}};
}

// Describes an exchange of heads. The kernels copy bytes whatever the element type, so the catalog lists them under fp32 only.
LoweredOp describe_head_exchange(const OpView& op, const Bucket& bucket, const KernelTarget&) {
  return {.dtype = DType::kF32,
          .family = AllReduceProblem{.ranks = op.attributes().integer("ranks"),
                                     .largest_bytes = op.output(0).bytes(bucket),
                                     .maps_peers = maps_peers(op.attributes())}};
}

}  // namespace

std::vector<Lowering> communication_lowerings() {
  return {{&all_gather_op(), "all_gather", describe_all_gather},
          {&all_reduce_op(), "all_reduce", describe_all_reduce},
          {&exchange_heads_op(), "head_exchange", describe_head_exchange},
          {&gather_rows_op(), "all_gather", describe_all_gather},
          {&reduce_scatter_op(), "reduce_scatter", describe_reduce_scatter},
          {&receive_op(), "receive", describe_message},
          {&send_op(), "send", describe_message}};
}

}  // namespace plimsoll
