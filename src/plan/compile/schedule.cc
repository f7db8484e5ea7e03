#include "plan/compile/schedule.h"

#include <algorithm>

#include "plan/compile/program_plan.h"

namespace plimsoll {

std::vector<ScheduledRun> runs_of_iteration(const std::vector<ScheduleEntry>& schedule, int64_t iteration,
                                            int64_t num_micro_batches) {
  std::vector<ScheduledRun> runs;
  for (const ScheduleEntry& entry : schedule) {
    const int64_t micro_batch = iteration - entry.delay;
    if (entry.repeat != Repeat::kPerMicroBatch || micro_batch < 0 || micro_batch >= num_micro_batches)
      continue;
    runs.push_back({.program = entry.program, .segment = entry.segment, .micro_batch = micro_batch});
  }
  return runs;
}

std::vector<ScheduledRun> all_runs(const std::vector<ScheduleEntry>& schedule, int64_t num_micro_batches) {
  int64_t longest_delay = 0;
  for (const ScheduleEntry& entry : schedule) longest_delay = std::max(longest_delay, entry.delay);
  std::vector<ScheduledRun> runs;
  for (int64_t i = 0; i < num_micro_batches + longest_delay; ++i) {
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

std::vector<ScheduleEntry> evaluation_schedule() {
  return {{.program = std::string(kEvaluateProgram), .segment = Segment::kForward}};
}

}  // namespace plimsoll
