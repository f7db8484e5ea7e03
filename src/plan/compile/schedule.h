// Describes the order in which the segments of programs (forward, backward, optimizer) run, as data. A schedule is a list of entries. It
// runs in iterations; in each iteration, every entry runs once, in order, for one micro-batch. Schedules exist for
//   an optimizer step with gradient accumulation: forward and backward run per micro-batch, then the update runs once;
//   a stage of a pipeline: the backward segment has a delay, so that several micro-batches are processed at the same time;
//   a stage with several chunks of layers: an iteration runs one chunk for one micro-batch;
//   text generation: one program reads the prompt once, then another one runs per token until all sequences have ended.
// Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "plan/compile/plan_request.h"

namespace plimsoll {

// States how often an entry of a schedule runs.
enum class Repeat : uint8_t {
  kPerMicroBatch,  // runs once for every micro-batch
  kOnce,           // runs once, after all micro-batches
  kUntilDone       // runs after all micro-batches, repeatedly until the caller stops
};

struct ScheduleEntry {
  std::string program = {};
  Segment segment = Segment::kForward;
  Repeat repeat = Repeat::kPerMicroBatch;
  // For kPerMicroBatch: the number of iterations by which this entry runs later than the first entry for the same micro-batch. In a
  // pipeline of S stages that alternates forward and backward passes, the backward segment of stage s has the delay S - 1 - s.
  int64_t delay = 0;
  // For kPerMicroBatch: the number of chunks of layers of the stage, and the number of micro-batches per round. An
  // iteration then runs one chunk for one micro-batch. In each round, a chunk runs for all micro-batches of the round
  // before the next chunk runs. The forward segment runs the chunks in their order, the backward segment in the
  // opposite order. If the last round has fewer than `round` micro-batches, nothing runs in the iterations of the
  // missing ones.
  int64_t num_chunks = 1;
  int64_t round = 1;
  friend bool operator==(const ScheduleEntry&, const ScheduleEntry&) = default;
};

// One run of a segment for a micro-batch, whose number counts from 0. For a segment that does not belong to a micro-batch, the number is
// -1.
struct ScheduledRun {
  std::string program = {};
  Segment segment = Segment::kForward;
  int64_t micro_batch = -1;
  int64_t chunk = 0;
  friend bool operator==(const ScheduledRun&, const ScheduledRun&) = default;
};

// Returns the segments that run in iteration i (counted from 0) of a schedule for `num_micro_batches`. Each entry of the schedule, in
// their order, runs for micro-batch i - delay if that exists. With several chunks of layers, i - delay counts pairs of a chunk and a
// micro-batch.
std::vector<ScheduledRun> runs_of_iteration(const std::vector<ScheduleEntry>& schedule, int64_t iteration,
                                            int64_t num_micro_batches);
// Returns all runs of a schedule: those for micro-batches, iteration by iteration, then those of entries that run once. Entries that run
// until the caller stops are returned once, at the end.
std::vector<ScheduledRun> all_runs(const std::vector<ScheduleEntry>& schedule, int64_t num_micro_batches);

// Returns the number of micro-batches whose activations a stage of a pipeline stores at the same time, in a step of `num_micro_batches`.
// With gpipe these are all micro-batches, otherwise at most as many as there are stages from this one to the last. Returns 1 without a
// pipeline.
int64_t micro_batches_held(const RankOptions& ranks, int64_t num_micro_batches);
// Returns the schedule of a step of a pipeline stage that stores the activations of this number of micro-batches: as soon as forward
// passes have reached this number, each forward pass is followed by a backward pass.
std::vector<ScheduleEntry> pipeline_step_schedule(int64_t micro_batches_held);
// Returns the schedule for PipelineSchedule::kInterleaved, where stages have several chunks. Stage r of P stages runs 2 (P - 1 - r) + (V
// - 1) P forward passes of chunks before the first backward pass, with V chunks per stage (Narayanan et al., arXiv 2104.04473).
std::vector<ScheduleEntry> interleaved_step_schedule(const RankOptions& ranks);
// Returns for each chunk of a stage the largest number of micro-batches whose activations it stores at the same time, in steps of at most
// `num_micro_batches`.
std::vector<int64_t> micro_batches_held_by_chunks(const RankOptions& ranks, int64_t num_micro_batches);

// Returns the schedule of an optimizer step of the program "train". The optimizer segment reads the learning rate of the step. If weights
// are updated in the backward pass, there is one micro-batch per step, and the backward segment reads the learning rate too.
std::vector<ScheduleEntry> step_schedule(bool updates_in_backward);
// Returns the schedule for one batch of the program "evaluate".
std::vector<ScheduleEntry> evaluation_schedule();

}  // namespace plimsoll
