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

// Everything that determines how often a run meets each bucket. Owns its lengths.
struct CountedRun {
  RunPurpose purpose = RunPurpose::kTrain;  // kPlan: no data is read
  Arguments arguments = {};
  SamplerOptions sampler = {};
  RunStart start = {};
  std::vector<int32_t> train_lengths = {};  // the length of each row; empty for a run that does not train
  std::vector<std::vector<int32_t>> evaluated = {};  // the lengths of each set that is evaluated
  std::vector<std::vector<int32_t>> predicted = {};  // the lengths of each set that is predicted
};
// Returns the run as captured_buckets() needs it. Requires: the data has been read and the steps have been counted.
CountedRun counted_run(const RunSetup& setup);

// Counts the captured buckets of a run from its start, or from its checkpoint, to its end. The count is exact except
// in these cases.
// It is an upper bound for:
//  - Runs with more batches than count_batches() walks: every bucket counts.
//  - Steps that defer work to the next one (ProgramPlan::deferred_after): a forward pass after an evaluation or a save
//    counts, although it does not run the whole segment.
//  - Runs that stop early: the remaining steps count as well.
// It does not include:
//  - Work of a callback or of a caller's own loop in addition to the run.
//  - The forward pass that looks for a value that is not finite.
//  - Steps that are repeated because a checkpoint turns out to be damaged when its hashes are verified, so that the run
//    resumes from an earlier one.
//
// Requires: `train` and `evaluate` are the largest buckets of the run. Cost: that of the sampler, for the
// rows that are trained on.
CapturedBuckets captured_buckets(const CountedRun& run, const Bucket& train, const Bucket& evaluate,
                                 int64_t max_walked_rows = kMaxWalkedRows);

// Counts the captured buckets that the run would have with random data and these batches. Every row then has the length of the
// longest row of the training bucket.
CapturedBuckets captured_buckets_of_dummy(CountedRun run, const BatchOptions& batches);

}  // namespace plimsoll
