#include "plan/build/step_room.h"

#include <algorithm>
#include <utility>

#include "graph/analysis/liveness.h"
#include "graph/passes/pass.h"
#include "plan/build/op_times.h"
#include "plan/build/program_placer.h"

namespace plimsoll {
namespace {

ProgramPlan laid_out(const Graph& graph, const PlanRequest& request) {
  Plan plan{.request = request};
  ProgramPlan program{.name = "train", .graph = graph, .bucket = request.train_bucket};
  ProgramPlacer(plan, program).lay_out(program, request);
  return program;
}

int64_t bytes_with_states(const Graph& graph, const PlanRequest& request, const StepRoom& room) {
  Graph changed = graph;
  offload_states_pass(room).run(changed);
  return laid_out(changed, request).transient_bytes;
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

}  // namespace

StepRoom find_step_room(const Graph& graph, const PlanRequest& request) {
  const ProgramPlan program = laid_out(graph, request);
  StepRoom room{.live_bytes = live_bytes_of(program), .first = first_position(graph, request)};
  for (const Op& op : graph.ops()) {
    const OpView view{graph, op};
    const OpSchema& schema = schema_of(op);
    room.op_ms.push_back(
        estimated_ms(schema, view, schema.cost(view, request.train_bucket), request.train_bucket, request));
  }
  room.link_bytes_per_ms = link_bytes_per_ms(request);
  const int64_t tight_bytes = bytes_with_states(graph, request, {});
  const int64_t free_bytes = tight_bytes - *std::ranges::min_element(room.live_bytes);
  // Places are found for all but little of it, or for nothing near it.
  for (const double share : {0.0, 0.01, 0.03, 0.1, 0.3}) {
    room.most_bytes = tight_bytes - static_cast<int64_t>(share * static_cast<double>(free_bytes));
    if (bytes_with_states(graph, request, room) <= tight_bytes) return room;
  }
  return {};
}

}  // namespace plimsoll
