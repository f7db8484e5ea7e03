// What room a training step leaves on a device for activations that would lie in the host's memory between
// the passes.
#pragma once

#include "graph/passes/saved_turns.h"
#include "plan/build/plan.h"

namespace plimsoll {

// The room below the peak of the plan in which all that can move does and copies come as late as they can: as
// much of it as the layout finds places for, so that the arena needs no byte more; nothing where that is none
// of it. A GPU's captured programs may: where all stays, segments are captured again. `graph` is as before
// the pass offload_activations. Cost: lays the program out some times.
SavedRoom find_saved_room(const Graph& graph, const PlanRequest& request);

}  // namespace plimsoll
