// Builds the graphs of a plan, before kernels and memory offsets are chosen. Building them is most
// of the work of planning, and the result is nearly the same for every bucket (batch size). A search
// therefore builds them once and then chooses kernels and offsets for many buckets (place_plan()).
//
// Building has two parts. begin_graphs() does most of the work. Its result does not depend on what is recomputed in the backward pass,
// and only in rare cases on the size of buckets. finish_graphs() is done for every plan that a search tries. Thread-safe: pure functions.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/passes/pass.h"
#include "optim/optimizer.h"
#include "plan/compile/plan_request.h"
#include "plan/compile/program_plan.h"

namespace plimsoll {

struct PlanGraphs {
  WeightList weights = {};
  Programs programs = {};
};

// The first part of a training program: the model, its loss and the gradients, without the optimizer. Plans have the same first part if
// they differ only in the optimizer, in what ranks exchange, or in whether an fp32 model accumulates gradients.
struct GradientGraph {
  WeightList weights = {};
  Graph graph = Graph();
  std::vector<Parameter> parameters = {};
  LossScale loss_scale = {};
  // the weights that both the first and the last pipeline stage use, such as tied embeddings: the names of the values that updates
  // change
  std::set<std::string> shared_by_ends = {};
  PassManager passes;
};

// Returns the graphs of a plan by calling begin_graphs() and finish_graphs(). Errors: as build_plan().
PlanGraphs build_graphs(const PlanRequest& request);

// Returns the training program before the recomputation pass, and the complete evaluation program. Errors: as
// build_plan().
PlanGraphs begin_graphs(const PlanRequest& request);
// The steps of begin_graphs() as separate functions, for callers that share the result of a single step. Errors: as build_plan().
// begin_gradients() and begin_training() require that the request trains. build_evaluation() requires that the request evaluates, that
// `weights` are PlanGraphs::weights, and that `train` is the training program of the request, or null if it does not train.
GradientGraph begin_gradients(const PlanRequest& request);
ProgramPlan begin_training(const PlanRequest& request, GradientGraph gradients);
ProgramPlan build_evaluation(const PlanRequest& request, const std::vector<WeightSpec>& weights,
                             const ProgramPlan* train);
// Completes graphs that begin_graphs() returned. If the request's evaluation bucket (the largest batch size of evaluations) is not the one
// that `begun` was built for, it builds the evaluation program again, because fusing a layer with its norm depends on the batch size.
// Requires: `begun` is from begin_graphs() of a request that share_begun_graphs() accepts together with `request`. Errors: as
// build_plan().
PlanGraphs finish_graphs(const PlanRequest& request, PlanGraphs begun);
// Returns true if begin_graphs() makes the same training program of both requests, and the same evaluation program if their evaluation
// buckets are equal. It may return false for requests with equal graphs. It always returns false if graphs are written to files after
// each pass (a debugging option), because then each request must run all passes itself.
bool share_begun_graphs(const PlanRequest& a, const PlanRequest& b);
// share_gradients() returns true only if begin_gradients() returns equal graphs for both requests. share_evaluation() does so for
// build_evaluation(). Both may return false even if the graphs would be equal.
bool share_gradients(const PlanRequest& a, const PlanRequest& b);
bool share_evaluation(const PlanRequest& a, const PlanRequest& b);

// Returns the number of rows for which logits are computed in a batch of this size.
int64_t num_predictions(const PlanRequest& request, const Bucket& bucket);

// Returns true if the request computes the training logits of a batch of this size in chunks of rows.
bool chunks_loss(const PlanRequest& request, const Bucket& train_bucket);

// Returns true if fp32 weights are stored as two 16-bit halves: the value rounded to bf16, and the remainder. This works only for bf16:
// 16 bits hold the exact remainder of a bf16 value, but not that of an fp16 value, whose exponent range is smaller.
bool splits_weights(const PlanRequest& request);

// Returns the number of neighbouring elements of a quantized matrix that share one scale. Returns nothing if the elements of a row share
// one scale, or if matrices are not quantized.
std::optional<int64_t> quantization_block(const LoraConfig& lora);

// Returns the name of the buffer with the lower half (the remainder) of a split weight, which only updates read.
std::string remainder_name(const std::string& weight);

}  // namespace plimsoll
