// What room a training step leaves on a GPU for states that come from the host's memory.
#pragma once

#include "graph/passes/state_turns.h"
#include "plan/build/plan.h"

namespace plimsoll {

// Where a step's updates stand, and the room that the ops then leave for their states.
struct UpdateOrder {
  UpdatePlace place = {};
  StepRoom room = {};
};

// The room below the peak of the plan in which states come as late as they can: bytes that the ops of
// `graph`, before the passes updates_at_use and offload_states, leave free and how long they take. As much of
// it is offered as the layout finds places for, so that the plan needs no byte more; nothing where that is
// none of it. Of both places that updates may have the faster one; nothing where none moves states. Cost:
// lays the program out some times.
std::optional<UpdateOrder> find_update_order(const Graph& graph, const PlanRequest& request);

}  // namespace plimsoll
