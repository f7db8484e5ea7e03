// Counts the buckets in which the segments of a run's programs run at least twice, which is when a GPU
// captures them. The count follows from the lengths of the rows, the sampler's order and the number of steps.
// Pure; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "io/data/batch_census.h"
#include "io/data/sampler.h"
#include "plan/compile/plan.h"
#include "plimsoll/arguments.h"
#include "run/run_setup.h"

namespace plimsoll {

// Everything about a run that decides how often it meets each bucket. Owns its lengths.
struct CountedRun {
  RunPurpose purpose = RunPurpose::kTrain;  // kPlan: no data is read
  Arguments arguments = {};
  SamplerOptions sampler = {};
  RunStart start = {};
  std::vector<int32_t> train_lengths = {};           // of the rows; empty for a run that does not train
  std::vector<std::vector<int32_t>> evaluated = {};  // the lengths of each set that is evaluated
  std::vector<std::vector<int32_t>> predicted = {};  // and of each that is predicted
};
// Requires: the data is read and the steps are counted.
CountedRun counted_run(const RunSetup& setup);

// Counts them for a run from its start, or from its checkpoint, to its end. Exact, but for these cases.
// Upper bounds:
//  - Runs with more batches than count_batches() walks: every bucket counts.
//  - Steps that leave something for the next one (ProgramPlan::deferred_after): a forward pass behind an
//    evaluation or a save counts, though it does not run the whole segment.
//  - Runs that are stopped early: the steps that they do not do count.
// Not counted:
//  - What a callback or a caller's own loop does beside the run.
//  - The forward pass that looks for a value that is not finite.
//  - Steps that are done again, where a checkpoint turns out to be damaged only when its hashes are verified,
//    and the run goes on from an earlier one.
//
// Requires: `train` and `evaluate` are the largest buckets of the run. Cost: that of the sampler, for the
// rows that are trained on.
CapturedBuckets captured_buckets(const CountedRun& run, const Bucket& train, const Bucket& evaluate,
                                 int64_t max_walked_rows = kMaxWalkedRows);

// The same for random data whose batches are those of `request` instead of those of the run: all rows are as
// long as the longest of the request's bucket.
CapturedBuckets captured_buckets_of_dummy(CountedRun run, const PlanRequest& request);

}  // namespace plimsoll
