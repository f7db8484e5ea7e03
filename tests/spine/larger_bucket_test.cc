// Tests buckets, the sizes to which batches are padded: a step in a bucket with unused rows must give the same results as a step in a
// bucket that the batch fills exactly (the tight bucket). Rows without tokens add nothing to any sum; only the order in which a kernel adds
// terms may differ.
//
// The reference kernels add terms in an order that does not depend on the bucket, so their results must be
// equal bit for bit, with every optimizer.
//
// For the fast kernels the limit is derived from the roundings of their data type. To first order, the difference between a run and exact
// arithmetic is a sum over all roundings of the run. Each rounding contributes at most the error that the header of the kernel permits
// (gamma_n for a sum of n terms, matmul_error_bound and others for products, u for stored values), multiplied by the derivative of the loss
// or of a gradient. The derivatives are the same in both buckets, because adding a zero rounds nothing. A run of the same step in double
// precision measures the difference for the tight bucket. A run in the larger bucket is as close to exact arithmetic, so by the triangle
// inequality the two runs differ by at most twice this difference. A single loss may by chance be closer than its type allows, so the
// largest difference over all cases with the same unit roundoff and the same model is used. Half a unit in the last place is added, because
// each of the two losses is rounded once.
//
// Optimizers do not depend on rows, so it is enough to compare gradients. One step of SGD with a learning rate
// of 1 adds the negative gradient to each weight. AdamW and Lion would turn the rounding errors of a gradient
// that is exactly zero into steps of full size.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/spine/step_cases.h"
#include "tests/spine/tiny_run.h"
#include "tests/support/keep_worst.h"

namespace plimsoll {
namespace {

using test::keep_worst;
using testing::step_cases;
using testing::TinyBatch;
using testing::TinyCase;

struct LengthsCase {
  TinyCase test;
  std::vector<int> lengths = {5, 1, 7, 3};

  // Returns the smallest bucket for the batch: its numbers of tokens and sequences and its longest sequence, without unused rows.
  Bucket tight() const {
    Bucket bucket;
    for (const int length : lengths) {
      bucket.tokens += length;
      bucket.longest = std::max<int64_t>(bucket.longest, length);
    }
    bucket.sequences = std::ssize(lengths);
    return bucket;
  }
  Bucket loose() const {
    const Bucket bucket = tight();
    return {.tokens = 16 * bucket.tokens + 37, .sequences = 2 * bucket.sequences + 1, .longest = 40};
  }
};

std::string text_of(const TinyCase& test) {
  return fmt::format("{}, {} wide, optimizer {}, accumulated {}, {}{}{}", test.model_type, test.hidden,
                     static_cast<int>(test.optimizer.kind), test.accumulation,
                     test.activations ? dtype_name(*test.activations) : "fp32",
                     test.chunked_loss == ChunkedLoss::kAlways ? ", chunks" : "", test.lora ? ", LoRA" : "");
}

struct OneStep {
  std::vector<double> losses;
  std::vector<double> updates;  // by how much the step changes each weight
  std::vector<std::vector<std::byte>> weights;
};

std::vector<double> all_weights(Executor& executor) {
  std::vector<double> all;
  for (const WeightSpec& spec : executor.plan().weights) {
    const std::vector<double> values = testing::values_of(executor, spec.name);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// Runs one step with batches that are padded to the size `bucket`. If `first_id` is given, it replaces the first token
// of each batch, as a deliberate error. If only some tokens have labels, it replaces all tokens of the first sequence,
// because one wrong token would hardly change the loss at the labelled tokens.
OneStep run_in(const LengthsCase& item, const Bucket& bucket, double rate,
               std::optional<int32_t> first_id = {}) {
  const TinyCase& test = item.test;
  Plan plan = build_plan(testing::tiny_request(test, bucket));
  // Removes all padded batch sizes (buckets) except the largest one from the program's list (ladder).
  // Otherwise the batch would run in a smaller bucket, without unused rows.
  plan.programs.at(kTrainProgram).ladder = {plan.programs.at(kTrainProgram).bucket};
  Executor executor(plan, {.fill = 0xFF});
  testing::fill_weights(executor);
  const std::vector<double> start = all_weights(executor);
  OneStep run;
  for (int64_t micro = 1; micro <= test.accumulation; ++micro) {
    TinyBatch batch = testing::tiny_batch(test, item.lengths, static_cast<uint32_t>(micro));
    const bool has_few_labels = test.problem_type == ProblemType::kMaskedLm;
    if (first_id) std::fill_n(batch.ids.begin(), has_few_labels ? item.lengths.front() : 1, *first_id);
    executor.set_accumulate(micro > 1);
    const auto denominator = static_cast<double>(std::ssize(item.lengths) * test.accumulation);
    run.losses.push_back(testing::forward_backward(executor, batch, micro, denominator));
  }
  executor.set_update(rate, 1);
  executor.run(kTrainProgram, Segment::kOptimizer);
  EXPECT_TRUE(executor.finite());
  run.updates = all_weights(executor);
  for (size_t i = 0; i < start.size(); ++i) run.updates[i] -= start[i];
  for (const WeightSpec& spec : plan.weights) run.weights.push_back(testing::bytes_of(executor, spec.name));
  return run;
}

TEST(LargerBucket, TheReferencesKeepEveryBit) {
  int checked = 0;
  for (TinyCase test : step_cases()) {
    // Skips losses that are computed in chunks of rows. The number of chunks depends on the bucket, and the sum of each chunk is rounded.
    if (test.chunked_loss == ChunkedLoss::kAlways) continue;
    SCOPED_TRACE(text_of(test));
    test.reference_kernels = true;
    const LengthsCase item{.test = test};
    const OneStep tight = run_in(item, item.tight(), 1e-2);
    const OneStep loose = run_in(item, item.loose(), 1e-2);
    EXPECT_EQ(loose.losses, tight.losses);
    EXPECT_EQ(loose.weights, tight.weights);
    ++checked;
  }
  EXPECT_GE(checked, 25);
}

// Returns a case with SGD for each combination of model, loss, precision and adapter. One more case is so
// wide that several threads share the work and sums are computed in several blocks of rows.
std::vector<LengthsCase> gradient_cases() {
  std::vector<TinyCase> tests = step_cases();
  std::erase_if(tests, [](const TinyCase& test) { return test.optimizer.kind != OptimizerKind::kAdamW; });
  tests.push_back({.hidden = 128, .layers = 1});
  std::vector<LengthsCase> cases;
  for (TinyCase& test : tests) {
    test.optimizer = {.kind = OptimizerKind::kSgd, .max_grad_norm = 0.0};
    cases.push_back({.test = test});
  }
  for (int i = 4; i < 40; ++i) cases.back().lengths.push_back(1 + i * 7 % 24);
  return cases;
}

OneStep exact_run(const LengthsCase& item) {
  LengthsCase exact = item;
  exact.test.dtype = DType::kF64;
  exact.test.reference_kernels = true;
  exact.test.activations.reset();
  return run_in(exact, item.tight(), 1.0);
}

// The difference between two runs: for losses, the largest relative difference; for weights, the norm of the
// difference between the two updates, divided by the norm of an update.
struct Distance {
  double loss = 0;
  double update = 0;
};

Distance distance(const OneStep& run, const OneStep& from) {
  Distance result{INFINITY, INFINITY};
  EXPECT_EQ(run.losses.size(), from.losses.size());
  EXPECT_EQ(run.updates.size(), from.updates.size());
  if (run.losses.size() != from.losses.size() || run.updates.size() != from.updates.size()) return result;
  result.loss = 0;
  for (size_t i = 0; i < run.losses.size(); ++i)
    keep_worst(result.loss, std::fabs(run.losses[i] - from.losses[i]) / std::fabs(from.losses[i]));
  double square = 0, whole = 0;
  for (size_t i = 0; i < run.updates.size(); ++i) {
    square += (run.updates[i] - from.updates[i]) * (run.updates[i] - from.updates[i]);
    whole += from.updates[i] * from.updates[i];
  }
  result.update = std::sqrt(square / whole);
  return result;
}

// Returns the unit roundoff of the type in which the case stores activations.
double roundoff(const TinyCase& test) {
  return test.activations ? 0x1p-8 : 0x1p-24;
}

TEST(LargerBucket, ChangesRoundingOnly) {
  // The largest distance between exact arithmetic and a run in the smallest bucket, which has exactly the sizes of its batch, for each
  // unit roundoff and model. Each model has a limit of its own, because a model with more layers or norms rounds more often and
  // would make the limits of the others too large.
  std::map<std::pair<double, std::string>, Distance> farthest;
  std::vector<Distance> of_loose, of_fault;
  const std::vector<LengthsCase> cases = gradient_cases();
  for (const LengthsCase& item : cases) {
    SCOPED_TRACE(text_of(item.test));
    const OneStep tight = run_in(item, item.tight(), 1.0);
    const Distance of_type = distance(tight, exact_run(item));
    Distance& of_model = farthest[{roundoff(item.test), item.test.model_type}];
    keep_worst(of_model.loss, of_type.loss);
    keep_worst(of_model.update, of_type.update);
    // A fault of a kernel that occurs with and without unused rows would not be found by the comparison below, because it would make the
    // limit larger. Therefore the distance from exact arithmetic has a limit of its own: a value is rounded about ten times before the next
    // norm, and norms do not increase the relative error, so that 32 roundings leave a margin.
    EXPECT_LE(of_type.loss, 32 * roundoff(item.test));
    EXPECT_LE(of_type.update, 32 * roundoff(item.test));
    of_loose.push_back(distance(run_in(item, item.loose(), 1.0), tight));
    of_fault.push_back(distance(run_in(item, item.tight(), 1.0, 36), tight));
  }
  ASSERT_GE(farthest.size(), 6u);
  for (const auto& [of, of_type] : farthest) {
    const auto& [u, model] = of;
    std::printf(
        "figure: steps of %s with u = %.1e: from exact arithmetic by %.2f u in the loss, %.2f u in the "
        "update\n",
        model.c_str(), u, of_type.loss / u, of_type.update / u);
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(text_of(cases[i].test));
    const Distance& of_type = farthest.at({roundoff(cases[i].test), cases[i].test.model_type});
    const double loss_limit = 2 * (of_type.loss + 0x1p-24), update_limit = 2 * of_type.update;
    EXPECT_LE(of_loose[i].loss, loss_limit);
    EXPECT_LE(of_loose[i].update, update_limit);
    // The limits must be small enough to detect errors: a single wrong token must change the loss and the
    // update by at least four times the limit.
    EXPECT_GT(of_fault[i].loss, 4 * loss_limit);
    EXPECT_GT(of_fault[i].update, 4 * update_limit);
  }
}

}  // namespace
}  // namespace plimsoll
