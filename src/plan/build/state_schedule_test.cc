#include "plan/build/state_schedule.h"

#include <gtest/gtest.h>

#include <tuple>

#include "graph/analysis/copies.h"
#include "graph/passes/pass.h"
#include "plan/build/kernel_choice.h"
#include "plan/build/program_buffers.h"
#include "plan/build/step_room.h"
#include "tests/spine/plan_grid.h"

namespace plimsoll {
namespace {

// The training graph as the pass offload_states meets it.
Graph graph_before(PlanRequest request) {
  request.passes.disabled.insert("offload_states");
  return build_graphs(request).train->graph;
}

using Life = std::tuple<int64_t, uint32_t, uint32_t>;

std::vector<Life> lives(std::span<const TransientBuffer> buffers) {
  std::vector<Life> list;
  for (const TransientBuffer& buffer : buffers) list.emplace_back(buffer.bytes, buffer.first, buffer.last);
  return list;
}

// What the numbers say of a schedule is what stands in its graph. How many updates are carried.
size_t expect_the_graphs(const GridPoint& point, const StepRoom& room) {
  SCOPED_TRACE(text_of(point));
  const PlanRequest request = request_of(point);
  Graph graph = graph_before(request);
  const StateSchedules schedules(graph, request);
  const StateTurns turns = room.live_bytes.empty()
                               ? StateTurns{.turns = tight_turns(schedules.updates())}
                               : early_turns(schedules.updates(), schedules.segments(), room);
  const StateSchedule schedule = schedules.with(turns);
  EXPECT_GT(schedules.updates().size(), 0u);

  offload_states_pass(room).run(graph);
  const std::vector<int64_t> scratch_bytes =
      KernelChoice(graph).scratch_bytes(graph, request.train_bucket, request);
  EXPECT_EQ(schedule.op_ms.size(), graph.ops().size());
  EXPECT_EQ(
      lives(schedule.buffers),
      lives(ProgramBuffers(graph).of(graph, request.train_bucket, scratch_bytes, request.device).on_device));
  std::vector<std::tuple<uint32_t, uint32_t, Space>> found, want;
  for (const TimedCopy& copy : schedule.copies) found.emplace_back(copy.op, copy.end, copy.to);
  for (const CopyInFlight& copy : find_copies(graph)) want.emplace_back(copy.op, copy.end, copy.to);
  EXPECT_EQ(found, want);
  return turns.carried;
}

// States come as late as they can, as find_step_room() has them come, and where there is room without end.
size_t expect_the_graphs(const GridPoint& point) {
  const PlanRequest request = request_of(point);
  StepRoom room = find_step_room(graph_before(request), request);
  size_t carried = expect_the_graphs(point, {}) + expect_the_graphs(point, room);
  if (room.live_bytes.empty()) return carried;
  room.most_bytes *= 4;
  room.carries = point.accumulation == 1 && !point.offload_activations;
  return carried + expect_the_graphs(point, room);
}

TEST(StateSchedule, IsThatOfTheGraph) {
  size_t carried = 0;
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
            carried += expect_the_graphs(point);
            ++cases;
          }
        }
      }
    }
  }
  EXPECT_EQ(cases, 2 * 2 * 6);
  EXPECT_GT(carried, 0u);
  GridPoint many_states = full_batch("bert-base-uncased", 8, 128);
  many_states.gpu = "h200";
  many_states.offload_optimizer = true;
  many_states.optimizer = OptimizerKind::kAdafactor;
  expect_the_graphs(many_states);
}

TEST(StateSchedule, AProgramWithoutStatesHasNoRoomForThem) {
  GridPoint point = full_batch("bert-base-uncased", 8, 128);
  point.offload_optimizer = true;
  PlanRequest request = request_of(point);
  request.optimizer.kind = OptimizerKind::kSgd;
  request.optimizer.momentum = 0;
  EXPECT_TRUE(find_step_room(graph_before(request), request).live_bytes.empty());
}

}  // namespace
}  // namespace plimsoll
