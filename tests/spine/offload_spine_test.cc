// Tests offloading to host memory and to a disk. The results have the same bits as without offloading, whether copies run
// at the first or at the last moment that the plan allows. Also tests properties of plans with two spaces. On a CPU both
// memory spaces are its own memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/disk_transfer.h"
#include "base/file_fault.h"
#include "graph/analysis/liveness.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "graph/ops/update.h"
#include "plan/anatomy/disk_use.h"
#include "tests/spine/plan_grid.h"
#include "tests/spine/tiny_steps.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll {
namespace {

using testing::TinyBatch;
using testing::TinyCase;
using testing::TinySteps;

// kOnHost: optimizer states on the host, with updates at their usual place in the step. kOnHostForLater: the
// updates run in the forward pass of the next step where that is possible. kActivationsOnHost: all
// activations that can be moved are on the host. kOnDisk: optimizer states are in a file; only on a CPU.
enum class Kept { kOnDevice, kOnHost, kOnHostForLater, kActivationsOnHost, kBothOnHost, kOnDisk };
enum class Copies { kAtOnce, kLate };

ExecutorOptions options_of(Copies copies) {
  return {.late_copies = copies == Copies::kLate};
}
// On a GPU, copies run concurrently with the ops after them, whatever a plan requests for a CPU.
std::vector<Copies> copies_to_try() {
  if (testing::tests_run_on_gpu()) return {Copies::kAtOnce};
  return {Copies::kAtOnce, Copies::kLate};
}

// Updates of few elements each, so that a tiny model has several updates and most of its matrices are split.
constexpr int64_t kFewElements = 200;
Plan plan_of(const TinyCase& test, Kept kept) {
  PlanRequest request = testing::tiny_request(test, testing::kStepsBucket);
  request.update.states_on_disk = kept == Kept::kOnDisk;
  request.update.offload_states = kept == Kept::kOnHost || kept == Kept::kOnHostForLater ||
                                  kept == Kept::kBothOnHost || kept == Kept::kOnDisk;
  if (kept == Kept::kOnHost) request.passes.disabled.insert("updates_at_use");
  request.offload.updates_at_use = UpdatesAtUse::kAlways;
  request.offload.activations = kept == Kept::kActivationsOnHost || kept == Kept::kBothOnHost;
  request.offload.saved_in_headroom = false;
  request.offload.least_bytes = 256;
  request.update.elements_at_once = kFewElements;
  return build_plan(request);
}

int64_t num_slices(const Plan& plan) {
  return std::ranges::count_if(plan.programs.at(kTrainProgram).graph.ops(), [](const Op& op) {
    return op.def != &copy_op() && slice_of(op.attributes).has_value();
  });
}

std::vector<TinyCase> cases() {
  std::vector<TinyCase> list;
  list.reserve(32);
  list.emplace_back();
  const auto add = [&](const auto& change) { change(list.emplace_back()); };
  const auto add_optimizer = [&](OptimizerKind kind, double weight_decay, int64_t hidden) {
    add([&](TinyCase& test) {
      test.optimizer.kind = kind;
      test.optimizer.weight_decay = weight_decay;
      test.hidden = hidden;
    });
  };
  add_optimizer(OptimizerKind::kAdamW8Bit, 0.01, 64);
  add_optimizer(OptimizerKind::kAdafactor, 0.01, 16);
  add_optimizer(OptimizerKind::kLion, 0.01, 16);
  add_optimizer(OptimizerKind::kLion8Bit, 0.0, 64);
  add_optimizer(OptimizerKind::kAdagrad, 0.0, 16);
  add_optimizer(OptimizerKind::kAdagrad8Bit, 0.01, 64);
  add([](TinyCase& test) {
    test.optimizer.kind = OptimizerKind::kSgd8Bit;
    test.optimizer.momentum = 0.9;
    test.hidden = 64;
  });
  add([](TinyCase& test) {
    test.optimizer.kind = OptimizerKind::kAdafactor;
    test.optimizer.adafactor.beta1 = 0.9;
    test.optimizer.adafactor.scale_parameter = true;
  });
  add([](TinyCase& test) {
    test.optimizer.kind = OptimizerKind::kSgd;
    test.optimizer.momentum = 0.9;
  });
  add([](TinyCase& test) {
    test.model_type = "distilbert";
    test.accumulation = 3;
  });
  add([](TinyCase& test) { test.recompute.policy = RecomputePolicy::kFull; });
  add([](TinyCase& test) {
    test.optimizer.max_grad_norm = 0.0;
    test.optimizer_in_backward = true;
  });
  // Weights stored only in bf16, and a variance in bf16: these are rounded stochastically.
  for (const bool in_backward : {false, true}) {
    add([&](TinyCase& test) {
      test.activations = test.dtype = DType::kBF16;
      test.optimizer.weight_decay = 0.01;
      test.optimizer.noise_seed = 7;
      test.optimizer.max_grad_norm = 0.0;
      test.optimizer_in_backward = in_backward;
      if (in_backward) test.optimizer.momentum_dtype = test.optimizer.variance_dtype = DType::kBF16;
    });
  }
  add([](TinyCase& test) { test.freeze = {"*embeddings*"}; });
  add([](TinyCase& test) {
    test.lora.emplace();
    test.lora->r = 2;
    test.lora->alpha = 4.0;
    test.lora->target_modules = {"query", "value"};
  });
  add([](TinyCase& test) {
    test.dtype = DType::kF64;
    test.accumulation = 2;
    test.reference_kernels = true;
  });
  add([](TinyCase& test) { test.separate_buffers = true; });
  return list;
}

// Returns a case with weights stored in two 16-bit parts; on a CPU it runs on the reference kernels.
TinyCase split_case() {
  TinyCase test;
  test.optimizer.weight_decay = 0.01;
  test.reference_kernels = !testing::tests_run_on_gpu();
  test.activations = DType::kBF16;
  return test;
}

// Adafactor's row and column statistics are sums over a whole parameter, so its updates are not split. With
// 8-bit states, whose blocks begin where the parameter does, the states of embeddings are fp32.
bool is_cut(const TinyCase& test) {
  return test.optimizer.kind != OptimizerKind::kAdafactor && !test.lora;
}

constexpr Kept kWays[] = {Kept::kOnHost, Kept::kOnHostForLater, Kept::kActivationsOnHost, Kept::kBothOnHost};

// How many updates of a step run in the forward pass.
int64_t num_late_updates(const Plan& plan) {
  return std::ranges::count_if(plan.programs.at(kTrainProgram).graph.ops(), [](const Op& op) {
    return op.segment == Segment::kForward && dynamic_cast<const Update*>(op.def) != nullptr;
  });
}

bool may_be_late(const TinyCase& test) {
  return test.accumulation == 1 && !test.optimizer_in_backward && !test.separate_buffers;
}

TEST(Offload, TheSameBitsAsWithoutWheneverCopiesRun) {
  for (const TinyCase& test : cases()) {
    SCOPED_TRACE(fmt::format("{} {} accumulated {}", optimizer_row(test.optimizer.kind).name, test.model_type,
                             test.accumulation));
    TinySteps without(test, plan_of(test, Kept::kOnDevice));
    without.steps(1, 12);
    for (const Kept kept : kWays) {
      for (const Copies copies : copies_to_try()) {
        TinySteps with(test, plan_of(test, kept), options_of(copies));
        EXPECT_GT(with.plan.host_arena_bytes, 0);
        EXPECT_EQ(num_late_updates(with.plan) > 0, kept == Kept::kOnHostForLater && may_be_late(test));
        if (kept == Kept::kOnHost) {
          EXPECT_EQ(num_slices(with.plan) > 8, is_cut(test));
        }
        with.steps(1, 12);
        expect_equal(with, without);
      }
    }
  }
}

// Returns options for a plan that keeps states in a file of this folder.
ExecutorOptions on_disk(const test::ScratchFolder& folder, const std::string& name,
                        Copies copies = Copies::kAtOnce) {
  ExecutorOptions options = options_of(copies);
  options.disk = {.files = &posix_file_system(), .path = folder.path() + "/" + name};
  return options;
}

TEST(OffloadToDisk, TheSameBitsAsWithoutWheneverTransfersRun) {
  if (testing::tests_run_on_gpu()) GTEST_SKIP() << "only plans for a CPU keep states on a disk";
  const test::ScratchFolder folder;
  for (const TinyCase& test : cases()) {
    SCOPED_TRACE(fmt::format("{} {} accumulated {}", optimizer_row(test.optimizer.kind).name, test.model_type,
                             test.accumulation));
    TinySteps without(test, plan_of(test, Kept::kOnDevice));
    without.steps(1, 6);
    for (const Copies copies : {Copies::kAtOnce, Copies::kLate}) {
      TinySteps with(test, plan_of(test, Kept::kOnDisk), on_disk(folder, "states", copies));
      EXPECT_GT(with.plan.disk_bytes, 0);
      EXPECT_EQ(with.plan.host_arena_bytes, 0);
      with.steps(1, 6);
      expect_equal(with, without);
    }
    EXPECT_EQ(posix_file_system().list(folder.path()).size(), 0u) << "the file is removed at the end";
  }
}

TEST(OffloadToDisk, ADiskThatFailsEndsTheRunAndNoFileRemains) {
  if (testing::tests_run_on_gpu()) GTEST_SKIP() << "only plans for a CPU keep states on a disk";
  const TinyCase test;
  // The writes of the start fill the file with zeros; those after them are of the first step.
  for (const int error_number : {ENOSPC, EIO}) {
    MemoryFileSystem memory;
    FaultyFileSystem faulty(memory);
    {
      ExecutorOptions options;
      options.disk = {.files = &faulty, .path = "states"};
      TinySteps run(test, plan_of(test, Kept::kOnDisk), options);
      run.steps_alone(1, 1);
      faulty.fail_from(faulty.num_calls() + 3, error_number);
      try {
        run.steps_alone(2, 2);
        FAIL() << "the failure is not reported";
      } catch (const FileError& error) {
        EXPECT_EQ(error.code(), ErrorCode::kDevice);
        EXPECT_EQ(error.error_number(), error_number);
      }
    }
    EXPECT_EQ(memory.list("/").size(), 0u);
  }
}

// The total without the GPU memory for captured segments, which exist only where no activations are moved.
int64_t bytes_without_captured(const Plan& plan) {
  return plan.total_bytes() - plan.gpu_constant.graph_bytes();
}

// Activations stay on the device if there is room for them, and the plan is no larger than one in which all
// activations that can be moved are moved. Tests a batch where some activations have no room.
TEST(OffloadActivations, TheSameBitsWhereSomeStay) {
  int some_move = 0;
  for (TinyCase test : cases()) {
    test.layers = 3;
    const auto plan = [&](Kept kept, bool in_room) {
      PlanRequest request = plan_of(test, kept).request;
      request.batches.train = request.batches.evaluate = {.tokens = 64, .sequences = 4, .longest = 16};
      request.offload.saved_in_headroom = in_room;
      return build_plan(request);
    };
    TinySteps without(test, plan(Kept::kOnDevice, false));
    without.lengths = {16, 9, 16, 13};
    without.steps(1, 3);
    for (const Kept kept : {Kept::kActivationsOnHost, Kept::kBothOnHost}) {
      const Plan all = plan(kept, false);
      for (const Copies copies : copies_to_try()) {
        TinySteps with(test, plan(kept, true), options_of(copies));
        const int64_t saved_bytes = with.plan.programs.at(kTrainProgram).host_transient_bytes;
        EXPECT_LE(saved_bytes, all.programs.at(kTrainProgram).host_transient_bytes);
        if (kept == Kept::kActivationsOnHost) {
          EXPECT_LE(bytes_without_captured(with.plan), bytes_without_captured(all));
        }
        some_move +=
            saved_bytes > 0 && saved_bytes < all.programs.at(kTrainProgram).host_transient_bytes ? 1 : 0;
        with.lengths = without.lengths;
        with.steps(1, 3);
        expect_equal(with, without);
      }
    }
  }
  // The number of cases in which only some activations move depends on the scratch memory of the available kernels:
  // 28 with AMX, more than 30 with AVX2. On a GPU the workspace of matrix products leaves room for all activations
  // that models of this size save.
  if (!testing::tests_run_on_gpu()) {
    EXPECT_GT(some_move, 20);
  }
}

TEST(OffloadOptimizer, MastersAndRemaindersGoToTheHostToo) {
  const test::ScratchFolder folder;
  for (const MasterWeights masters : {MasterWeights::kSplit, MasterWeights::kWhole}) {
    TinyCase test = split_case();
    const auto plan = [&](Kept kept) {
      PlanRequest request = testing::tiny_request(test, testing::kStepsBucket);
      request.precision.weight_copies = true;
      request.precision.gradient_dtype = DType::kF32;
      request.update.optimizer.master_weights = masters;
      request.update.offload_states = kept != Kept::kOnDevice;
      request.update.states_on_disk = kept == Kept::kOnDisk;
      request.update.elements_at_once = kFewElements;
      return build_plan(request);
    };
    TinySteps with(test, plan(Kept::kOnHost), options_of(Copies::kLate)),
        without(test, plan(Kept::kOnDevice));
    int on_host = 0;
    for (const PersistentBuffer& buffer : with.plan.persistent) {
      on_host += buffer.space == Space::kHost && buffer.storage == Storage::kWeight ? 1 : 0;
    }
    EXPECT_GT(on_host, 5);
    with.steps(1, 6);
    without.steps(1, 6);
    expect_equal(with, without);
    if (testing::tests_run_on_gpu()) continue;
    TinySteps from_disk(test, plan(Kept::kOnDisk), on_disk(folder, "masters"));
    from_disk.steps(1, 6);
    expect_equal(from_disk, without);
  }
}

PlanRequest offloading(const TinyCase& test) {
  PlanRequest request = testing::tiny_request(test, testing::kStepsBucket);
  request.update.offload_states = true;
  request.update.elements_at_once = kFewElements;
  return request;
}

// Returns one plan that copies states early and one that copies them late.
std::pair<Plan, Plan> early_and_late(PlanRequest request) {
  Plan early = build_plan(request);
  request.offload.early_states = false;
  return {std::move(early), build_plan(request)};
}

// States are copied before the first update if the backward pass leaves room, and late if the backward pass
// runs several times. The plan is only a little larger, and the results have the same bits.
TEST(OffloadOptimizer, StatesComeInTheBackwardPassAndTakeFewBytes) {
  for (const int64_t accumulation : {1, 2}) {
    for (const bool in_backward : {false, true}) {
      if (in_backward && accumulation > 1) continue;
      TinyCase test;
      test.accumulation = accumulation;
      test.optimizer_in_backward = in_backward;
      if (in_backward) test.optimizer.max_grad_norm = 0.0;
      PlanRequest request = offloading(test);
      const auto [early, late] = early_and_late(request);
      EXPECT_LE(early.programs.at(kTrainProgram).transient_bytes,
                late.programs.at(kTrainProgram).transient_bytes +
                    late.programs.at(kTrainProgram).transient_bytes / 20);
      const Graph& graph = early.programs.at(kTrainProgram).graph;
      const auto comes = [&](const Op& op) {
        return op.def == &copy_op() && op.segment == Segment::kBackward &&
               graph.value(op.outputs[0]).space == Space::kDevice;
      };
      EXPECT_EQ(std::ranges::any_of(graph.ops(), comes), accumulation == 1);
      for (const Copies copies : copies_to_try()) {
        TinySteps with(test, build_plan(request), options_of(copies)), without(test, late);
        with.steps(1, 6);
        without.steps(1, 6);
        expect_equal(with, without);
      }
    }
  }
}

// Early copies use extra memory only if it is available: if a plan with late copies keeps the limit, the
// limit is kept.
TEST(OffloadOptimizer, StatesComeLateWhereTheLimitHasNoRoomForMore) {
  int tight = 0;
  for (const TinyCase& test : cases()) {
    PlanRequest request = offloading(test);
    const auto [early, late] = early_and_late(request);
    if (early.total_bytes() <= late.total_bytes()) continue;
    ++tight;
    request.memory_limit_bytes = early.total_bytes();
    EXPECT_EQ(build_plan(request).total_bytes(), early.total_bytes());
    // Below the last of these limits a run is refused, and the error is based on the smaller plan.
    for (const int64_t limit : {early.total_bytes() - 1, late.total_bytes(), late.total_bytes() - 1}) {
      request.memory_limit_bytes = limit;
      const Plan plan = build_plan(request);
      EXPECT_EQ(plan.fits(), limit >= late.total_bytes());
      EXPECT_FALSE(plan.request.offload.early_states);
      EXPECT_EQ(plan.total_bytes(), late.total_bytes());
    }
  }
  EXPECT_GT(tight, 3);
}

TinyCase in_backward_case() {
  TinyCase test;
  test.optimizer_in_backward = true;
  test.optimizer.max_grad_norm = 0.0;
  return test;
}

// The states of the last updates are copied back in the next forward pass, or immediately if someone reads or
// writes them or evaluates before that. A run that is inspected after every step, one that is evaluated after
// every step, and one without either give the same results.
TEST(OffloadOptimizer, WhatAStepLeavesIsThereForWhoAsks) {
  for (const TinyCase& test : {TinyCase(), in_backward_case()}) {
    for (const Copies copies : copies_to_try()) {
      for (const Kept kept : {Kept::kOnHost, Kept::kOnHostForLater}) {
        const Plan plan = plan_of(test, kept);
        ASSERT_TRUE(plan.programs.at(kTrainProgram).deferred_after.has_value());
        TinySteps without(test, plan_of(test, Kept::kOnDevice)), left_alone(test, plan, options_of(copies)),
            looked_at(test, plan, options_of(copies));
        for (int64_t step = 1; step <= 4; ++step) {
          without.steps(step, step);
          looked_at.steps_alone(step, step);
          for (const std::string& name : without.names()) {
            ASSERT_EQ(testing::bytes_of(looked_at.executor, name), testing::bytes_of(without.executor, name))
                << name << " after step " << step;
          }
        }
        left_alone.steps(1, 4);
        without.losses = {without.losses.back()};
        left_alone.losses = {left_alone.losses.back()};
        expect_equal(left_alone, without);
      }
    }
  }
}

// A step leaves some states on the device. They are copied back to the host by the next forward pass, or as soon as a
// caller reads them.
TEST(OffloadOptimizer, StatesStayOnTheDeviceUntilTheNextStep) {
  const TinyCase test;
  const Plan plan = plan_of(test, Kept::kOnHost);
  const Graph& graph = plan.programs.at(kTrainProgram).graph;
  int64_t left = 0;
  for (uint32_t i = 0; i < graph.ops().size(); ++i) {
    if (!plan.programs.at(kTrainProgram).ops[i].is_deferred) continue;
    ++left;
    EXPECT_EQ(graph.ops()[i].segment, Segment::kForward);
    EXPECT_EQ(plan.programs.at(kTrainProgram).ops[i].queue, Queue::kToHost);
  }
  // At the link rate of a GPU, most states are back on the host before the step ends.
  EXPECT_GT(left, testing::tests_run_on_gpu() ? 0 : 2);
  EXPECT_EQ(plan.programs.at(kTrainProgram).deferred_after, Segment::kOptimizer);
  // The two live ranges of a buffer have the same place.
  std::map<ValueId, std::vector<TransientBuffer>> parts;
  for (const TransientBuffer& buffer : plan.programs.at(kTrainProgram).buffers) {
    if (buffer.root != kNoValue && graph.value(buffer.root).storage == Storage::kDeferred)
      parts[buffer.root].push_back(buffer);
  }
  EXPECT_GE(std::ssize(parts), left);
  for (const auto& [root, list] : parts) {
    ASSERT_EQ(list.size(), 2u);
    EXPECT_EQ(list[0].offset, list[1].offset);
    EXPECT_EQ(list[0].bytes, list[1].bytes);
    EXPECT_EQ(std::min(list[0].first, list[1].first), 0u);
    EXPECT_EQ(std::max(list[0].last, list[1].last), graph.ops().size() - 1);
  }
}

// If a step has several micro-batches, or if activations are offloaded too, no states are left for the forward pass
// to copy.
TEST(OffloadOptimizer, NothingStaysWhereTheForwardPassHasNoTimeForIt) {
  TinyCase test;
  EXPECT_FALSE(plan_of(test, Kept::kBothOnHost).programs.at(kTrainProgram).deferred_after.has_value());
  test.accumulation = 2;
  EXPECT_FALSE(plan_of(test, Kept::kOnHost).programs.at(kTrainProgram).deferred_after.has_value());
}

// The values that an update needs from its step are kept for the next step, so batches of any bucket may
// follow each other.
TEST(OffloadOptimizer, UpdatesOfOneBucketRunInAnother) {
  TinyCase test;
  test.optimizer.weight_decay = 0.01;
  for (const Copies copies : copies_to_try()) {
    const auto plan = [&](Kept kept) {
      PlanRequest request = plan_of(test, kept).request;
      request.batches.train = {.tokens = 64, .sequences = 4, .longest = 16};
      return build_plan(request);
    };
    TinySteps with(test, plan(Kept::kOnHostForLater), options_of(copies)),
        without(test, plan(Kept::kOnDevice));
    ASSERT_GT(num_late_updates(with.plan), 0);
    const std::vector<std::vector<int>> batches{
        {16, 16, 16, 16}, {1, 2, 1, 1}, {9, 3, 16, 2}, {5}, {16, 16, 16, 16}};
    for (TinySteps* run : {&with, &without}) {
      int64_t step = 0;
      for (const std::vector<int>& lengths : batches) {
        run->lengths = lengths;
        ++step;
        run->steps_alone(step, step);
      }
    }
    expect_equal(with, without);
  }
}

// If the gradients of a step overflow fp16, the deferred update of that step changes nothing.
TEST(OffloadOptimizer, ASkippedStepIsSkippedInTheNextOne) {
  TinyCase test;
  test.activations = DType::kF16;
  test.reference_kernels = !testing::tests_run_on_gpu();
  constexpr double kTooLarge = 0x1p80;
  TinySteps with(test, plan_of(test, Kept::kOnHostForLater), options_of(Copies::kLate));
  TinySteps without(test, plan_of(test, Kept::kOnDevice));
  ASSERT_GT(num_late_updates(with.plan), 0);
  std::vector<std::vector<double>> seen;
  for (TinySteps* run : {&with, &without}) {
    std::vector<double>& norms = seen.emplace_back();
    testing::set_value(run->executor, "loss_scale", 0, kTooLarge);
    for (int64_t step = 1; step <= 4; ++step) {
      if (step == 2) testing::set_value(run->executor, "loss_scale", 0, 65536.0);
      const TinyBatch batch = testing::tiny_batch(test, run->lengths, static_cast<uint32_t>(step));
      run->losses.push_back(testing::forward_backward(run->executor, batch, step, 4.0));
      run->executor.set_update(1e-2, step);
      run->executor.run(kTrainProgram, Segment::kOptimizer);
      EXPECT_EQ(run->executor.finite(), step > 1);
      if (step > 1) norms.push_back(run->executor.grad_norm());
    }
    EXPECT_EQ(run->executor.skipped_steps(), 1);
  }
  EXPECT_EQ(seen[0], seen[1]);
  expect_equal(with, without);
}

// The initial contents of an arena do not affect the results.
TEST(Offload, ReadsNothingThatWasNotWritten) {
  TinyCase test;
  test.accumulation = 2;
  const Plan plan = plan_of(test, Kept::kBothOnHost);
  const auto weights_after = [&](uint8_t fill) {
    Executor executor(plan, {.fill = fill, .late_copies = true});
    testing::fill_weights(executor);
    for (int64_t step = 1; step <= 3; ++step) {
      for (int64_t a = 0; a < 2; ++a) {
        executor.set_accumulate(a > 0);
        const auto seed = static_cast<uint32_t>(2 * step + a);
        testing::forward_backward(executor, testing::tiny_batch(test, {5, 1, 7, 3}, seed), seed, 8.0);
      }
      executor.set_update(1e-2, step);
      executor.run(kTrainProgram, Segment::kOptimizer);
    }
    std::vector<std::vector<std::byte>> bytes;
    for (const WeightSpec& spec : plan.weights) bytes.push_back(testing::bytes_of(executor, spec.name));
    return bytes;
  };
  EXPECT_EQ(weights_after(0x00), weights_after(0xFF));
}

// A checkpoint identifies weights and states by name, wherever they are stored. A run can resume after every
// step, and with the states in another place.
void expect_goes_on(const TinyCase& test) {
  constexpr int64_t kSteps = 4;
  TinySteps whole(test, plan_of(test, Kept::kOnDevice));
  whole.steps(1, kSteps);
  std::vector<Kept> places{Kept::kOnDevice, Kept::kOnHost, Kept::kOnHostForLater};
  if (!testing::tests_run_on_gpu()) places.push_back(Kept::kOnDisk);
  const test::ScratchFolder folder;
  for (int64_t at = 1; at < kSteps; ++at) {
    for (const Kept before_kept : places) {
      for (const Kept after_kept : places) {
        TinySteps before(test, plan_of(test, before_kept), on_disk(folder, "before"));
        TinySteps after(test, plan_of(test, after_kept), on_disk(folder, "after"));
        before.steps(1, at);
        for (const std::string& name : before.names())
          after.executor.write(name, 0, testing::bytes_of(before.executor, name));
        after.micro = before.micro;
        after.steps(at + 1, kSteps);
        for (const std::string& name : whole.names()) {
          ASSERT_EQ(testing::bytes_of(after.executor, name), testing::bytes_of(whole.executor, name)) << name;
        }
      }
    }
  }
}

TEST(OffloadOptimizer, GoesOnAfterEveryStepWithOrWithout) {
  TinyCase test;
  test.optimizer.kind = OptimizerKind::kAdamW8Bit;
  test.hidden = 64;
  expect_goes_on(test);
}

TEST(OffloadOptimizer, GoesOnWithTheSameNoise) {
  TinyCase test;
  test.activations = test.dtype = DType::kBF16;
  test.optimizer.variance_dtype = DType::kBF16;
  expect_goes_on(test);
}

// Returns true if `op` is a copy that touches other elements on the host than `copy` does.
bool are_apart(const Op& copy, const Op& op) {
  const std::optional<Slice> a = slice_of(copy.attributes), b = slice_of(op.attributes);
  return op.def == copy.def && a && b &&
         (a->first + a->elements <= b->first || b->first + b->elements <= a->first);
}

// Verifies the rules for copies without the analysis that liveness uses. A copy is in progress until the
// first op that waits for it.
void expect_sound(const ProgramPlan& program) {
  const Graph& graph = program.graph;
  std::map<uint32_t, uint32_t> end_of;
  for (uint32_t i = 0; i < program.ops.size(); ++i) {
    if (!program.ops[i].is_queued()) continue;
    end_of[i] = program.ops[i].queue_end;
    ASSERT_GT(end_of[i], i);
    for (uint32_t k = i + 1; k < end_of[i]; ++k) ASSERT_EQ(graph.ops()[k].segment, graph.ops()[i].segment);
  }
  for (const auto& [copy, end] : end_of) {
    const Op& op = graph.ops()[copy];
    const auto count = static_cast<size_t>(op.attributes.integer("count"));
    for (uint32_t k = copy + 1; k < end; ++k) {
      for (ValueId id : graph.ops()[k].inputs) {
        if (id == kNoValue) continue;
        for (ValueId brought : op.outputs) {
          const bool is_read = root_of(graph, id) == root_of(graph, brought);
          ASSERT_FALSE(is_read && !are_apart(op, graph.ops()[k])) << "read before the copy has ended";
        }
      }
      for (ValueId id : graph.ops()[k].outputs) {
        for (size_t n = 0; n < count; ++n) {
          const bool is_written = root_of(graph, id) == root_of(graph, op.inputs[n]) && k > copy;
          ASSERT_FALSE(is_written && !are_apart(op, graph.ops()[k])) << "written during the copy";
        }
      }
    }
    // The buffers of the operands are live until the copy has ended. A buffer that a run leaves for the next
    // run consists of two of them.
    const auto is_live = [&](const TransientBuffer& buffer) {
      return buffer.first <= copy && buffer.last >= end - 1;
    };
    for (const auto* buffers : {&program.buffers, &program.host_buffers}) {
      for (const TransientBuffer& buffer : *buffers) {
        if (buffer.root == kNoValue) continue;
        const auto holds = [&](ValueId id) { return root_of(graph, id) == buffer.root; };
        const bool is_operand =
            std::any_of(op.inputs.begin(), op.inputs.begin() + static_cast<int64_t>(count), holds) ||
            std::any_of(op.outputs.begin(), op.outputs.end(), holds);
        if (!is_operand) continue;
        ASSERT_TRUE(std::ranges::any_of(*buffers, [&](const TransientBuffer& part) {
          return part.root == buffer.root && is_live(part);
        }));
      }
    }
  }
}

void expect_apart_in_each_space(const Plan& plan) {
  for (const ProgramPlan& program : plan.programs) {
    expect_apart(program, program.name);
    ProgramPlan host = program;
    host.buffers = host.host_buffers;
    expect_apart(host, program.name + ", host");
  }
  std::array<std::vector<std::pair<int64_t, int64_t>>, kNumSpaces> places;
  for (const PersistentBuffer& buffer : plan.persistent)
    places[index_of(buffer.space)].emplace_back(buffer.offset, buffer.offset + buffer.bytes);
  for (auto& list : places) {
    std::sort(list.begin(), list.end());
    for (size_t i = 1; i < list.size(); ++i) ASSERT_LE(list[i - 1].second, list[i].first);
  }
}

// Returns the position of the op that writes a value.
uint32_t position_of(const Graph& graph, ValueId id) {
  return static_cast<uint32_t>(index_of(graph.value(id).producer));
}

// While an update runs, the states of the next one are read and those of the previous one are written, and no further
// ones: the plan needs memory for those of three updates.
TEST(OffloadToDisk, ReadsAheadAndWritesBehindWhileItUpdates) {
  for (const bool in_backward : {false, true}) {
    TinyCase test;
    test.optimizer_in_backward = in_backward;
    if (in_backward) test.optimizer.max_grad_norm = 0.0;
    const Plan plan = plan_of(test, Kept::kOnDisk);
    const ProgramPlan& program = plan.programs.at(kTrainProgram);
    const Graph& graph = program.graph;
    expect_sound(program);
    expect_apart_in_each_space(plan);
    // The positions of each update, of the copy that reads its states and of the one that writes them.
    std::vector<uint32_t> updates, reads, writes;
    for (uint32_t i = 0; i < graph.ops().size(); ++i) {
      const Op& op = graph.ops()[i];
      if (op.def == &copy_op() && graph.value(op.outputs[CopyOp::kTo]).space == Space::kDisk)
        writes.push_back(i);
      if (dynamic_cast<const Update*>(op.def) == nullptr) continue;
      for (const ValueId id : op.inputs) {
        if (id == kNoValue || graph.value(id).producer == kNoOp) continue;
        const uint32_t from = position_of(graph, id);
        if (graph.ops()[from].def != &copy_op()) continue;
        updates.push_back(i);
        reads.push_back(from);
        break;
      }
    }
    ASSERT_GT(updates.size(), 8u);
    ASSERT_EQ(writes.size(), updates.size());
    const auto is_under_way = [&](uint32_t copy, uint32_t position) {
      return copy < position && position < program.ops[copy].queue_end;
    };
    for (size_t k = 1; k + 1 < updates.size(); ++k) {
      EXPECT_EQ(is_under_way(reads[k + 1], updates[k]),
                graph.ops()[updates[k]].segment == graph.ops()[updates[k + 1]].segment);
      EXPECT_EQ(is_under_way(writes[k - 1], updates[k]),
                graph.ops()[updates[k]].segment == graph.ops()[updates[k - 1]].segment);
      EXPECT_FALSE(k >= 2 && is_under_way(writes[k - 2], updates[k]));
      EXPECT_FALSE(k + 2 < updates.size() && reads[k + 2] < updates[k]);
    }
  }
}

// Every byte on the disk is that of a state, in whole blocks, and each is read and written once per step.
TEST(OffloadToDisk, ThePlanStatesTheFileAndItsTraffic) {
  const TinyCase test;
  const Plan plan = plan_of(test, Kept::kOnDisk), without = plan_of(test, Kept::kOnDevice);
  int64_t blocks = 0, bytes = 0, end = 0;
  for (const PersistentBuffer& buffer : without.persistent) {
    if (buffer.storage != Storage::kOptimizerState) continue;
    const int64_t exact = buffer.elements() * dtype_bytes(buffer.type.dtype);
    bytes += exact;
    blocks += rounded_up_to_blocks(exact);
  }
  for (const PersistentBuffer& buffer : plan.persistent) {
    EXPECT_EQ(buffer.space == Space::kDisk, buffer.storage == Storage::kOptimizerState) << buffer.name;
    if (buffer.space != Space::kDisk) continue;
    EXPECT_EQ(buffer.offset % kBlockBytes, 0);
    end = std::max(end, buffer.offset + buffer.bytes);
  }
  EXPECT_EQ(plan.disk_bytes, blocks);
  EXPECT_EQ(end, blocks);
  const DiskUse use = disk_use(plan);
  EXPECT_EQ(use.stored_bytes, blocks);
  EXPECT_EQ(use.read_bytes, bytes);
  EXPECT_EQ(use.written_bytes, bytes);
  // At the assumed 1.5 GB/s for both directions together.
  EXPECT_DOUBLE_EQ(use.ms, 2 * static_cast<double>(bytes) / 1.5e6);
  // An update has at most kFewElements, or a row of more, with two states in fp32; three are in memory. Of the four
  // transfers that may be under way, two of each direction, each has its buffers.
  int64_t longest_row = kFewElements;
  for (const WeightSpec& spec : plan.weights)
    longest_row =
        std::max(longest_row, spec.shape.size() > 1 ? spec.elements() / spec.shape[0] : spec.elements());
  EXPECT_GT(use.staging_bytes, 0);
  EXPECT_LE(use.staging_bytes, 3 * 2 * 4 * (longest_row + 16) + 4 * transfer_scratch_bytes(4 * longest_row));
  EXPECT_EQ(plan.total_bytes(), plan.arena_bytes + plan.constant_bytes())
      << "the file is not part of the memory";
}

TEST(Offload, CopiesAreOrderedAndBuffersApart) {
  for (const TinyCase& test : cases()) {
    const Plan without = plan_of(test, Kept::kOnDevice);
    for (const Kept kept : kWays) {
      const Plan plan = plan_of(test, kept);
      PlanRequest in_room = plan.request;
      in_room.offload.saved_in_headroom = true;
      expect_sound(build_plan(in_room).programs.at(kTrainProgram));
      expect_sound(plan.programs.at(kTrainProgram));
      expect_apart_in_each_space(plan);
      const auto is_copy = [](const OpPlan& op) { return op.is_queued(); };
      EXPECT_GT(std::count_if(plan.programs.at(kTrainProgram).ops.begin(),
                              plan.programs.at(kTrainProgram).ops.end(), is_copy),
                2);
      const bool moves_activations = kept == Kept::kActivationsOnHost || kept == Kept::kBothOnHost;
      EXPECT_EQ(plan.programs.at(kTrainProgram).is_captured(Segment::kForward), !moves_activations);
      EXPECT_EQ(plan.programs.at(kTrainProgram).is_captured(Segment::kBackward), !moves_activations);
      EXPECT_TRUE(plan.programs.at(kTrainProgram).is_captured(Segment::kOptimizer));
      EXPECT_EQ(plan.host_arena_bytes,
                plan.host_persistent_bytes + plan.programs.at(kTrainProgram).host_transient_bytes);
      if (kept == Kept::kActivationsOnHost) {
        EXPECT_LE(plan.programs.at(kTrainProgram).lower_bound_bytes,
                  without.programs.at(kTrainProgram).lower_bound_bytes);
        EXPECT_EQ(plan.host_persistent_bytes, 0);
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll
