#include "run/captured_buckets.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "run/run_length.h"

namespace plimsoll {
namespace {

// Returns the ladder of a program of this run: the list of its buckets, which are the sizes to which batches are rounded up.
std::vector<Bucket> ladder_of_run(const CountedRun& run, Bucket largest) {
  const RankOptions ranks{.tensor_size = run.arguments.tp_size * run.arguments.cp_size,
                          .sequence_parallel = run.arguments.sequence_parallel,
                          .context_parallel = run.arguments.cp_size > 1};
  const int64_t multiple = ranks.row_multiple();
  largest.tokens = (largest.tokens + multiple - 1) / multiple * multiple;
  return make_ladder(largest, 16, 1.0, multiple);
}

// Counts how often a segment (forward, backward or optimizer) runs in each bucket (batch size) of a program.
class BucketRuns {
 public:
  BucketRuns(const CountedRun& run, const Bucket& largest)
      : ladder_(ladder_of_run(run, largest)), runs_(ladder_.size()) {}

  void add(int64_t tokens, int64_t times = 1) {
    const auto it = std::ranges::lower_bound(ladder_, tokens, {}, &Bucket::tokens);
    const auto at = std::min<std::ptrdiff_t>(it - ladder_.begin(), std::ssize(ladder_) - 1);
    runs_[static_cast<size_t>(at)] += times;
  }
  int num_captured() const {
    return static_cast<int>(std::ranges::count_if(runs_, [](int64_t runs) { return runs >= 2; }));
  }
  int num_buckets() const { return static_cast<int>(ladder_.size()); }

 private:
  std::vector<Bucket> ladder_;
  std::vector<int64_t> runs_;
};

int64_t tokens_of(const Sampler& sampler, std::span<const int32_t> rows) {
  return std::accumulate(rows.begin(), rows.end(), int64_t{0}, [&](int64_t tokens, int32_t row) {
    return tokens + sampler.lengths()[static_cast<size_t>(row)];
  });
}

// If all epochs have the same batches, only this number of epochs is counted: the first one, of which a part may be done already, and two
// more. This is sufficient, because every bucket (batch size) that an epoch uses then occurs at least twice.
constexpr int64_t kEnoughEpochs = 3;

// Sets captured.train and captured.update. The optimizer segment of a step runs in the bucket (batch size) of the step's last micro-batch.
void count_training(const CountedRun& run, const Bucket& largest, int64_t max_walked_rows,
                    CapturedBuckets& captured) {
  // Without training data, batches come from the calling program and may have any size, so all buckets are counted.
  if (run.train_lengths.empty()) {
    captured.train = captured.update = BucketRuns(run, largest).num_buckets();
    return;
  }
  SamplerOptions options = run.sampler;
  const auto [shortest, longest] = std::ranges::minmax_element(run.train_lengths);
  if (*shortest == *longest) options.strategy = SamplingStrategy::kSequential;
  const bool is_same_each_epoch = options.strategy == SamplingStrategy::kSequential;
  Sampler sampler(options, run.train_lengths);
  sampler.seek(run.start.position);
  BucketRuns micro_batches(run, largest);
  BucketRuns updates(run, largest);
  // number of rows that the sampler has returned
  int64_t rows = is_same_each_epoch ? 0 : sampler.num_rows();
  int64_t epochs = 0;
  int64_t in_step = 0;
  for (int64_t steps = run_length(run.arguments, sampler).max_steps - run.start.step; steps > 0;) {
    if (rows > max_walked_rows) {
      captured.train = captured.update = micro_batches.num_buckets();
      return;
    }
    const Sampler::Step batch = sampler.next();
    const int64_t tokens = tokens_of(sampler, batch.rows);
    micro_batches.add(tokens);
    if (++in_step == options.accumulation_steps || batch.last_in_epoch) {
      updates.add(tokens);
      in_step = 0;
      --steps;
    }
    if (!batch.last_in_epoch) continue;
    if (is_same_each_epoch && ++epochs == kEnoughEpochs) break;
    if (!is_same_each_epoch) rows += sampler.num_rows();
  }
  captured.train = micro_batches.num_captured();
  captured.update = updates.num_captured();
}

void count_set(const std::vector<int32_t>& lengths, int64_t batch_size, int64_t times, BucketRuns& runs) {
  Sampler sampler({.strategy = SamplingStrategy::kSequential, .batch_size = batch_size}, lengths);
  for (int64_t i = 0; i < sampler.batches_per_epoch(); ++i) {
    runs.add(tokens_of(sampler, sampler.next().rows), times);
  }
}

// Returns the number of evaluations during training, plus one if --do_eval adds an evaluation at the end. For a run that does not train,
// returns 1 if it evaluates and 0 otherwise.
int64_t times_evaluated(const CountedRun& run) {
  if (run.purpose != RunPurpose::kTrain) return run.purpose == RunPurpose::kEvaluate ? 1 : 0;
  const Sampler sampler(run.sampler, run.train_lengths);
  return num_evaluations(run.arguments, run_length(run.arguments, sampler), run.start) +
         (run.arguments.do_eval ? 1 : 0);
}

void count_evaluation(const CountedRun& run, const Bucket& largest, CapturedBuckets& captured) {
  BucketRuns runs(run, largest);
  const bool has_sets = !run.evaluated.empty() || !run.predicted.empty();
  if (run.purpose == RunPurpose::kTrain ? run.train_lengths.empty() : !has_sets) {
    captured.evaluate = runs.num_buckets();
    return;
  }
  const int64_t batch_size = run.arguments.per_device_eval_batch_size;
  if (!run.evaluated.empty()) {
    const int64_t times = times_evaluated(run);
    for (const std::vector<int32_t>& lengths : run.evaluated) count_set(lengths, batch_size, times, runs);
  }
  for (const std::vector<int32_t>& lengths : run.predicted) count_set(lengths, batch_size, 1, runs);
  captured.evaluate = runs.num_captured();
}

}  // namespace

CountedRun counted_run(const RunSetup& setup) {
  const bool trains_on_data = is_training(setup.purpose) && setup.reads_data();
  CountedRun run{.purpose = trains_on_data ? RunPurpose::kTrain : setup.purpose,
                 .arguments = setup.arguments,
                 .sampler = setup.sampler,
                 .start = setup.steps.start};
  const DataSets& data = setup.data;
  if (data.train) run.train_lengths = data.train->row_lengths();
  for (const std::optional<Dataset>* set : {&data.evaluate, &data.evaluate_mismatched}) {
    if (*set) run.evaluated.push_back((*set)->row_lengths());
  }
  for (const std::optional<Dataset>* set : {&data.predict, &data.predict_mismatched}) {
    if (*set) run.predicted.push_back((*set)->row_lengths());
  }
  return run;
}

CapturedBuckets captured_buckets(const CountedRun& run, const Bucket& train, const Bucket& evaluate,
                                 int64_t max_walked_rows) {
  // A plan without data assumes that every training batch has the largest size, so one bucket is used.
  if (run.purpose == RunPurpose::kPlan) return {.train = 1, .update = 1};
  CapturedBuckets captured{.train = 0, .update = 0, .evaluate = 0};
  const bool trains = run.purpose == RunPurpose::kTrain;
  // With --profile, ops are launched one by one and nothing is captured.
  if (trains && run.arguments.profile) return captured;
  if (trains) count_training(run, train, max_walked_rows, captured);
  count_evaluation(run, evaluate, captured);
  return captured;
}

CapturedBuckets captured_buckets_of_dummy(CountedRun run, const BatchOptions& batches) {
  const Bucket& largest = batches.train;
  const int64_t batch_size = std::min(largest.sequences, std::ssize(run.train_lengths));
  run.arguments.per_device_train_batch_size = run.sampler.batch_size = batch_size;
  run.arguments.gradient_accumulation_steps = batches.accumulation_steps;
  run.sampler.accumulation_steps = batches_per_step(run.arguments);
  std::ranges::fill(run.train_lengths, static_cast<int32_t>(largest.longest));
  for (std::vector<std::vector<int32_t>>* sets : {&run.evaluated, &run.predicted}) {
    for (std::vector<int32_t>& lengths : *sets)
      std::ranges::fill(lengths, static_cast<int32_t>(largest.longest));
  }
  return captured_buckets(run, largest, batches.evaluate);
}

}  // namespace plimsoll
