// Tests optimizer states in a file on a disk: the results have the same bits as with states in memory at
// whatever time transfers run, the plan states the size of the file and its traffic, and a failing disk ends
// the run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/disk_transfer.h"
#include "base/file_fault.h"
#include "graph/analysis/analysis.h"
#include "graph/ops/update.h"
#include "hardware/gpu_target.h"
#include "plan/anatomy/anatomy.h"
#include "plan/anatomy/disk_use.h"
#include "plan/compile/program_plan.h"
#include "tests/spine/offload_case.h"

namespace plimsoll {
namespace {

using testing::TinySteps;

// Returns the position in the program of the op that computes a value.
uint32_t position_of(const Graph& graph, ValueId id) {
  return static_cast<uint32_t>(index_of(graph.value(id).producer));
}

// Optimizer states on a disk must give the same bits as states in memory. On a GPU the transfers pass through
// pinned host memory.
TEST(OffloadToDisk, TheSameBitsAsWithoutWheneverTransfersRun) {
  const test::ScratchFolder folder;
  for (const TinyCase& test : cases()) {
    SCOPED_TRACE(fmt::format("{} {} accumulated {}", optimizer_row(test.optimizer.kind).name, test.model_type,
                             test.accumulation));
    TinySteps without(test, plan_of(test, Kept::kOnDevice));
    without.steps(1, 4);
    for (const Kept kept : {Kept::kOnDisk, Kept::kOnDiskForLater, Kept::kOnDiskLate}) {
      for (const Copies copies : copies_to_try()) {
        // The plan of kOnDiskLate starts all transfers as late as possible, so it is not also tested with
        // copies that are simulated to be late.
        if (kept == Kept::kOnDiskLate && copies == Copies::kLate) continue;
        TinySteps with(test, plan_of(test, kept), on_disk(folder, "states", copies));
        EXPECT_GT(with.plan.disk_bytes, 0);
        EXPECT_EQ(with.plan.host_arena_bytes, 0);
        with.steps(1, 4);
        expect_equal(with, without);
      }
    }
    EXPECT_EQ(posix_file_system().list(folder.path()).size(), 0u) << "the file is removed at the end";
  }
}

TEST(OffloadToDisk, ADiskThatFailsEndsTheRunAndNoFileRemains) {
  const TinyCase test;
  // Makes one write fail during the first step. At the start of the run, the file is filled with zeros; these
  // writes must succeed.
  for (const int error_number : {ENOSPC, EIO}) {
    MemoryFileSystem memory;
    FaultyFileSystem faulty(memory);
    {
      ExecutorOptions options;
      options.disk = {.files = &faulty, .path = "states"};
      TinySteps run(test, plan_of(test, Kept::kOnDiskLate), options);
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

// While an update runs, the states of the next update are read and those of the previous one are written. No
// other transfers may be in progress, so memory for the states of three updates is enough.
TEST(OffloadToDisk, ReadsAheadAndWritesBehindWhileItUpdates) {
  for (const bool in_backward : {false, true}) {
    TinyCase test;
    test.optimizer_in_backward = in_backward;
    if (in_backward) test.optimizer.max_grad_norm = 0.0;
    const Plan plan = plan_of(test, Kept::kOnDiskLate);
    const ProgramPlan& program = plan.programs.at(kTrainProgram);
    const Graph& graph = program.graph;
    expect_sound(program);
    expect_apart_in_each_space(plan);
    // For each update: the position of the update, of the copy that reads its states, and of the copy that writes them.
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

// Checks that the plan has memory for the states of at most three updates. An update has at most kFewElements
// elements, or one row if a row is longer, and two fp32 states. Each state is padded to the alignment of the
// arena, 64 bytes on a CPU and 256 on a GPU.
void expect_three_updates_in_memory(const Plan& plan) {
  int64_t longest_row = kFewElements;
  for (const WeightSpec& spec : plan.weights)
    longest_row =
        std::max(longest_row, spec.shape.size() > 1 ? spec.elements() / spec.shape[0] : spec.elements());
  const Graph& graph = plan.programs.at(kTrainProgram).graph;
  int64_t num_states = 0;
  for (const Op& op : graph.ops())
    if (reads_disk(graph, op)) num_states = std::max<int64_t>(num_states, std::ssize(op.outputs));
  const int64_t padding = num_states * arena_alignment(plan.request.device.kind);
  EXPECT_GT(disk_use(plan).staging_bytes, 0);
  EXPECT_LE(disk_use(plan).staging_bytes, 3 * (2 * 4 * longest_row + padding)) << num_states << " states";
}

// A plan for a GPU, too, must have memory for the states of at most three updates. The test only makes the plan, so it needs no GPU.
TEST(OffloadToDisk, APlanOfAGpuHasThreeUpdatesInMemory) {
  PlanRequest request = offload_request(TinyCase{}, Kept::kOnDiskLate);
  request.device.kind = KernelDevice::kCuda;
  request.device.gpu = *find_gpu_target("h200");
  expect_three_updates_in_memory(build_plan(request));
}

// The planned size of the file must be that of all states, rounded up to whole blocks, and each byte must be
// read and written once per step.
TEST(OffloadToDisk, ThePlanStatesTheFileAndItsTraffic) {
  const TinyCase test;
  const Plan plan = plan_of(test, Kept::kOnDiskLate), without = plan_of(test, Kept::kOnDevice);
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
  // The expected time follows from the assumed rate of 1.5 GB/s for both directions together.
  EXPECT_DOUBLE_EQ(use.ms, 2 * static_cast<double>(bytes) / 1.5e6);
  expect_three_updates_in_memory(plan);
  EXPECT_EQ(use.buffers_bytes, 9 * kTransferPieceBytes) << "one per thread and one for checkpoints";
  EXPECT_EQ(plan.total_bytes(), plan.arena_bytes + plan.constant_bytes())
      << "the file is not part of the memory";
  for (const ModuleMemory& module : module_memory(plan)) EXPECT_EQ(module.state_bytes, 0) << module.module;
}

// Returns the number of transfers from or to the disk in a segment (forward, backward or optimizer) of a step.
int64_t num_transfers(const Plan& plan, Segment segment) {
  const ProgramPlan& program = plan.programs.at(kTrainProgram);
  int64_t count = 0;
  for (size_t i = 0; i < program.ops.size(); ++i)
    count += program.ops[i].uses_disk && program.graph.ops()[i].segment == segment ? 1 : 0;
  return count;
}

// If states are read early, they are read during the backward pass into memory that activations no longer need,
// so that the updates need not wait for them. The last states are written during the next forward pass.
// Temporary memory may grow by at most 5 %. Nothing may be written during the backward pass, because updates
// need the norm of all gradients, which is known only after it.
TEST(OffloadToDisk, ReadsDuringTheBackwardPassIntoMemoryThatActivationsFree) {
  TinyCase test;
  PlanRequest request = plan_of(test, Kept::kOnDisk).request;
  request.batches.train = request.batches.evaluate = {.tokens = 512, .sequences = 32, .longest = 16};
  // The assumed disk is fast enough to transfer all states within one step of the tiny model.
  request.disk = {.read_gb_per_s = 400, .write_gb_per_s = 400, .both_gb_per_s = 400, .date = "2026-11-27"};
  const Plan early = build_plan(request);
  request.offload.early_states = false;
  const Plan late = build_plan(request);
  const ProgramPlan& program = early.programs.at(kTrainProgram);
  expect_sound(program);
  expect_apart_in_each_space(early);
  EXPECT_EQ(num_transfers(late, Segment::kBackward) + num_transfers(late, Segment::kForward), 0);
  EXPECT_GT(num_transfers(early, Segment::kBackward), 0);
  for (uint32_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.graph.ops()[i];
    EXPECT_FALSE(op.segment == Segment::kBackward && writes_disk(program.graph, op)) << i;
    EXPECT_FALSE(op.segment == Segment::kForward && reads_disk(program.graph, op)) << i;
  }
  const int64_t late_bytes = late.programs.at(kTrainProgram).transient_bytes;
  EXPECT_LE(program.transient_bytes, late_bytes + late_bytes / 20);
  const DiskUse use = disk_use(early);
  EXPECT_EQ(use.read_bytes, disk_use(late).read_bytes);
  EXPECT_EQ(use.written_bytes, disk_use(late).written_bytes);
  EXPECT_GT(use.staging_bytes, disk_use(late).staging_bytes);
}

// If the memory limit is larger than the plan needs, the planner must use the additional memory to make steps
// faster: more states then stay in memory from one step to the next, and fewer are read and written.
TEST(OffloadToDisk, UsesTheMemoryBelowTheLimit) {
  // The model has many parameters and the batch few tokens. The peak is therefore at the end of the backward
  // pass, where all gradients are in memory.
  TinyCase test;
  test.hidden = 1024;
  test.heads = 8;  // each head has 128 elements, the most that attention on GPUs supports
  PlanRequest request = testing::tiny_request(test, {.tokens = 8, .sequences = 1, .longest = 8});
  request.update.offload_states = request.update.states_on_disk = true;
  request.passes.disabled.insert("updates_at_use");
  request.disk = {.read_gb_per_s = 400, .write_gb_per_s = 400, .both_gb_per_s = 400, .date = "2026-11-27"};
  const Plan plan = build_plan(request);
  const int64_t spare = disk_use(plan).read_bytes / 2;
  request.memory_limit_bytes = plan.total_bytes() + spare;
  const Plan roomy = build_plan(request);
  EXPECT_TRUE(roomy.fits());
  EXPECT_GT(disk_use(roomy).staging_bytes, disk_use(plan).staging_bytes)
      << spare << " bytes below the limit, states of " << 2 * spare;
  EXPECT_GT(roomy.total_bytes(), plan.total_bytes());
  EXPECT_GT(num_transfers(roomy, Segment::kForward), 0);
  request.memory_limit_bytes = plan.total_bytes();
  EXPECT_EQ(build_plan(request).total_bytes(), plan.total_bytes());
}

// A part of a step (forward, backward, optimizer) with transfers to or from a disk is not captured as a CUDA graph, because a
// graph cannot start the host threads that transfer.
TEST(OffloadToDisk, SegmentsWithTransfersAreNotCaptured) {
  const Plan plan = plan_of(TinyCase{}, Kept::kOnDiskLate);
  const ProgramPlan& program = plan.programs.at(kTrainProgram);
  EXPECT_TRUE(program.is_captured(Segment::kForward));
  EXPECT_TRUE(program.is_captured(Segment::kBackward));
  EXPECT_FALSE(program.is_captured(Segment::kOptimizer));
}

}  // namespace
}  // namespace plimsoll
