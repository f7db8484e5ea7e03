// Predicts in how many buckets (batch sizes) the segments (forward, backward, optimizer) of a run's programs run at least twice, because a
// GPU captures a segment as a CUDA graph when it runs for the second time. The count follows from the lengths of the rows, the order of the
// sampler and the number of steps. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "io/data/batch_census.h"
#include "io/data/sampler.h"
#include "plan/compile/plan.h"
#include "plimsoll/arguments.h"
#include "run/run_setup.h"

namespace plimsoll {

// The input of the prediction: everything that determines how often a run uses each bucket. It owns the lengths of the rows of data.
struct CountedRun {
  // the purpose of the run; kPlan only if no data is read
  RunPurpose purpose = RunPurpose::kTrain;
  Arguments arguments = {};
  SamplerOptions sampler = {};
  RunStart start = {};
  // length of each training row; empty for a run that does not train
  std::vector<int32_t> train_lengths = {};
  // for each data set that is evaluated, the lengths of its rows
  std::vector<std::vector<int32_t>> evaluated = {};
  // for each data set that is predicted, the lengths of its rows
  std::vector<std::vector<int32_t>> predicted = {};
};
// Makes the input for captured_buckets() from the setup of a run. Requires: the data has been read and the steps have been counted.
CountedRun counted_run(const RunSetup& setup);

// Counts the captured buckets of a run from its start, or from its checkpoint, to its end. The count is exact except in these cases.
// It is an upper bound for:
//   - Runs with more batches than count_batches() examines: every bucket counts.
//   - Steps that defer work to the next one (ProgramPlan::deferred_after): a forward pass after an evaluation or a save
//     counts, although it does not run the whole segment.
//   - Runs that stop early: the remaining steps count as well.
// It does not include:
//   - Additional work of a callback, or of a training loop in the calling program.
//   - The forward pass that searches for the first value that is not finite.
//   - Steps that are repeated because a checkpoint turns out to be damaged when its hashes are verified, so that the run
//     resumes from an earlier one.
//
// Requires: `train` and `evaluate` are the largest buckets of the run. Cost: as much as the sampler takes for the rows of the whole
// training.
CapturedBuckets captured_buckets(const CountedRun& run, const Bucket& train, const Bucket& evaluate,
                                 int64_t max_walked_rows = kMaxWalkedRows);

// Predicts the number of captured buckets for a run on random data with other batch sizes. Every row then has the length of the longest
// row of the training bucket.
CapturedBuckets captured_buckets_of_dummy(CountedRun run, const BatchOptions& batches);

}  // namespace plimsoll
