#include "exec/ops/family_ops.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"

namespace plimsoll {

AllReduceArgs all_reduce_args(const BindContext& context) {
  const AxisConnections& connections = context.connections();
  return {.communicator = connections.ranks,
          .gpus = connections.gpus,
          .peers = connections.peers,
          .scratch = context.scratch()};
}

std::vector<ReducedTensor> reduced_tensors(const BindContext& context) {
  std::vector<ReducedTensor> tensors;
  for (int i = 0; i < context.view().num_outputs(); ++i)
    tensors.push_back({.data = context.output(i), .count = context.output_elements(i)});
  return tensors;
}

RankSlicesArgs rank_slices_args(const BindContext& context) {
  const AxisConnections& connections = context.connections();
  return {.communicator = connections.ranks,
          .gpus = connections.gpus,
          .peers = connections.peers,
          .scratch = context.scratch()};
}

std::vector<DividedTensor> divided_tensors(const BindContext& context) {
  const std::optional<RankSlices> slices = rank_slices_of(context.attributes());
  std::vector<DividedTensor> tensors;
  for (int i = 0; i < context.view().num_outputs(); ++i) {
    const int64_t count = context.output_elements(i);
    tensors.push_back({.data = context.output(i), .count = count, .slice = slices->size(count)});
    if (context.view().input(i).divided) tensors.back().own = context.input(i);
  }
  return tensors;
}

SendArgs send_args(const BindContext& context) {
  return {.communicator = &context.communicator(MeshAxis::kPipeline),
          .x = context.input(SendOp::kX),
          .room = context.output(SendOp::kMessage),
          .bytes = context.view().input(SendOp::kX).bytes(context.bucket()),
          .peer = static_cast<int>(SendOp::to(context.attributes()))};
}

ReceiveArgs receive_args(const BindContext& context) {
  return {.communicator = &context.communicator(MeshAxis::kPipeline),
          .y = context.output(ReceiveOp::kY),
          .bytes = context.view().output(ReceiveOp::kY).bytes(context.bucket()),
          .peer = static_cast<int>(ReceiveOp::from(context.attributes()))};
}

}  // namespace plimsoll
