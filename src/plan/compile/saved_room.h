// How much of the device's memory a training step leaves free for activations that --offload_activations
// would move to the host.
#pragma once

#include "graph/passes/saved_transfers.h"
#include "plan/compile/plan.h"

namespace plimsoll {

// The plan that needs the least memory moves every activation that can move, and brings each back as late as
// possible. Below the peak of that plan there is room in which some activations can stay, or be copied
// earlier and longer, without a larger arena. Returns as much of this room as the layout can really use, or
// an empty room where it can use none or the step would not be estimated to be shorter. Only captured
// programs on a GPU may take more bytes for it: where nothing moves, segments can be captured. `graph` is the
// program before the pass offload_activations. Cost: several layouts of the program.
SavedRoom find_saved_room(const Graph& graph, const PlanRequest& request);

}  // namespace plimsoll
