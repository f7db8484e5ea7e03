// Computes how much GPU memory a training step leaves free for optimizer states that are transferred from
// the host.
#pragma once

#include "graph/passes/transfer_schedule.h"
#include "plan/compile/plan.h"

namespace plimsoll {

// The place of a step's updates, and the headroom that the ops then leave for their states.
struct UpdateOrder {
  UpdatePlace place = {};
  MemoryHeadroom room = {};
};

// Decides where updates run, in their own segment or in the next step's forward pass, and how early their
// states may be transferred to the device. The headroom consists of the live bytes at each op of `graph`,
// which is the program before the passes updates_at_use and offload_states, the time of each op, and the
// largest number of bytes that may be live. That limit is the peak of the plan in which states are
// transferred as late as possible, plus a twentieth, less the bytes for which the layout finds no places.
// From both places for updates it takes the one with the shorter estimated step. Returns nothing if no update
// transfers states. Cost: several layouts of the program.
std::optional<UpdateOrder> find_update_order(const Graph& graph, const PlanRequest& request);

}  // namespace plimsoll
