#include <algorithm>

#include "exec/ops/family_ops.h"
#include "graph/ops/chunk.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "plan/compile/stage_plan.h"

namespace plimsoll {
namespace {

// For a collective operation between pipeline stages: returns access to the memory of the other GPUs,
// in whose arenas the tensor has different offsets. Returns null for other operations and on a CPU.
std::shared_ptr<PeerMemory> peers_at_offsets(const BindContext& context) {
  PeerMemory* peers = context.connections().peers;
  if (peers == nullptr || !is_collective_of_stages(context.op())) return nullptr;
  const MeshAxis axis = mesh_axis_of(context.attributes());
  const std::span<const Op> before = std::span(context.graph().ops()).first(context.index());
  const auto number = std::ranges::count_if(before, [&](const Op& op) {
    return is_collective_of_stages(op) && mesh_axis_of(op.attributes) == axis;
  });
  std::vector<int64_t> offsets;
  for (const StagePlan& stage : context.plan().stages) {
    std::vector<int64_t> of_axis;
    for (const StageExchange& exchange : stage.exchanges) {
      if (exchange.axis == axis) of_axis.push_back(exchange.offset);
    }
    // In operations between the first and the last stage only, the stages in between do not take part and have no tensor.
    if (!of_axis.empty()) offsets.push_back(of_axis.at(static_cast<size_t>(number)));
  }
  PLIMSOLL_CHECK(std::ssize(offsets) == peers->size(),
                 "{} pipeline stages take part in the op '{}', but {} are connected", offsets.size(),
                 context.op().def->name(), peers->size());
  return std::make_shared<PeersAtOffsets>(*peers, std::move(offsets));
}

// Returns the buffer from which the stage `from` sends a value to this stage. The address is in the memory of that stage, as this rank
// has mapped it.
ConstView room_of_sender(const BindContext& context, PeerMemory& peers, int64_t from) {
  const StagePlan& sender = context.plan().stages.at(static_cast<size_t>(from));
  const std::string& name = context.graph().value(context.op().outputs[ReceiveOp::kY]).name;
  const auto find = [&](const std::vector<StageAction>& actions) -> const StageAction* {
    const auto found = std::ranges::find_if(actions, [&](const StageAction& action) {
      return action.kind == StageAction::Kind::kSend && action.value == name &&
             action.peer == context.request().ranks.stage;
    });
    return found == actions.end() ? nullptr : &*found;
  };
  const StageAction* sent = find(sender.evaluate);
  for (const std::vector<StageAction>& actions : sender.train) {
    if (sent == nullptr) sent = find(actions);
  }
  PLIMSOLL_CHECK(sent != nullptr,
                 "pipeline stage {} must send '{}' to this stage, but its plan contains no such send", from,
                 name);
  return {context.device_arena() + sent->offset + peers.distance_to(static_cast<int>(from)),
          context.output(ReceiveOp::kY).dtype};
}

}  // namespace

AllReduceArgs all_reduce_args(const BindContext& context) {
  const AxisConnections& connections = context.connections();
  const std::shared_ptr<PeerMemory> at_offsets = peers_at_offsets(context);
  return {.communicator = connections.ranks,
          .gpus = connections.gpus,
          .peers = at_offsets ? at_offsets.get() : connections.peers,
          .at_offsets = at_offsets,
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
  const std::shared_ptr<PeerMemory> at_offsets = peers_at_offsets(context);
  return {.communicator = connections.ranks,
          .gpus = connections.gpus,
          .peers = at_offsets ? at_offsets.get() : connections.peers,
          .at_offsets = at_offsets,
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

std::vector<DividedTensor> gathered_rows(const BindContext& context) {
  const int64_t count = context.output_elements(GatherRowsOp::kY);
  return {{.data = context.output(GatherRowsOp::kY),
           .count = count,
           .slice = rank_slices_of(context.attributes())->size(count),
           .own = context.input(GatherRowsOp::kX)}};
}

HeadExchangeArgs head_exchange_args(const BindContext& context) {
  const AxisConnections& connections = context.connections();
  const Attributes& attributes = context.attributes();
  const ConstView x = context.input(ExchangeHeadsOp::kX);
  const int64_t ranks = attributes.integer("ranks"), width = dtype_bytes(x.dtype);
  const auto share = [&](std::string_view part) { return attributes.integer(part) / ranks * width; };
  const bool to_heads = ExchangeHeadsOp::is_to_heads(attributes);
  return {.communicator = connections.ranks,
          .gpus = connections.gpus,
          .peers = connections.peers,
          .direction = to_heads ? HeadExchange::kToHeads : HeadExchange::kToRows,
          .x = x,
          .y = context.output(ExchangeHeadsOp::kY),
          .rows = to_heads ? context.input_size(ExchangeHeadsOp::kX, 0)
                           : context.output_size(ExchangeHeadsOp::kY, 0),
          .share_bytes = {share("first"), share("others"), share("others")},
          .scratch = context.scratch()};
}

SendArgs send_args(const BindContext& context) {
  const AxisConnections& connections = context.connections();
  return {.communicator = connections.ranks,
          .peers = connections.peers,
          .messages = connections.messages,
          .x = context.input(SendOp::kX),
          .room = context.output(SendOp::kMessage),
          .bytes = context.view().input(SendOp::kX).bytes(context.bucket()),
          .peer = static_cast<int>(SendOp::to(context.attributes())),
          .channel = channel_of(context.op())};
}

ReceiveArgs receive_args(const BindContext& context) {
  const AxisConnections& connections = context.connections();
  const int64_t from = ReceiveOp::from(context.attributes());
  return {
      .communicator = connections.ranks,
      .peers = connections.peers,
      .messages = connections.messages,
      .room = connections.peers == nullptr ? ConstView{} : room_of_sender(context, *connections.peers, from),
      .y = context.output(ReceiveOp::kY),
      .bytes = context.view().output(ReceiveOp::kY).bytes(context.bucket()),
      .peer = static_cast<int>(from),
      .channel = channel_of(context.op())};
}

}  // namespace plimsoll
