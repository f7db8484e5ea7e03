#include "plan/compile/op_times.h"

#include <algorithm>
#include <array>

#include "graph/analysis/analysis.h"
#include "graph/ops/op.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"

namespace plimsoll {
namespace {

struct UnderWay {
  size_t op = 0;
  uint32_t end = 0;
  double done_ms = 0;
};

double transferred_bytes(const Graph& graph, uint32_t position, const Bucket& bucket) {
  const Op& op = graph.ops()[position];
  return schema_of(op).transferred_bytes({graph, op}, bucket);
}

bool uses_disk(const Graph& graph, uint32_t position) {
  const Op& op = graph.ops()[position];
  return reads_disk(graph, op) || writes_disk(graph, op);
}

// Returns the collective operation of an op on the communication queue.
Collective collective_of(const Op& op) {
  if (op.def == &send_op() || op.def == &receive_op()) return Collective::kBroadcast;
  // The exchange of attention heads for tokens sends as many bytes as an all_gather with the same result, and like it computes no sums.
  if (op.def == &all_gather_op() || op.def == &gather_rows_op() || op.def == &exchange_heads_op())
    return Collective::kAllGather;
  return op.def == &reduce_scatter_op() ? Collective::kReduceScatter : Collective::kAllReduce;
}

// Returns how long a transfer takes from the time at which its queue is free. `is_alone`: no copy then runs in the opposite direction.
double transfer_ms(const TimedTransfer& transfer, const PlanRequest& request, bool is_alone) {
  if (transfer.queue == Queue::kCommunication)
    return rank_exchange_ms(request, transfer.collective, transfer.bytes, transfer.axis);
  const LinkUse use = is_alone ? LinkUse::kOneWay : LinkUse::kBothWays;
  if (transfer.uses_disk) return disk_ms(request, transfer.queue, transfer.bytes, use);
  return between_copies_ms(request) + transfer.bytes / link_bytes_per_ms(request, use);
}

}  // namespace

std::vector<TimedTransfer> timed_transfers(const Graph& graph, const Bucket& bucket) {
  std::vector<TimedTransfer> transfers;
  for (const QueuedOp& queued : find_queued_ops(graph)) {
    const double bytes = transferred_bytes(graph, queued.op, bucket);
    transfers.push_back({.op = queued.op,
                         .end = queued.end,
                         .queue = queued.queue,
                         .bytes = bytes,
                         .collective = collective_of(graph.ops()[queued.op]),
                         .axis = mesh_axis_of(graph.ops()[queued.op].attributes),
                         .uses_disk = uses_disk(graph, queued.op)});
  }
  return transfers;
}

namespace {

// Returns the transfers of a planned program. OpPlan::queue_end of its ops states where each transfer ends.
std::vector<TimedTransfer> planned_transfers(const ProgramPlan& program) {
  std::vector<TimedTransfer> transfers;
  for (uint32_t i = 0; i < program.ops.size(); ++i) {
    const OpPlan& plan = program.ops[i];
    if (!plan.is_queued()) continue;
    const double bytes = transferred_bytes(program.graph, i, program.bucket);
    transfers.push_back({.op = i,
                         .end = plan.queue_end,
                         .queue = plan.queue,
                         .bytes = bytes,
                         .collective = collective_of(program.graph.ops()[i]),
                         .axis = mesh_axis_of(program.graph.ops()[i].attributes),
                         .uses_disk = plan.uses_disk});
  }
  return transfers;
}

// Simulates the queues. If `spans` is not null, stores in it when each op starts and ends.
void simulate_queues(std::span<const TimedTransfer> transfers, const PlanRequest& request,
                     std::vector<double>& op_ms, std::vector<OpSpan>* spans) {
  std::vector<UnderWay> under_way;
  double now_ms = 0;
  std::array<double, kNumQueues> free_ms{};
  const auto wait = [&](size_t position) {
    for (const UnderWay& transfer : under_way) {
      if (transfer.end > position || transfer.done_ms <= now_ms) continue;
      op_ms[transfer.op] += transfer.done_ms - now_ms;
      now_ms = transfer.done_ms;
    }
    std::erase_if(under_way, [&](const UnderWay& transfer) { return transfer.end <= position; });
  };
  auto next = transfers.begin();
  for (uint32_t i = 0; i < op_ms.size(); ++i) {
    wait(i);
    if (next == transfers.end() || next->op != i) {
      if (spans != nullptr) spans->push_back({now_ms, now_ms, now_ms + op_ms[i]});
      now_ms += op_ms[i];
      continue;
    }
    const TimedTransfer& transfer = *next++;
    double& queue_ms = free_ms[index_of(transfer.queue)];
    queue_ms = std::max(queue_ms, now_ms);
    const Queue other_way = transfer.queue == Queue::kToHost ? Queue::kToDevice : Queue::kToHost;
    const bool is_alone = free_ms[index_of(other_way)] <= queue_ms;
    const double start_ms = queue_ms;
    queue_ms += transfer_ms(transfer, request, is_alone);
    if (spans != nullptr) spans->push_back({now_ms, start_ms, queue_ms});
    op_ms[i] = 0;
    under_way.push_back({i, transfer.end, queue_ms});
  }
  wait(op_ms.size());
}

}  // namespace

void add_transfer_waits(const ProgramPlan& program, const PlanRequest& request, std::vector<double>& op_ms) {
  simulate_queues(planned_transfers(program), request, op_ms, nullptr);
}

void add_transfer_waits(std::span<const TimedTransfer> transfers, const PlanRequest& request,
                        std::vector<double>& op_ms) {
  simulate_queues(transfers, request, op_ms, nullptr);
}

std::vector<OpSpan> op_spans(const ProgramPlan& program, const PlanRequest& request,
                             std::vector<double> op_ms) {
  std::vector<OpSpan> spans;
  spans.reserve(op_ms.size());
  simulate_queues(planned_transfers(program), request, op_ms, &spans);
  return spans;
}

}  // namespace plimsoll
