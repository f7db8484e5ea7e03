#include "plan/compile/state_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "graph/analysis/analysis.h"
#include "graph/ir/graph.h"
#include "graph/passes/pass.h"
#include "plan/compile/kernel_choice.h"
#include "plan/compile/program_buffers.h"
#include "tests/spine/plan_grid.h"

namespace plimsoll {
namespace {

// Returns the training graph from which the planner computes how much memory a step leaves unused for states.
Graph graph_before(const PlanRequest& given) {
  PlanRequest request = given;
  request.passes.disabled.insert("offload_states");
  request.passes.disabled.insert("updates_at_use");
  return build_graphs(request).programs.at(kTrainProgram).graph;
}

using Life = std::tuple<int64_t, uint32_t, uint32_t>;

std::vector<Life> lives(std::span<const TransientBuffer> buffers) {
  std::vector<Life> list;
  for (const TransientBuffer& buffer : buffers) list.emplace_back(buffer.bytes, buffer.first, buffer.last);
  return list;
}

// Divides buffers into two lists, as the layout does: those that are live within one run of the program, in their order, and those that are
// live from one run to the next, sorted by the positions at which they are written.
std::pair<std::vector<Life>, std::vector<Life>> within_and_beyond(const std::vector<Life>& list) {
  std::pair<std::vector<Life>, std::vector<Life>> parts;
  for (const Life& life : list)
    (std::get<1>(life) <= std::get<2>(life) ? parts.first : parts.second).push_back(life);
  std::ranges::stable_sort(parts.second, {}, [](const Life& life) { return std::get<1>(life); });
  return parts;
}

TransferSchedule turns_of(const StateSchedules& schedules, const MemoryHeadroom& room, bool is_disk) {
  TransferSchedule tight{.transfers = late_transfers(schedules.updates(), is_disk)};
  if (room.live_bytes.empty()) return tight;
  if (schedules.updates().front().segment == Segment::kForward)
    return transfers_for_forward_updates(schedules.updates(), schedules.segments(), room)
        .value_or(std::move(tight));
  return transfers_as_early_as_possible(schedules.updates(), schedules.segments(), room);
}

// Checks that the copies and buffers that StateSchedules predicts for a transfer schedule agree with the graph that really contains these
// copies.
TransferSchedule expect_the_graphs(const PlanRequest& request, Graph graph, const MemoryHeadroom& room) {
  const StateSchedules schedules(graph, request);
  const bool is_disk = request.update.states_on_disk;
  TransferSchedule transfers = turns_of(schedules, room, is_disk);
  const StateSchedule schedule = schedules.with(transfers);
  EXPECT_GT(schedules.updates().size(), 0u);

  offload_states_pass(room, is_disk ? Space::kDisk : Space::kHost).run(graph);
  verify(graph, "after the pass");
  const std::vector<int64_t> scratch_bytes =
      KernelChoice(graph).scratch_bytes(graph, request.batches.train, request);
  EXPECT_EQ(schedule.op_ms.size(), graph.ops().size());
  EXPECT_EQ(within_and_beyond(lives(schedule.buffers)),
            within_and_beyond(lives(ProgramBuffers(graph)
                                        .of(graph, request.batches.train, scratch_bytes, request.device.kind)
                                        .on_device)));
  EXPECT_EQ(schedule.cut_at, layout_cut(graph));
  std::vector<std::tuple<uint32_t, uint32_t, Queue, bool>> found, want;
  for (const TimedTransfer& copy : schedule.copies)
    found.emplace_back(copy.op, copy.end, copy.queue, copy.uses_disk);
  for (const TimedTransfer& copy : timed_transfers(graph, request.batches.train))
    want.emplace_back(copy.op, copy.end, copy.queue, copy.uses_disk);
  EXPECT_EQ(found, want);
  return transfers;
}

// Counts the schedules with deferred, prefetched, or late updates, so that the test can check that each of these cases occurs.
struct Seen {
  size_t deferred = 0;
  size_t prefetched = 0;
  size_t at_use = 0;
};

// Checks three schedules: the one with the latest transfers, the one that the planner chooses, and one with unlimited memory.
void expect_the_graphs(const GridPoint& point, Seen& seen, bool on_disk = false) {
  SCOPED_TRACE(text_of(point) + (on_disk ? " on a disk" : ""));
  PlanRequest request = request_of(point);
  request.update.states_on_disk = on_disk;
  for (const UpdatesAtUse at_use : {UpdatesAtUse::kWhereFaster, UpdatesAtUse::kAlways}) {
    request.offload.updates_at_use = at_use;
    Graph graph = graph_before(request);
    UpdateOrder order = find_update_order(graph, request).value();
    if (order.place.is_at_use) updates_at_use_pass().run(graph);
    seen.at_use += order.place.is_at_use ? 1 : 0;
    expect_the_graphs(request, graph, {});
    const auto look = [&] {
      const TransferSchedule transfers = expect_the_graphs(request, graph, order.room);
      seen.deferred += transfers.deferred;
      seen.prefetched += transfers.prefetched;
    };
    look();
    if (order.room.live_bytes.empty()) continue;
    order.room.most_bytes *= 4;
    order.room.may_defer = point.accumulation == 1 && !point.offload_activations;
    look();
  }
}

TEST(StateSchedule, IsThatOfTheGraph) {
  Seen seen;
  int cases = 0;
  for (const char* gpu : {"h200", ""}) {
    for (const DType activations : {DType::kF32, DType::kBF16}) {
      for (const bool in_backward : {false, true}) {
        for (const bool offload_activations : {false, true}) {
          for (const int64_t accumulation : {1, 4}) {
            if (in_backward && accumulation > 1) continue;
            GridPoint point = full_batch("bert-base-uncased", 8, 128);
            point.gpu = gpu;
            point.activations = activations;
            point.accumulation = accumulation;
            point.offload_optimizer = true;
            point.offload_activations = offload_activations;
            point.optimizer_in_backward = in_backward;
            expect_the_graphs(point, seen);
            if (activations == DType::kF32 && accumulation == 1) expect_the_graphs(point, seen, true);
            ++cases;
          }
        }
      }
    }
  }
  EXPECT_EQ(cases, 2 * 2 * 6);
  EXPECT_GT(seen.deferred, 0u);
  EXPECT_GT(seen.prefetched, 0u);
  EXPECT_GT(seen.at_use, 0u);
  GridPoint many_states = full_batch("bert-base-uncased", 8, 128);
  many_states.gpu = "h200";
  many_states.offload_optimizer = true;
  many_states.optimizer = OptimizerKind::kAdafactor;
  expect_the_graphs(many_states, seen);
}

TEST(StateSchedule, AProgramWithoutStatesHasNoRoomForThem) {
  GridPoint point = full_batch("bert-base-uncased", 8, 128);
  point.offload_optimizer = true;
  PlanRequest request = request_of(point);
  request.update.optimizer.kind = OptimizerKind::kSgd;
  request.update.optimizer.momentum = 0;
  EXPECT_FALSE(find_update_order(graph_before(request), request).has_value());
}

}  // namespace
}  // namespace plimsoll
