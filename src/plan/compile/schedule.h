// Describes the order in which the segments of programs run, as data. A schedule is a list of entries; it runs in
// iterations, and every iteration runs the entries in order for one micro-batch each. The lists express
//   an optimizer step with gradient accumulation: forward and backward per micro-batch, then the update once;
//   a stage of a pipeline: the backward segment has a delay, so that several micro-batches are under way;
//   a stage with several chunks of layers: an iteration runs one chunk for one micro-batch;
//   generation: one program reads the prompt once, then another one runs per token until all sequences have ended.
// Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "plan/compile/plan_request.h"

namespace plimsoll {

// How often an entry of a schedule runs.
enum class Repeat : uint8_t {
  kPerMicroBatch,  // once for every micro-batch
  kOnce,           // once, after all micro-batches
  kUntilDone       // after the micro-batches, again and again until the caller's work is done
};

struct ScheduleEntry {
  std::string program = {};
  Segment segment = Segment::kForward;
  Repeat repeat = Repeat::kPerMicroBatch;
  // kPerMicroBatch: the number of iterations by which this entry is delayed after the first entry for the same micro-batch. In a pipeline
  // of S stages that alternates forward and backward passes, the backward segment of stage s has the delay S - 1 - s.
  int64_t delay = 0;
  // kPerMicroBatch: the number of chunks of the stage, and of micro-batches that pass through a chunk before the next one runs. An
  // iteration then runs one chunk for one micro-batch. Micro-batches are processed in rounds of `round`: in each round, every chunk runs
  // for all micro-batches of the round before the next chunk runs. The forward segment runs the chunks in their order, the backward segment
  // from the last one on. If the last round has fewer than `round` micro-batches, the iterations of the missing ones run nothing.
  int64_t num_chunks = 1;
  int64_t round = 1;
  friend bool operator==(const ScheduleEntry&, const ScheduleEntry&) = default;
};

// One run of a segment for a micro-batch, counted from 0. Entries that do not belong to a micro-batch have -1.
struct ScheduledRun {
  std::string program = {};
  Segment segment = Segment::kForward;
  int64_t micro_batch = -1;
  int64_t chunk = 0;
  friend bool operator==(const ScheduledRun&, const ScheduledRun&) = default;
};

// Returns the runs of iteration i, counted from 0, of a schedule over `num_micro_batches`: in the order of the entries, one run for each
// entry whose micro-batch i - delay exists. With several chunks, i - delay numbers the pairs of a chunk and a micro-batch.
std::vector<ScheduledRun> runs_of_iteration(const std::vector<ScheduleEntry>& schedule, int64_t iteration,
                                            int64_t num_micro_batches);
// Returns all runs of micro-batches, iteration by iteration, and then the runs of entries that run once. Entries that run until the work is
// done are returned once, at the end.
std::vector<ScheduledRun> all_runs(const std::vector<ScheduleEntry>& schedule, int64_t num_micro_batches);

// Returns the number of micro-batches that a stage of a pipeline holds at once if a step has `num_micro_batches`: with gpipe all of
// them, otherwise at most one per stage from this one on. 1 without a pipeline.
int64_t micro_batches_held(const RankOptions& ranks, int64_t num_micro_batches);
// Returns the schedule of a step of a stage of a pipeline that holds this number of micro-batches: the backward pass of a micro-batch
// follows the forward pass with which this number of micro-batches is reached.
std::vector<ScheduleEntry> pipeline_step_schedule(int64_t micro_batches_held);
// The same for PipelineSchedule::kInterleaved: each chunk holds several micro-batches. Stage r of P runs 2 (P - 1 - r) + (V - 1) P chunks
// forwards before the first one backwards (Narayanan et al., arXiv 2104.04473).
std::vector<ScheduleEntry> interleaved_step_schedule(const RankOptions& ranks);
// Returns for each chunk of a stage the most micro-batches that it holds at once in steps of at most `num_micro_batches`.
std::vector<int64_t> micro_batches_held_by_chunks(const RankOptions& ranks, int64_t num_micro_batches);

// Returns the schedule of an optimizer step of the program "train". The optimizer segment needs the learning rate of the step. If weights
// are updated in the backward pass, there is one micro-batch per step, and the backward segment needs the learning rate too.
std::vector<ScheduleEntry> step_schedule(bool updates_in_backward);
// Returns the schedule of a batch of the program "evaluate".
std::vector<ScheduleEntry> evaluation_schedule();

}  // namespace plimsoll
