// Tests updates that process a few rows of a parameter at a time. They must give the same bits of weights,
// states and losses as updates of whole parameters, for every optimizer that treats elements independently. The
// gradient of an embedding table must never be in memory as a whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "graph/ops/slice.h"
#include "kernels/matmul/matmul_catalog.h"
#include "tests/spine/tiny_steps.h"

namespace plimsoll {
namespace {

using testing::TinyCase;
using testing::TinySteps;

constexpr int64_t kAllAtOnce = int64_t{1} << 30;

// Returns a plan with optimizer states in host memory, in which the update of every large parameter is split.
Plan plan_of(const TinyCase& test, int64_t elements_at_once) {
  PlanRequest request = testing::tiny_request(test, testing::kStepsBucket);
  request.update.offload_states = true;
  request.update.elements_at_once = elements_at_once;
  return build_plan(request);
}

// Returns a plan with optimizer states on the device. The vocabulary is so large that the gradient of the
// embedding table determines the peak of memory, unless the update of the table is split into slices.
Plan plan_with_a_large_table(const TinyCase& test, int64_t elements_at_once) {
  PlanRequest request = testing::tiny_request(test, testing::kStepsBucket);
  request.model.config.vocab_size = 700000;
  request.update.elements_at_once = elements_at_once;
  return build_plan(request);
}

int64_t num_slices(const Plan& plan) {
  return std::ranges::count_if(plan.programs.at(kTrainProgram).graph.ops(),
                               [](const Op& op) { return slice_of(op.attributes).has_value(); });
}

std::vector<TinyCase> cases() {
  std::vector<TinyCase> list;
  const auto add = [&](OptimizerKind kind, const auto& change) {
    TinyCase& test = list.emplace_back();
    test.optimizer.kind = kind;
    test.optimizer.max_grad_norm = 0.0;
    test.optimizer.weight_decay = 0.01;
    test.optimizer_in_backward = true;
    change(test);
  };
  const auto as_it_is = [](TinyCase&) {};
  add(OptimizerKind::kAdamW, as_it_is);
  add(OptimizerKind::kSgd, [](TinyCase& test) { test.optimizer.momentum = 0.9; });
  add(OptimizerKind::kLion, as_it_is);
  add(OptimizerKind::kAdagrad, as_it_is);
  const auto in_bf16 = [](TinyCase& test) { test.activations = test.dtype = DType::kBF16; };
  add(OptimizerKind::kAdamW, in_bf16);
  add(OptimizerKind::kSgd, in_bf16);
  add(OptimizerKind::kLion, in_bf16);
  add(OptimizerKind::kAdagrad, in_bf16);
  add(OptimizerKind::kAdamW, [](TinyCase& test) {
    test.activations = test.dtype = DType::kBF16;
    test.optimizer.momentum_dtype = test.optimizer.variance_dtype = DType::kBF16;
  });
  add(OptimizerKind::kAdamW, [](TinyCase& test) {
    test.dtype = DType::kF64;
    test.reference_kernels = true;
  });
  return list;
}

TEST(SliceUpdates, TheSameBitsAsWhole) {
  for (const TinyCase& test : cases()) {
    SCOPED_TRACE(fmt::format("{} {}", optimizer_row(test.optimizer.kind).name, dtype_name(test.dtype)));
    TinySteps whole(test, plan_of(test, kAllAtOnce));
    EXPECT_EQ(num_slices(whole.plan), 0);
    whole.steps(1, 8);
    for (const int64_t elements : {16, 100}) {
      TinySteps sliced(test, plan_of(test, elements));
      EXPECT_GE(num_slices(sliced.plan), 3);
      sliced.steps(1, 8);
      expect_equal(sliced, whole);
      // The norm of the gradients is computed from the norms of the slices, which are rounded, so it may
      // differ by these roundings.
      const double norm = whole.executor.grad_norm();
      EXPECT_NEAR(sliced.executor.grad_norm(), norm, 4 * 0x1p-24 * norm);
    }
  }
}

TEST(SliceUpdates, ALargeTablesGradientIsComputedByRowsOnTheDeviceToo) {
  TinyCase test = cases().front();
  const Plan small = [&] {
    PlanRequest request = testing::tiny_request(test, testing::kStepsBucket);
    request.update.elements_at_once = 16;
    return build_plan(request);
  }();
  EXPECT_EQ(num_slices(small), 0);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    test.dtype = dtype;
    if (dtype == DType::kBF16) test.activations = dtype;
    TinySteps whole(test, plan_with_a_large_table(test, kAllAtOnce));
    TinySteps sliced(test, plan_with_a_large_table(test, 1 << 20));
    EXPECT_EQ(num_slices(whole.plan), 0);
    EXPECT_EQ(num_slices(sliced.plan), 11);
    // Splitting the update must save at least 34 MiB of temporary memory. On a GPU, the peak may then be at a
    // matrix product, so the size of its workspace is added to the limit.
    const int64_t workspace =
        whole.plan.request.device.kind == KernelDevice::kCuda ? kCublasLtWorkspaceBytes : 0;
    EXPECT_LE(sliced.plan.arena_bytes, whole.plan.arena_bytes - (int64_t{34} << 20) + workspace);
    whole.steps(1, 2);
    sliced.steps(1, 2);
    expect_equal(sliced, whole);
  }
}

// The gradient of the table must be computed a few rows at a time, so no op may write more than that.
TEST(SliceUpdates, ATablesGradientIsNeverWhole) {
  const TinyCase test = cases().front();
  const auto most = [](const Plan& plan) {
    int64_t bytes = 0;
    for (const Op& op : plan.programs.at(kTrainProgram).graph.ops()) {
      if (op.def->name() == "embedding_bwd")
        bytes = std::max(bytes, plan.programs.at(kTrainProgram).graph.value(op.outputs[0]).bytes({}));
    }
    return bytes;
  };
  EXPECT_EQ(most(plan_of(test, 4 * test.hidden)), 4 * test.hidden * 4);
  EXPECT_GT(most(plan_of(test, kAllAtOnce)), 4 * test.hidden * 4);
}

}  // namespace
}  // namespace plimsoll
