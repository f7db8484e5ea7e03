// What room a training step leaves on a GPU for states that come from the host's memory.
#pragma once

#include "graph/passes/state_turns.h"
#include "plan/build/plan.h"

namespace plimsoll {

// The room below the peak of the plan in which states come as late as they can: bytes that the ops of
// `graph`, before the pass offload_states, leave free and how long they take. As much of it is offered as the
// layout finds places for, so that the plan needs no byte more; nothing where that is none of it. Cost: lays
// the program out some times.
StepRoom find_step_room(const Graph& graph, const PlanRequest& request);

}  // namespace plimsoll
