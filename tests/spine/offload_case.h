// Support for the tests of this folder: tiny runs whose optimizer states or activations are kept outside the
// memory of the device, and checks of the rules that the copies in their plans must obey.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/analysis/liveness.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "tests/spine/plan_grid.h"
#include "tests/spine/tiny_steps.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll {

using testing::TinyCase;

// Selects where the tests keep optimizer states and activations.
// kOnHost: states on the host, with updates at their usual place in the step.
// kOnHostForLater: states on the host, with updates deferred to the forward pass of the next step where possible.
// kActivationsOnHost: all activations that can be offloaded are on the host.
// kBothOnHost: states and activations are on the host.
// kOnDisk, kOnDiskForLater: like kOnHost and kOnHostForLater, with states in a file.
// kOnDiskLate: like kOnDiskForLater, but transfers start as late as possible.
enum class Kept {
  kOnDevice,
  kOnHost,
  kOnHostForLater,
  kActivationsOnHost,
  kBothOnHost,
  kOnDisk,
  kOnDiskForLater,
  kOnDiskLate
};

enum class Copies { kAtOnce, kLate };

inline ExecutorOptions options_of(Copies copies) {
  return {.late_copies = copies == Copies::kLate};
}

// Returns the times at which the tests run copies: at once, or as late as the plan allows. A GPU always runs
// copies concurrently with the following ops, so late copies are simulated on a CPU only.
inline std::vector<Copies> copies_to_try() {
  if (testing::tests_run_on_gpu()) return {Copies::kAtOnce};
  return {Copies::kAtOnce, Copies::kLate};
}

// The largest number of elements that one weight update may process. It is so small that even a tiny model
// needs several updates, most of which process only a part of a matrix.
inline constexpr int64_t kFewElements = 200;

inline PlanRequest offload_request(const TinyCase& test, Kept kept) {
  PlanRequest request = testing::tiny_request(test, testing::kStepsBucket);
  request.update.states_on_disk =
      kept == Kept::kOnDisk || kept == Kept::kOnDiskForLater || kept == Kept::kOnDiskLate;
  request.update.offload_states = kept == Kept::kOnHost || kept == Kept::kOnHostForLater ||
                                  kept == Kept::kBothOnHost || request.update.states_on_disk;
  request.offload.early_states = kept != Kept::kOnDiskLate;
  if (kept == Kept::kOnHost || kept == Kept::kOnDisk) request.passes.disabled.insert("updates_at_use");
  request.offload.updates_at_use = UpdatesAtUse::kAlways;
  request.offload.activations = kept == Kept::kActivationsOnHost || kept == Kept::kBothOnHost;
  request.offload.saved_in_headroom = false;
  request.offload.least_bytes = 256;
  request.update.elements_at_once = kFewElements;
  return request;
}

inline Plan plan_of(const TinyCase& test, Kept kept) {
  return build_plan(offload_request(test, kept));
}

inline std::vector<TinyCase> cases() {
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
  // Weights and variances that are stored only in bf16 are rounded stochastically.
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

// Returns options for a plan that keeps states in a file of this folder.
inline ExecutorOptions on_disk(const test::ScratchFolder& folder, const std::string& name,
                               Copies copies = Copies::kAtOnce) {
  ExecutorOptions options = options_of(copies);
  options.disk = {.files = &posix_file_system(), .path = folder.path() + "/" + name};
  return options;
}

// Returns true if both ops copy in the same direction and access different parts of a tensor in host memory.
inline bool are_apart(const Op& copy, const Op& op) {
  const std::optional<Slice> a = slice_of(copy.attributes), b = slice_of(op.attributes);
  return op.def == copy.def && a && b &&
         (a->first + a->elements <= b->first || b->first + b->elements <= a->first);
}

// Checks the rules for asynchronous copies without using the planner's own analysis. A copy is in progress
// until the first op that waits for it.
inline void expect_sound(const ProgramPlan& program) {
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
    // The buffers that a copy reads and writes must be live until the copy has ended. A buffer whose value is used in
    // the next step is live at the end and at the beginning of a step, so the plan lists it as two buffers.
    const auto is_live = [&](const TransientBuffer& buffer) {
      return buffer.first <= copy && buffer.last >= end - 1;
    };
    for (const auto* buffers : {&program.buffers, &program.host.buffers}) {
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

inline void expect_apart_in_each_space(const Plan& plan) {
  for (const ProgramPlan& program : plan.programs) {
    expect_apart(program, program.name);
    ProgramPlan host = program;
    host.buffers = host.host.buffers;
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

}  // namespace plimsoll
