// Support for the tests of plan quality: makes plans of known models (presets) for many sizes, and checks what every
// plan must satisfy.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "plan/compile/plan.h"

namespace plimsoll {

struct GridPoint {
  std::string preset = {};
  Bucket bucket = {};
  int64_t accumulation = 1;
  DType activations = DType::kF32;
  MasterWeights master_weights = MasterWeights::kAuto;
  int num_threads = 2;
  std::string gpu = {};  // name of a card in the table of GPUs; empty for a CPU
  RecomputePolicy recompute = RecomputePolicy::kCheap;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  bool offload_optimizer = false;
  bool offload_activations = false;
  // weights are updated in the backward pass, and gradients are not clipped
  bool optimizer_in_backward = false;
};

inline GridPoint full_batch(std::string preset, int64_t sequences, int64_t longest) {
  return {.preset = std::move(preset),
          .bucket = {.tokens = sequences * longest, .sequences = sequences, .longest = longest}};
}

inline std::string text_of(const GridPoint& point) {
  return fmt::format("{}, {} x {}, {} tokens, accumulated {}, {}, {} threads, recompute {}", point.preset,
                     point.bucket.sequences, point.bucket.longest, point.bucket.tokens, point.accumulation,
                     dtype_name(point.activations), point.num_threads,
                     recompute_policy_name(point.recompute));
}

inline PlanRequest request_of(const GridPoint& point) {
  const std::optional<ModelConfig> model = find_preset(point.preset);
  PLIMSOLL_CHECK(model.has_value(), "no preset '{}'", point.preset);
  PlanRequest request;
  request.model.config = *model;
  request.batches.accumulation_steps = point.accumulation;
  request.batches.train = point.bucket;
  request.batches.evaluate = point.bucket;
  request.device.num_threads = point.num_threads;
  request.update.optimizer.master_weights = point.master_weights;
  request.recompute.policy = point.recompute;
  request.update.optimizer.kind = point.optimizer;
  request.update.offload_states = point.offload_optimizer;
  request.offload.activations = point.offload_activations;
  request.update.in_backward = point.optimizer_in_backward;
  if (point.optimizer_in_backward) request.update.optimizer.max_grad_norm = 0.0;
  request.device.isa = CpuIsa::kAvx512;
  if (point.activations != DType::kF32) {
    request.precision.activation_dtype = point.activations;
    request.device.isa = CpuIsa::kAmx;
  }
  if (!point.gpu.empty()) {
    request.device.kind = KernelDevice::kCuda;
    request.device.gpu = *find_gpu_target(point.gpu);
    request.captured_buckets = {1, 1, 1};
  }
  return request;
}

inline Plan plan_of(const GridPoint& point) {
  return build_plan(request_of(point));
}

// The largest accepted memory of a plan's temporary buffers, as a multiple of the lower bound that is computed for them.
inline constexpr double kAboveLowerBound = 1.02;

// Plans that copy optimizer states to the device before the updates start may need 5 % more memory than those
// that copy them late (plan/compile/update_order.cc), so their bound is multiplied by this factor. All other
// plans must satisfy the bound of plans without copies.
inline constexpr double kMoreWithEarlyStates = 1.05;

inline bool brings_states_early(const ProgramPlan& program) {
  return std::ranges::any_of(program.graph.ops(), [&](const Op& op) {
    if (!op.def->crosses_spaces() || op.segment == Segment::kOptimizer) return false;
    return std::ranges::any_of(op.inputs, [&](ValueId input) {
      if (input == kNoValue) return false;
      const Storage storage = program.graph.value(input).storage;
      return storage == Storage::kDeferred || is_persistent(storage);
    });
  });
}

inline void expect_near_lower_bound(const ProgramPlan& program, const std::string& what) {
  ASSERT_GT(program.lower_bound_bytes, 0) << what << ", " << program.name;
  const double above = kAboveLowerBound * (brings_states_early(program) ? kMoreWithEarlyStates : 1.0);
  EXPECT_LE(static_cast<double>(program.transient_bytes),
            above * static_cast<double>(program.lower_bound_bytes))
      << what << ", " << program.name;
}

// Checks that no two temporary buffers overlap in memory if they are live at the same time. Returns the
// number of pairs that are live at the same time.
inline int64_t expect_apart(const ProgramPlan& program, const std::string& what) {
  int64_t pairs = 0;
  const std::vector<TransientBuffer>& buffers = program.buffers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (buffers[i].first > buffers[k].last || buffers[k].first > buffers[i].last) continue;
      ++pairs;
      const bool apart = buffers[i].offset + buffers[i].bytes <= buffers[k].offset ||
                         buffers[k].offset + buffers[k].bytes <= buffers[i].offset;
      if (!apart) {
        ADD_FAILURE() << what << ", " << program.name << ": buffers " << k << " and " << i << " overlap";
        return pairs;
      }
    }
  }
  return pairs;
}

}  // namespace plimsoll
