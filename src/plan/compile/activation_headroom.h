// Computes how much device memory a training step leaves free for activations that --offload_activations
// would transfer to the host.
#pragma once

#include "graph/passes/saved_transfers.h"
#include "plan/compile/plan.h"

namespace plimsoll {

// The plan that needs the least memory transfers every activation that can be transferred, and returns each
// as late as possible. Below the peak of that plan there is memory in which some activations can stay, or
// be transferred earlier and for longer, without a larger arena. Returns as much of this headroom as the
// layout can really use, or an empty headroom if it can use none or the step is not estimated to become
// shorter. Only captured programs on a GPU may take more bytes for it: if nothing is transferred, segments
// can be captured. `graph` is the program before the pass offload_activations. Cost: several layouts of the
// program.
ActivationHeadroom find_activation_headroom(const Graph& graph, const PlanRequest& request);

}  // namespace plimsoll
