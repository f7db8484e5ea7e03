// Runs steps of a tiny model with a plan that the test makes, and compares every loss, weight and optimizer
// state of two such runs bit for bit. Not thread-safe.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/spine/tiny_run.h"

namespace plimsoll::testing {

inline constexpr Bucket kStepsBucket{.tokens = 16, .sequences = 4, .longest = 7};

struct TinySteps {
  TinyCase test;
  Plan plan;
  Executor executor;
  int64_t micro = 0;
  std::vector<double> losses = {};
  std::vector<int> lengths{5, 1, 7, 3};  // the lengths of the sequences, which are the same in all batches

  TinySteps(const TinyCase& tiny, Plan of, const ExecutorOptions& options = {})
      : test(tiny), plan(std::move(of)), executor(plan, options) {
    fill_weights(executor);
  }
  // Makes the steps from `first` to `last` and then evaluates one batch.
  void steps(int64_t first, int64_t last) {
    steps_alone(first, last);
    stage(executor, kEvaluateProgram, tiny_batch(test, lengths, 99), 4.0);
    executor.run(kEvaluateProgram, Segment::kForward);
    losses.push_back(executor.loss());
  }
  void steps_alone(int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; ++step) {
      if (test.optimizer_in_backward) executor.set_update(1e-2, step);
      for (int64_t a = 0; a < test.accumulation; ++a) {
        ++micro;
        executor.set_accumulate(a > 0);
        const TinyBatch batch = tiny_batch(test, lengths, static_cast<uint32_t>(micro));
        losses.push_back(
            forward_backward(executor, batch, micro, 4.0 * static_cast<double>(test.accumulation)));
      }
      executor.set_update(1e-2, step);
      executor.run(kTrainProgram, Segment::kOptimizer);
      ASSERT_TRUE(executor.finite());
    }
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const WeightSpec& spec : plan.weights) all.push_back(spec.name);
    for (const PersistentBuffer& buffer : plan.persistent) {
      if (buffer.storage == Storage::kOptimizerState) all.push_back(buffer.name);
    }
    return all;
  }
};

inline void expect_equal(TinySteps& a, TinySteps& b) {
  EXPECT_EQ(a.losses, b.losses);
  const std::vector<std::string> names = a.names();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  for (const std::string& name : names) {
    EXPECT_EQ(bytes_of(a.executor, name), bytes_of(b.executor, name)) << name;
  }
}

}  // namespace plimsoll::testing
