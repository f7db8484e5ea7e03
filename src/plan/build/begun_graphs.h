// build_graphs() in two parts, for searches: the first, which is most of the work, is the same for every
// choice of what is computed again, and nearly always for every size of bucket, and is done once.
#pragma once

#include <string>

#include "plan/build/plan.h"

namespace plimsoll {

// The training program up to the pass that computes values again, and the evaluation program whole. Errors:
// as build_graphs().
PlanGraphs begin_graphs(const PlanRequest& request);
// The rest of build_graphs(). The evaluation program is built again where the request's bucket is another one
// than that which it was built for: which layers are fused with their norms depends on it. Requires: what
// begin_graphs() made of a request that begins alike. Errors: as build_graphs().
PlanGraphs finish_graphs(const PlanRequest& request, PlanGraphs begun);
// Whether begin_graphs() makes the same training program of both, and the same evaluation program where
// their evaluate_bucket is the same. It may say no where they differ in what does not matter. It says no
// where passes are dumped, which would not be heard of twice.
bool begin_alike(const PlanRequest& a, const PlanRequest& b);

// What is called so holds the half of a split weight that products do not read.
std::string remainder_name(const std::string& weight);

}  // namespace plimsoll
