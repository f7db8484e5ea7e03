// Tests offloading to host memory and to a disk. The results must have the same bits as without offloading,
// whether copies run at the first or at the last moment that the plan allows. Also tests plans with two memory
// spaces, device and host. On a CPU both spaces are ordinary memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "graph/analysis/liveness.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "graph/ops/update.h"
#include "tests/spine/offload_case.h"
#include "tests/spine/plan_grid.h"
#include "tests/spine/tiny_steps.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll {
namespace {

using testing::TinyBatch;
using testing::TinySteps;

int64_t num_slices(const Plan& plan) {
  return std::ranges::count_if(plan.programs.at(kTrainProgram).graph.ops(), [](const Op& op) {
    return op.def != &copy_op() && slice_of(op.attributes).has_value();
  });
}

// Returns a case whose fp32 weights are stored as two 16-bit halves. On a CPU it uses the reference kernels.
TinyCase split_case() {
  TinyCase test;
  test.optimizer.weight_decay = 0.01;
  test.reference_kernels = !testing::tests_run_on_gpu();
  test.activations = DType::kBF16;
  return test;
}

// Returns true if the updates of the case are split into many slices. Updates of Adafactor are not split,
// because its row and column statistics are sums over a whole parameter. Updates of adapters are not split,
// because adapter matrices are small. With 8-bit optimizers, the embeddings have fp32 states, and their updates
// are split.
bool is_cut(const TinyCase& test) {
  return test.optimizer.kind != OptimizerKind::kAdafactor && !test.lora;
}

constexpr Kept kWays[] = {Kept::kOnHost, Kept::kOnHostForLater, Kept::kActivationsOnHost, Kept::kBothOnHost};

// Returns the number of weight updates that do not run in their own step but in the forward pass of the next one.
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

// Returns the planned memory without that of captured CUDA graphs. Plans that offload activations have no
// such graphs, so that only totals without graphs can be compared.
int64_t bytes_without_captured(const Plan& plan) {
  return plan.total_bytes() - plan.gpu_constant.graph_bytes();
}

// Activations must stay on the device if there is memory for them, and the plan must not be larger than one in
// which all activations that can be offloaded are offloaded. The batch is so large that some activations have
// to be offloaded.
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
        const int64_t saved_bytes = with.plan.programs.at(kTrainProgram).host.transient_bytes;
        EXPECT_LE(saved_bytes, all.programs.at(kTrainProgram).host.transient_bytes);
        if (kept == Kept::kActivationsOnHost) {
          EXPECT_LE(bytes_without_captured(with.plan), bytes_without_captured(all));
        }
        some_move +=
            saved_bytes > 0 && saved_bytes < all.programs.at(kTrainProgram).host.transient_bytes ? 1 : 0;
        with.lengths = without.lengths;
        with.steps(1, 3);
        expect_equal(with, without);
      }
    }
  }
  // The number of cases in which only a part of the activations is offloaded depends on the scratch memory of the CPU's
  // kernels: it is 28 with AMX, and more than 30 with AVX2. On a GPU this is not checked: matrix products there need a
  // large workspace, and models of this size then have room for all activations.
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

// Returns two plans: in the first, states are copied to the device early, before the updates begin; in the
// second, each is copied just before its update.
std::pair<Plan, Plan> early_and_late(PlanRequest request) {
  Plan early = build_plan(request);
  request.offload.early_states = false;
  return {std::move(early), build_plan(request)};
}

// States must be copied to the device during the backward pass if there is memory for them, and late if the
// backward pass runs several times per step. The plan may be only a little larger, and the results must have
// the same bits.
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

// Early copies need extra memory and may be used only if it is available: if a plan with late copies fits into
// the memory limit, the chosen plan must fit too.
TEST(OffloadOptimizer, StatesComeLateWhereTheLimitHasNoRoomForMore) {
  int tight = 0;
  for (const TinyCase& test : cases()) {
    PlanRequest request = offloading(test);
    const auto [early, late] = early_and_late(request);
    if (early.total_bytes() <= late.total_bytes()) continue;
    ++tight;
    request.memory_limit_bytes = early.total_bytes();
    EXPECT_EQ(build_plan(request).total_bytes(), early.total_bytes());
    // The last of these limits is too low for both plans. The result must then be the smaller plan, which does not fit, so that the error
    // of the run states how much memory is needed at least.
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

// The last states that a step has updated are copied to the host during the next forward pass. If they are read or
// written before that, or if an evaluation starts, they are copied at once. A run whose states are read after every
// step, one with an evaluation after every step, and one with neither must have the same results.
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

// Some states must still be on the device at the end of a step. They are copied to the host during the next forward
// pass, or before that if something reads them.
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
  // For a GPU the planner assumes a fast link to the host, so most states are copied before the step ends, and
  // fewer remain on the device.
  EXPECT_GT(left, testing::tests_run_on_gpu() ? 0 : 2);
  EXPECT_EQ(plan.programs.at(kTrainProgram).deferred_after, Segment::kOptimizer);
  // A deferred buffer is left for the next step. It is live at the end of a step and at the beginning of the
  // next one, and must have the same offset in both.
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

// If a step has several micro-batches, or if activations are offloaded too, the forward pass leaves no time
// to copy states. No states may then remain on the device after a step.
TEST(OffloadOptimizer, NothingStaysWhereTheForwardPassHasNoTimeForIt) {
  TinyCase test;
  EXPECT_FALSE(plan_of(test, Kept::kBothOnHost).programs.at(kTrainProgram).deferred_after.has_value());
  test.accumulation = 2;
  EXPECT_FALSE(plan_of(test, Kept::kOnHost).programs.at(kTrainProgram).deferred_after.has_value());
}

// A deferred update needs values from its own step, such as gradients. They must be kept until the next step,
// even if that step has another padded batch size (bucket).
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

// Expects that a run can be stopped after every step and resumed, also by a run that keeps the states in another
// memory. This works because a checkpoint stores weights and states by name, independently of where they are in memory.
void expect_goes_on(const TinyCase& test) {
  constexpr int64_t kSteps = 4;
  TinySteps whole(test, plan_of(test, Kept::kOnDevice));
  whole.steps(1, kSteps);
  constexpr Kept places[] = {Kept::kOnDevice, Kept::kOnHost, Kept::kOnHostForLater, Kept::kOnDisk};
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
                plan.host_persistent_bytes + plan.programs.at(kTrainProgram).host.transient_bytes);
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
