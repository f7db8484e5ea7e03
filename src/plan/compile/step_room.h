// How much of a GPU's memory a training step leaves free for optimizer states that come from the host.
#pragma once

#include "graph/passes/transfer_schedule.h"
#include "plan/compile/plan.h"

namespace plimsoll {

// Where a step's updates stand, and the room that the ops then leave for their states.
struct UpdateOrder {
  UpdatePlace place = {};
  StepRoom room = {};
};

// Decides where updates run, in their own step or in the next step's forward pass, and how early their states
// may come to the device. The room is described by the bytes that are live at each op of `graph`, which is
// the program before the passes updates_at_use and offload_states, by the time of each op, and by the most
// bytes that may lie there. That limit is the peak of the plan in which states come as late as they can plus
// a twentieth, less what the layout finds no places for. Of both places for updates the one with the shorter
// estimated step is taken. Returns nothing where no update moves states. Cost: several layouts of the
// program.
std::optional<UpdateOrder> find_update_order(const Graph& graph, const PlanRequest& request);

}  // namespace plimsoll
