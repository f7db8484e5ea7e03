// Tests the choice of algorithms with a measurer that invents times and a clock, so that no GPU is needed.
#include "exec/tuning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>

#include "graph/ops/ops.h"
#include "kernels/matmul/matmul_catalog.h"
#include "plan/compile/kernel_choice.h"
#include "plan/compile/testing/plan_case.h"

namespace plimsoll {
namespace {

PlanRequest gpu_request() {
  PlanRequest request = small_request();
  request.device.kind = KernelDevice::kCuda;
  request.device.gpu = *find_gpu_target("h200");
  request.products.workspace_bytes = 1024;
  return request;
}

// Simulates a device on which the time of a matrix product depends on the number of the algorithm (the candidate). Its clock advances with
// each measurement.
class StubMeasurer final : public ProductMeasurer {
 public:
  std::string card() const override { return card_name; }
  std::string library() const override { return "cuBLASLt 1"; }
  double seconds() const override { return clock; }

  std::vector<TunedProduct> candidates(const PlannedMatmul&, int most) override {
    std::vector<TunedProduct> list(std::min(times.size(), static_cast<size_t>(most)));
    for (size_t i = 0; i < list.size(); ++i) list[i].algorithm[0] = static_cast<uint8_t>(i);
    return list;
  }
  std::optional<double> measure(const PlannedMatmul& product, const TunedProduct& candidate) override {
    const int turn = measurements++;
    clock += seconds_each;
    measured.insert(product_key(product.problem, product.fp32));
    const double ms = times[candidate.algorithm[0]];
    return ms < 0 ? std::nullopt : std::optional(ms * disturbance(turn, candidate.algorithm[0]));
  }

  std::string card_name = "NVIDIA H200";
  std::vector<double> times = {1.0, 0.9, 1.1};
  // The simulated disturbance: a factor for the time of measurement number `turn`, which measures `candidate`.
  std::function<double(int turn, int candidate)> disturbance = [](int, int) { return 1.0; };
  double seconds_each = 0.0;
  double clock = 100.0;
  int measurements = 0;
  std::set<ProductKey> measured;
};

int chosen(const TuningTable& table) {
  EXPECT_FALSE(table.empty());
  std::set<int> numbers;
  for (const auto& [key, product] : table.products) numbers.insert(product.algorithm[0]);
  EXPECT_EQ(numbers.size(), 1u);
  return numbers.empty() ? -1 : *numbers.begin();
}

TEST(Tuning, TakesTheFastest) {
  const Plan plan = build_plan(gpu_request());
  StubMeasurer measurer;
  const TuningTable table = tune_products(plan, measurer);
  EXPECT_EQ(chosen(table), 1);
  EXPECT_EQ(table.card, "NVIDIA H200");
  EXPECT_EQ(table.library, "cuBLASLt 1");
  EXPECT_EQ(table.workspace_bytes, 1024);
  const TunedProduct& product = table.products.begin()->second;
  EXPECT_EQ(product.ms, 0.9);
  EXPECT_EQ(product.first_ms, 1.0);
  EXPECT_EQ(product.num_candidates, 3);
  // The time limit is not reached, so the table contains every matrix product of every bucket (batch sizes for which a program is
  // compiled).
  for (const ProgramPlan& program : plan.programs) {
    for (const Bucket& bucket : program.ladder) {
      for (const auto& [key, planned] : list_matmuls(program, bucket, plan.request))
        EXPECT_NE(table.find(key), nullptr) << format_product_key(key);
    }
  }
}

TEST(Tuning, KeepsTheFirstChoiceWithinTheNoise) {
  StubMeasurer measurer;
  measurer.times = {1.0, 0.99, 0.985};
  EXPECT_EQ(chosen(tune_products(build_plan(gpu_request()), measurer)), 0);
  measurer.times = {1.0, 0.97, 0.96};
  EXPECT_EQ(chosen(tune_products(build_plan(gpu_request()), measurer)), 2);
}

// Tuning must choose the same algorithm if the clocks rise during the measurement, if another
// process disturbs it for some milliseconds, or if one measured time is far too short.
TEST(Tuning, WhatDisturbsForAWhileChangesNoChoice) {
  const Plan plan = build_plan(gpu_request());
  StubMeasurer rising;
  rising.times = {1.0, 1.01, 0.99};
  rising.seconds_each = 0.0005;
  rising.disturbance = [](int turn, int) { return turn < 400 ? 5.0 - turn / 100.0 : 1.0; };
  EXPECT_EQ(chosen(tune_products(plan, rising)), 0);
  StubMeasurer busy;
  busy.times = {1.0, 1.01, 0.9};
  busy.disturbance = [](int turn, int) { return turn % 50 < 3 ? 1.2 : 1.0; };
  EXPECT_EQ(chosen(tune_products(plan, busy)), 2);
  // Candidate 1 seems fast in the three rounds of the selection. The five further rounds, in which it is compared only with candidate 0
  // (the library's first choice), do not confirm it.
  StubMeasurer lucky;
  lucky.times = {1.0, 1.0, 1.0};
  lucky.disturbance = [count = 0](int, int candidate) mutable {
    if (candidate != 1) return 1.0;
    return count++ % 8 < 3 ? 0.9 : 1.0;  // three rounds of the selection, then five rounds of the comparison
  };
  EXPECT_EQ(chosen(tune_products(plan, lucky)), 0);
}

TEST(Tuning, WhatIsFarFromTheFastestIsMeasuredOnce) {
  StubMeasurer measurer;
  measurer.times = {1.0, 1.3, 1.0};
  int slow = 0;
  measurer.disturbance = [&slow](int, int candidate) {
    slow += candidate == 1 ? 1 : 0;
    return 1.0;
  };
  const TuningTable table = tune_products(build_plan(gpu_request()), measurer);
  EXPECT_EQ(slow, std::ssize(table.products));
}

TEST(Tuning, RefusedAlgorithmsAreLeftOut) {
  StubMeasurer measurer;
  measurer.times = {1.0, -1.0, 0.5, -1.0};
  EXPECT_EQ(chosen(tune_products(build_plan(gpu_request()), measurer)), 2);
  measurer.times = {-1.0, 0.5};
  EXPECT_TRUE(tune_products(build_plan(gpu_request()), measurer).empty()) << "nothing to compare with";
  measurer.times = {};
  EXPECT_TRUE(tune_products(build_plan(gpu_request()), measurer).empty());
}

TEST(Tuning, ACompleteTableIsNotMeasuredAgain) {
  PlanRequest request = gpu_request();
  StubMeasurer first;
  // This device is so slow that only the products of the largest batches are measured within the time limit.
  first.seconds_each = 0.01;
  request.products.tuning = tune_products(build_plan(request), first);
  EXPECT_GE(first.clock - 100.0, 3.0);
  StubMeasurer second;
  second.times = {1.0, 2.0};
  EXPECT_EQ(tune_products(build_plan(request), second), request.products.tuning);
  EXPECT_EQ(second.measurements, 0);
  // With another GPU model, library or workspace everything is measured again.
  second.card_name = "NVIDIA H100";
  const TuningTable other = tune_products(build_plan(request), second);
  EXPECT_EQ(other.card, "NVIDIA H100");
  EXPECT_EQ(chosen(other), 0);
  second.card_name = "NVIDIA H200";
  request.products.workspace_bytes = 2048;
  const int before = second.measurements;
  const TuningTable with_more = tune_products(build_plan(request), second);
  EXPECT_EQ(with_more.workspace_bytes, 2048);
  EXPECT_GT(second.measurements, before);
}

TEST(Tuning, TimeIsShort) {
  const Plan plan = build_plan(gpu_request());
  const size_t in_largest =
      list_matmuls(plan.programs.at(kTrainProgram), plan.programs.at(kTrainProgram).bucket, plan.request)
          .size() +
      list_matmuls(plan.programs.at(kEvaluateProgram), plan.programs.at(kEvaluateProgram).bucket,
                   plan.request)
          .size();
  ASSERT_GT(in_largest, 8u);
  // A product is measured 19 times: three candidates in three rounds, and two candidates in five further rounds.
  constexpr int kEach = 3 * 3 + 2 * 5;
  // The time limit is just long enough to measure the products of the largest batches, so no other batch size is measured.
  StubMeasurer slow;
  slow.seconds_each = 3.0 / static_cast<double>(kEach * in_largest);
  const TuningTable largest_only = tune_products(plan, slow);
  EXPECT_LE(slow.measured.size(), in_largest + 1);
  for (const auto& [key, product] :
       list_matmuls(plan.programs.at(kTrainProgram), plan.programs.at(kTrainProgram).bucket, plan.request))
    EXPECT_NE(largest_only.find(key), nullptr);
  // Even the products of the largest batches are not all measured: after nine seconds the measurement ends. The first measurement is a
  // warm-up that does not count.
  StubMeasurer slower;
  slower.seconds_each = 0.25;
  EXPECT_EQ(tune_products(plan, slower).products.size(), 2u);
  EXPECT_EQ(slower.measurements, 2 * kEach + 1);
}

TEST(Tuning, OrderOfBuckets) {
  EXPECT_EQ(tuning_order(0), std::vector<size_t>{});
  EXPECT_EQ(tuning_order(1), std::vector<size_t>{0});
  EXPECT_EQ(tuning_order(10), (std::vector<size_t>{9, 1, 5, 7, 3, 8, 6, 4, 2, 0}));
  for (size_t n = 1; n < 70; ++n) {
    std::vector<size_t> order = tuning_order(n);
    EXPECT_EQ(order.front(), n - 1);
    std::sort(order.begin(), order.end());
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(order[i], i);
  }
}

// The tuning table does not affect memory: the plan is the same with and without it.
TEST(Tuning, ATableChangesNoByteOfThePlan) {
  PlanRequest request = gpu_request();
  const Plan without = build_plan(request);
  StubMeasurer measurer;
  request.products.tuning = tune_products(without, measurer);
  const Plan with = build_plan(request);
  EXPECT_EQ(with.arena_bytes, without.arena_bytes);
  EXPECT_EQ(with.programs.at(kTrainProgram).offsets, without.programs.at(kTrainProgram).offsets);
}

TEST(Tuning, NothingIsTunedOnACpu) {
  StubMeasurer measurer;
  EXPECT_TRUE(tune_products(build_plan(small_request()), measurer).empty());
  EXPECT_EQ(measurer.measurements, 0);
}

TEST(Products, WhatThePlanKnowsOfThem) {
  PlanRequest request = gpu_request();
  request.precision.fp32_products = Fp32Products::kTf32x3;
  const Plan plan = build_plan(request);
  int split = 0;
  int plain = 0;
  int64_t ops = 0;
  for (const auto& [key, product] :
       list_matmuls(plan.programs.at(kTrainProgram), plan.programs.at(kTrainProgram).bucket, request)) {
    EXPECT_EQ(product_key(product.matmul.problem, product.matmul.fp32), key);
    (product.matmul.fp32 == Fp32Products::kTf32x3 ? split : plain) += 1;
    EXPECT_EQ(key.form.find(" by tf32x3") != std::string::npos, product.matmul.fp32 == Fp32Products::kTf32x3);
    ops += product.count;
  }
  EXPECT_GE(split, 4);
  EXPECT_GE(plain, 1) << "the classifier's products are too small to split";
  const auto& graph_ops = plan.programs.at(kTrainProgram).graph.ops();
  EXPECT_EQ(ops, std::count_if(graph_ops.begin(), graph_ops.end(),
                               [](const Op& op) { return op.def == &matmul_op(); }));
}

}  // namespace
}  // namespace plimsoll
