// build_graphs() in two parts, for searches over what is computed again: the first, which is most of the
// work, is the same for every choice and is done once.
#pragma once

#include "plan/build/plan.h"

namespace plimsoll {

// The training program up to the pass that computes values again, and the evaluation program whole. Errors:
// as build_graphs().
PlanGraphs begin_graphs(const PlanRequest& request);
// The rest of build_graphs(). Requires: what begin_graphs() made of a request that differs from this one in
// `recompute` alone. Errors: as build_graphs().
PlanGraphs finish_graphs(const PlanRequest& request, PlanGraphs begun);

}  // namespace plimsoll
