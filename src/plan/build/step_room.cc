#include "plan/build/step_room.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "graph/analysis/liveness.h"
#include "graph/passes/pass.h"
#include "plan/build/copy_waits.h"
#include "plan/build/op_times.h"
#include "plan/build/program_placer.h"

namespace plimsoll {
namespace {

// States that come early may raise the peak of what is not persistent by a twentieth. The first layers of a
// backward pass find no room else, and wait for each of their updates' copies: 13 of a step's 122 ms for
// BERT-large, 4 x 512 in fp32 on an H200, whose trace shows both directions of the link idle two thirds of
// that time.
constexpr int64_t kShareForSpeed = 20;

std::vector<double> op_times(const Graph& graph, const PlanRequest& request) {
  std::vector<double> op_ms;
  op_ms.reserve(graph.ops().size());
  for (const Op& op : graph.ops()) {
    const OpView view{graph, op};
    const OpSchema& schema = schema_of(op);
    op_ms.push_back(
        estimated_ms(schema, view, schema.cost(view, request.train_bucket), request.train_bucket, request));
  }
  return op_ms;
}

ProgramPlan laid_out(const Graph& graph, const PlanRequest& request) {
  Plan plan{.request = request};
  ProgramPlan program{.name = "train", .graph = graph, .bucket = request.train_bucket};
  ProgramPlacer(plan, program).lay_out(program, request);
  return program;
}

ProgramPlan with_states(const Graph& graph, const PlanRequest& request, const StepRoom& room) {
  Graph changed = graph;
  offload_states_pass(room).run(changed);
  return laid_out(changed, request);
}

double step_ms(const ProgramPlan& program, const PlanRequest& request) {
  std::vector<double> op_ms = op_times(program.graph, request);
  add_copy_waits(program, request, op_ms);
  return std::accumulate(op_ms.begin(), op_ms.end(), 0.0);
}

// States are brought from the backward pass on. Where that runs several times a step, they would come as
// often.
uint32_t first_position(const Graph& graph, const PlanRequest& request) {
  const Segment from = request.gradient_accumulation_steps > 1 ? Segment::kOptimizer : Segment::kBackward;
  const auto it = std::ranges::find_if(graph.ops(), [&](const Op& op) { return op.segment >= from; });
  return static_cast<uint32_t>(it - graph.ops().begin());
}

std::vector<int64_t> live_bytes_of(const ProgramPlan& program) {
  std::vector<int64_t> bytes(program.ops.size(), 0);
  for (const TransientBuffer& buffer : program.buffers) {
    for (uint32_t p = buffer.first; p <= buffer.last; ++p) bytes[p] += buffer.bytes;
  }
  return bytes;
}

// Of the room below `most_bytes` as much as the layout finds places for, and how long a step then is: places
// are found for all but little of it, or for nothing near it.
struct Offer {
  StepRoom room;
  double ms = std::numeric_limits<double>::infinity();
};
Offer largest_offer(const Graph& graph, const PlanRequest& request, StepRoom room, int64_t most_bytes) {
  const int64_t free_bytes = most_bytes - *std::ranges::min_element(room.live_bytes);
  for (const double share : {0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3}) {
    room.most_bytes = most_bytes - static_cast<int64_t>(share * static_cast<double>(free_bytes));
    const ProgramPlan program = with_states(graph, request, room);
    if (program.transient_bytes <= most_bytes) return {std::move(room), step_ms(program, request)};
  }
  return {};
}

}  // namespace

StepRoom find_step_room(const Graph& graph, const PlanRequest& request) {
  StepRoom room{.live_bytes = live_bytes_of(laid_out(graph, request)),
                .op_ms = op_times(graph, request),
                .link_bytes_per_ms = link_bytes_per_ms(request, LinkUse::kBothWays),
                .first = first_position(graph, request)};
  const ProgramPlan tight = with_states(graph, request, {});
  const int64_t most_bytes = tight.transient_bytes + tight.transient_bytes / kShareForSpeed;
  Offer best = largest_offer(graph, request, room, most_bytes);
  // Offloaded activations have the link of the forward pass, and where that runs several times a step the
  // states' traffic is little of it. Where no two buffers may share a place, one cannot have two lives
  // either.
  room.carries =
      request.gradient_accumulation_steps == 1 && !request.offload_activations && !request.separate_buffers;
  if (!room.carries) return best.room;
  Offer carried = largest_offer(graph, request, room, most_bytes);
  return carried.ms < best.ms ? carried.room : best.room;
}

}  // namespace plimsoll
