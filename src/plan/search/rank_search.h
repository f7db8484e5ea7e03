// Searches for the fastest way to train with the ranks of a run. It decides the size of tensor-parallel groups, the number of pipeline
// stages, the ZeRO stage for the data-parallel ranks, the micro-batch size, and the recomputation policy. Every answer is the plan of a
// run that can be requested by arguments. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/anatomy/memory.h"
#include "plan/request/request_of.h"

namespace plimsoll {

struct RankQuestion {
  int64_t ranks = 1;
  int64_t ranks_per_machine = 1;  // number of ranks per machine; divides `ranks`
  int64_t effective_batch = 8;    // sequences per optimizer step, summed over all ranks
  size_t num_answers = 12;
  int num_threads = 1;  // number of threads that plan at the same time; the result does not depend on it
};

// A way to divide the weights, layers, rows and optimizer states of a training run among the ranks.
struct RankDivision {
  int64_t tensor_size = 1;
  bool sequence_parallel = false;  // can be true only if tensor_size is above 1
  int64_t context_size = 1;        // above 1 only if tensor_size is 1
  int64_t pipeline_size = 1;
  ZeroStage zero_stage = ZeroStage::kNone;
  // Returns the number of ranks that train on the same batches.
  int64_t group_size() const { return tensor_size * context_size * pipeline_size; }
  // Returns the arguments, such as "--tp_size 2 --sequence_parallel True", "--pp_size 4 --zero_stage 1" or "--zero_stage 0".
  std::string text() const;
  friend bool operator==(const RankDivision&, const RankDivision&) = default;
};

// The fastest way to split the batch for a division and a recomputation policy. Its memory and times are those of a plan that
// build_plan() made.
struct RankAnswer {
  RankDivision division = {};
  RecomputePolicy recompute = RecomputePolicy::kCheap;
  int64_t data_size = 1;  // number of groups of ranks that train on different batches
  int64_t micro_batch = 0;
  int64_t accumulation = 0;
  int64_t total_bytes = 0;         // bytes per rank; in a pipeline, those of the stage that needs the most
  PurposeBytes by_purpose = {};    // bytes by purpose, in the phase of the run that needs the most memory
  int64_t communicator_bytes = 0;  // bytes outside the arena for connections between ranks
  double step_ms = 0;              // estimated time of a step
  double exposed_ms = 0;           // time of a step in which ranks wait for exchanges or for other stages
  double samples_per_s = 0;        // samples per second, summed over all ranks
  // The arguments to add to those of the run, apart from the numbers of ranks.
  std::vector<std::string> arguments = {};
};

struct RankRefusal {
  RankDivision division = {};
  std::string reason = {};
};

struct RankSearch {
  std::vector<RankAnswer> answers = {};  // the runs that fit, fastest first
  std::vector<RankRefusal> refused = {};
  int64_t num_choices = 0;  // number of combinations of division, policy and split of the batch
  // Number of combinations that were not planned, because a lower bound of their memory is too large or a policy that recomputes less
  // fits.
  int64_t num_pruned = 0;
  int64_t num_plans = 0;
  // In the result for one division: true if some split of the batch does not fit with the policy that recomputes least, although a lower
  // bound of its memory without activations is within the limit.
  bool activations_exceed_memory = false;
  // The fewest bytes among the planned combinations, or the smallest bound if none was planned.
  int64_t smallest_bytes = 0;
};

// Returns the run with this number of ranks, on machines with the same number of ranks each.
RunSpec with_ranks(RunSpec run, const RankQuestion& question);

// Returns a lower bound of the bytes of a rank: its part of the weights, states and gradients, assuming that they can be divided evenly,
// and the memory that the process uses outside the arena. `trained` and `frozen` are the numbers of elements of the model's weights.
int64_t least_rank_bytes(const PlanRequest& request, int64_t trained, int64_t frozen);

// Plans every way to divide the training among the ranks that the arguments allow, with every split of the batch into micro-batches and
// with every recomputation policy that recomputes at least as much as that of the run. A combination of these is excluded if a lower bound
// of its memory exceeds the limit, or if the same split fits with less recomputation. If a split does not fit with tensor parallelism
// alone, sequence parallelism is tried too. The ranks of a tensor-parallel group are in one machine. Pipelines have a power of two of
// stages, at most one per layer, and steps of at least as many micro-batches as stages if the batch allows it. Requires: `run` was returned
// by with_ranks() for the number of ranks in `question`. Cost: half a second per division for BERT-large.
RankSearch search_ranks(const RunSpec& run, const RankQuestion& question);

}  // namespace plimsoll
