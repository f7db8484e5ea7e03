// The graphs of a plan before kernels and places are chosen. Building them is most of the work of planning, and the
// result is nearly the same for buckets of any size: a search builds them once and places them often.
//
// Building has two parts. begin_graphs() is most of the work; its result does not depend on what is recomputed in
// the backward pass, and rarely on the size of buckets. finish_graphs() is done for every plan that a search tries.
// Thread-safe: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/compile/plan_request.h"
#include "plan/compile/program_plan.h"

namespace plimsoll {

struct PlanGraphs {
  std::vector<WeightSpec> weights = {};
  Programs programs = {};
};

// Returns the graphs of a plan: begin_graphs() and finish_graphs(). Errors: as build_plan().
PlanGraphs build_graphs(const PlanRequest& request);

// Returns the training program before the recomputation pass, and the complete evaluation program. Errors: as
// build_plan().
PlanGraphs begin_graphs(const PlanRequest& request);
// Completes graphs that begin_graphs() returned. If the request's evaluation bucket is not the one that `begun` was
// built for, it builds the evaluation program again, because that bucket determines which layers are fused with
// their norms. Requires: `begun` is from begin_graphs() of a request that share_begun_graphs() accepts together
// with `request`. Errors: as build_plan().
PlanGraphs finish_graphs(const PlanRequest& request, PlanGraphs begun);
// Returns true if begin_graphs() makes the same training program of both requests, and the same evaluation program
// if their evaluation buckets are equal. It may return false for requests with equal graphs. It always returns
// false if passes are dumped, because each request is expected to dump its own.
bool share_begun_graphs(const PlanRequest& a, const PlanRequest& b);

// Returns the number of rows of the logits of this bucket.
int64_t num_predictions(const PlanRequest& request, const Bucket& bucket);

// Returns true if the request computes the training logits of this bucket in chunks.
bool chunks_loss(const PlanRequest& request, const Bucket& train_bucket);

// Returns true if weights are stored in two parts. Only bf16 allows it: 16 bits hold the exact remainder of a bf16
// value, but not that of an fp16 value, whose exponent range is smaller.
bool splits_weights(const PlanRequest& request);

// Returns the name of the buffer with the half of a split weight that products do not read.
std::string remainder_name(const std::string& weight);

}  // namespace plimsoll
