#include "plan/compile/schedule.h"

#include <algorithm>

#include "plan/compile/program_plan.h"

namespace plimsoll {
namespace {

// Returns the number of iterations in which an entry of a schedule runs, not counting its delay. If the last round has fewer micro-batches
// than the others, iterations in which nothing runs are counted too.
int64_t num_units(const ScheduleEntry& entry, int64_t num_micro_batches) {
  const int64_t rounds = (num_micro_batches + entry.round - 1) / entry.round;
  return rounds * entry.round * entry.num_chunks;
}

// Sets the micro-batch and the chunk of layers that an entry of a schedule runs in iteration `unit`, counted from the end of its delay.
void set_unit(const ScheduleEntry& entry, int64_t unit, ScheduledRun& run) {
  const int64_t per_round = entry.round * entry.num_chunks;
  run.micro_batch = unit / per_round * entry.round + unit % entry.round;
  run.chunk = unit % per_round / entry.round;
  if (entry.segment == Segment::kBackward) run.chunk = entry.num_chunks - 1 - run.chunk;
}

}  // namespace

std::vector<ScheduledRun> runs_of_iteration(const std::vector<ScheduleEntry>& schedule, int64_t iteration,
                                            int64_t num_micro_batches) {
  std::vector<ScheduledRun> runs;
  for (const ScheduleEntry& entry : schedule) {
    const int64_t unit = iteration - entry.delay;
    if (entry.repeat != Repeat::kPerMicroBatch || unit < 0 || unit >= num_units(entry, num_micro_batches))
      continue;
    ScheduledRun run{.program = entry.program, .segment = entry.segment};
    set_unit(entry, unit, run);
    if (run.micro_batch < num_micro_batches) runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<ScheduledRun> all_runs(const std::vector<ScheduleEntry>& schedule, int64_t num_micro_batches) {
  int64_t num_iterations = 0;
  for (const ScheduleEntry& entry : schedule)
    num_iterations = std::max(num_iterations, num_units(entry, num_micro_batches) + entry.delay);
  std::vector<ScheduledRun> runs;
  for (int64_t i = 0; i < num_iterations; ++i) {
    for (ScheduledRun& run : runs_of_iteration(schedule, i, num_micro_batches))
      runs.push_back(std::move(run));
  }
  for (const Repeat repeat : {Repeat::kOnce, Repeat::kUntilDone}) {
    for (const ScheduleEntry& entry : schedule) {
      if (entry.repeat == repeat) runs.push_back({.program = entry.program, .segment = entry.segment});
    }
  }
  return runs;
}

std::vector<ScheduleEntry> step_schedule(bool updates_in_backward) {
  const std::string program(kTrainProgram);
  return {{.program = program, .segment = Segment::kForward},
          {.program = program,
           .segment = Segment::kBackward,
           .repeat = updates_in_backward ? Repeat::kOnce : Repeat::kPerMicroBatch},
          {.program = program, .segment = Segment::kOptimizer, .repeat = Repeat::kOnce}};
}

int64_t micro_batches_held(const RankOptions& ranks, int64_t num_micro_batches) {
  if (ranks.pipeline_size == 1) return 1;
  if (ranks.schedule == PipelineSchedule::kGpipe) return num_micro_batches;
  return std::min(num_micro_batches, ranks.pipeline_size - ranks.stage);
}

std::vector<ScheduleEntry> pipeline_step_schedule(int64_t micro_batches_held) {
  std::vector<ScheduleEntry> schedule = step_schedule(false);
  for (ScheduleEntry& entry : schedule) {
    if (entry.segment == Segment::kBackward) entry.delay = micro_batches_held - 1;
  }
  return schedule;
}

std::vector<ScheduleEntry> interleaved_step_schedule(const RankOptions& ranks) {
  std::vector<ScheduleEntry> schedule = step_schedule(false);
  for (ScheduleEntry& entry : schedule) {
    if (entry.repeat != Repeat::kPerMicroBatch) continue;
    entry.num_chunks = ranks.chunks;
    entry.round = ranks.pipeline_size;
    if (entry.segment == Segment::kBackward)
      entry.delay = 2 * (ranks.pipeline_size - 1 - ranks.stage) + (ranks.chunks - 1) * ranks.pipeline_size;
  }
  return schedule;
}

std::vector<int64_t> micro_batches_held_by_chunks(const RankOptions& ranks, int64_t num_micro_batches) {
  if (ranks.chunks == 1) return {micro_batches_held(ranks, num_micro_batches)};
  const std::vector<ScheduleEntry> schedule = interleaved_step_schedule(ranks);
  std::vector<int64_t> most(static_cast<size_t>(ranks.chunks), 1);
  // A step with this many micro-batches is long enough to find the largest number of micro-batches whose activations are stored: longer
  // steps only repeat the rounds in the middle, and shorter steps run fewer passes in the same order.
  const int64_t longest = std::min(num_micro_batches, (2 * ranks.chunks + 4) * ranks.pipeline_size);
  std::vector<int64_t> held(most.size(), 0);
  for (const ScheduledRun& run : all_runs(schedule, longest)) {
    if (run.micro_batch < 0) continue;
    const auto chunk = static_cast<size_t>(run.chunk);
    held[chunk] += run.segment == Segment::kForward ? 1 : -1;
    most[chunk] = std::max(most[chunk], held[chunk]);
  }
  return most;
}

std::vector<ScheduleEntry> evaluation_schedule() {
  return {{.program = std::string(kEvaluateProgram), .segment = Segment::kForward}};
}

}  // namespace plimsoll
