// build_graphs() in two parts, for searches. The first part is most of the work and does not depend on what
// is computed again in the backward pass, and rarely on the size of buckets: a search does it once, and the
// second part for every plan that it tries.
#pragma once

#include <string>

#include "plan/compile/plan.h"

namespace plimsoll {

// The training program up to the pass that computes values again, and the evaluation program whole. Errors:
// as build_graphs().
PlanGraphs begin_graphs(const PlanRequest& request);
// The rest of build_graphs(). If the request's evaluation bucket is not the one that `begun` was built for,
// the evaluation program is built anew, because which layers are fused with their norms depends on that
// bucket. Requires: `begun` is from begin_graphs() of a request for which begin_alike() is true. Errors: as
// build_graphs().
PlanGraphs finish_graphs(const PlanRequest& request, PlanGraphs begun);
// Whether begin_graphs() makes the same training program of both requests, and the same evaluation program
// where their evaluate_bucket is the same. May be false though they are the same, where requests differ in
// something that does not matter. Always false where passes are dumped, for their texts are expected once for
// each request.
bool begin_alike(const PlanRequest& a, const PlanRequest& b);

// The name of the buffer with the half of a split weight that products do not read.
std::string remainder_name(const std::string& weight);

}  // namespace plimsoll
