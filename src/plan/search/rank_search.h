// Searches for the fastest way to train with the ranks of a run: the size of tensor-parallel groups, the number of pipeline stages, the
// ZeRO stage of the other ranks, the split of the batch, and the policy of recomputation. Every answer is the plan of a run that its
// arguments request. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/anatomy/memory.h"
#include "plan/request/request_of.h"

namespace plimsoll {

struct RankQuestion {
  int64_t ranks = 1;
  int64_t ranks_per_machine = 1;  // divides `ranks`
  int64_t effective_batch = 8;    // sequences per optimizer step of all ranks
  size_t num_answers = 12;
  int num_threads = 1;  // threads that plan at the same time; the result does not depend on their number
};

// A choice of what the ranks divide.
struct RankDivision {
  int64_t tensor_size = 1;
  bool sequence_parallel = false;  // with tensor_size above 1
  int64_t context_size = 1;        // above 1 only if tensor_size is 1
  int64_t pipeline_size = 1;
  ZeroStage zero_stage = ZeroStage::kNone;
  // Returns the number of ranks that train on the same batches.
  int64_t group_size() const { return tensor_size * context_size * pipeline_size; }
  // Returns "--tp_size 2 --sequence_parallel True", "--pp_size 4 --zero_stage 1" or "--zero_stage 0".
  std::string text() const;
  friend bool operator==(const RankDivision&, const RankDivision&) = default;
};

// The fastest split of the batch for a division and a policy of recomputation. All figures come from build_plan().
struct RankAnswer {
  RankDivision division = {};
  RecomputePolicy recompute = RecomputePolicy::kCheap;
  int64_t data_size = 1;  // groups of ranks that train on different batches
  int64_t micro_batch = 0;
  int64_t accumulation = 0;
  int64_t total_bytes = 0;         // bytes per rank; in a pipeline, those of the stage that needs the most
  PurposeBytes by_purpose = {};    // bytes by purpose, in the phase of the run that needs the most
  int64_t communicator_bytes = 0;  // bytes for connections between ranks, outside the arena
  double step_ms = 0;              // estimated
  double exposed_ms = 0;           // the part of a step in which ranks wait for exchanges or for other stages
  double samples_per_s = 0;        // samples of all ranks per second
  std::vector<std::string> arguments =
      {};  // arguments that differ from those of the run, without the numbers of ranks
};

struct RankRefusal {
  RankDivision division = {};
  std::string reason = {};
};

struct RankSearch {
  std::vector<RankAnswer> answers = {};  // the fastest first
  std::vector<RankRefusal> refused = {};
  int64_t num_choices = 0;  // divisions x policies x splits
  int64_t num_pruned =
      0;  // choices that were not planned: too large by a lower bound, or one that recomputes less fits
  int64_t num_plans = 0;
  // For one division: true if a split does not fit without more recomputation because of its activations.
  bool activations_exceed_memory = false;
  int64_t smallest_bytes = 0;  // the fewest bytes among the choices that were planned, or the smallest bound
};

// Returns the run with this number of ranks on machines of one size.
RunSpec with_ranks(RunSpec run, const RankQuestion& question);

// Returns a lower bound of the bytes of a rank: its weights, states and gradients, assuming that they are divided without remainder, and
// the memory that the process holds outside the arena. `trained` and `frozen`: elements of the model's weights.
int64_t least_rank_bytes(const PlanRequest& request, int64_t trained, int64_t frozen);

// Plans every division that arguments accept, with every policy of recomputation that recomputes at least as much as the run and
// every split of the batch, except those that a bound excludes: a lower bound of their memory exceeds the limit, or the same split
// fits with a policy that recomputes less. Tensor-parallel divisions of which a split does not fit are also planned with sequence
// parallelism. The ranks of a tensor-parallel group are in one machine. Pipelines have a power of two of
// stages, at most one per layer, and steps of at least as many micro-batches as stages if the batch allows it. Requires: the run has the
// ranks of the question (with_ranks()). Cost: half a second per division for BERT-large.
RankSearch search_ranks(const RunSpec& run, const RankQuestion& question);

}  // namespace plimsoll
