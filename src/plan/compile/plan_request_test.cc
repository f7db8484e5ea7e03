// Tests that the comparison of two GraphRequests compares every field. A GraphRequest is the part of a plan request that determines
// graphs, and a search reuses graphs if two of them are equal.
#include "plan/compile/plan_request.h"

#include <gtest/gtest.h>

#include "plan/compile/graphs.h"

namespace plimsoll {
namespace {

// Counts the fields of each part of a request. If someone adds a field, this function does not compile, which reminds them to add a case
// to kChanges.
[[maybe_unused]] void count_fields(const GraphRequest& request) {
  [[maybe_unused]] const auto& [train, evaluate, model, precision, update, device, passes, generation,
                                ranks] = request;
  [[maybe_unused]] const auto& [count, tensor_size, sequence_parallel, context_parallel, pipeline_size, stage,
                                schedule, chunks, first_blocks, zero_stage, updates_on_first,
                                least_divided_elements, keeps_gathered, bucket_bytes, maps_peers,
                                tensor_maps_peers, pipeline_maps_peers] = ranks;
  [[maybe_unused]] const auto& [num_pages, page_size, pages_per_sequence, sizes] = generation;
  [[maybe_unused]] const auto& [config, problem_type, label_smoothing, z_coefficient, label_share,
                                outputs_logits, freeze, rate_factors, lora] = model;
  [[maybe_unused]] const auto& [dtype, activation_dtype, fp8, fp8_codes_at_use, gradient_dtype, fp32_products,
                                weight_copies, copies_at_use] = precision;
  [[maybe_unused]] const auto& [optimizer, in_backward, offload_states, states_on_disk, elements_at_once] =
      update;
  [[maybe_unused]] const auto& [kind, num_threads, isa, gpu, reference_kernels, forced_kernels] = device;
  [[maybe_unused]] const auto& [disabled, stop_after, dump, verification] = passes;
}

struct FieldChange {
  const char* field;
  void (*make)(PlanRequest&);
};

constexpr FieldChange kChanges[] = {
    {"train", [](PlanRequest& r) { r.train = false; }},
    {"evaluate", [](PlanRequest& r) { r.evaluate = false; }},
    {"model.config", [](PlanRequest& r) { ++r.model.config.num_hidden_layers; }},
    {"model.problem_type", [](PlanRequest& r) { r.model.problem_type = ProblemType::kRegression; }},
    {"model.label_smoothing", [](PlanRequest& r) { r.model.label_smoothing = 0.1; }},
    {"model.z_coefficient", [](PlanRequest& r) { r.model.z_coefficient = 1e-4; }},
    {"model.label_share", [](PlanRequest& r) { r.model.label_share = 0.15; }},
    {"model.outputs_logits", [](PlanRequest& r) { r.model.outputs_logits = false; }},
    {"model.freeze", [](PlanRequest& r) { r.model.freeze = {"*embeddings*"}; }},
    {"model.rate_factors",
     [](PlanRequest& r) {
       r.model.rate_factors = {{"classifier.*", 2.0}};
     }},
    {"model.lora", [](PlanRequest& r) { r.model.lora = LoraConfig{}; }},
    {"precision.dtype", [](PlanRequest& r) { r.precision.dtype = DType::kBF16; }},
    {"precision.activation_dtype", [](PlanRequest& r) { r.precision.activation_dtype = DType::kBF16; }},
    {"precision.fp8", [](PlanRequest& r) { r.precision.fp8 = true; }},
    {"precision.fp8_codes_at_use", [](PlanRequest& r) { r.precision.fp8_codes_at_use = true; }},
    {"precision.gradient_dtype", [](PlanRequest& r) { r.precision.gradient_dtype = DType::kBF16; }},
    {"precision.fp32_products", [](PlanRequest& r) { r.precision.fp32_products = Fp32Products::kTf32; }},
    {"precision.weight_copies", [](PlanRequest& r) { r.precision.weight_copies = true; }},
    {"precision.copies_at_use", [](PlanRequest& r) { r.precision.copies_at_use = true; }},
    {"update.optimizer", [](PlanRequest& r) { r.update.optimizer.kind = OptimizerKind::kLion; }},
    {"update.in_backward", [](PlanRequest& r) { r.update.in_backward = true; }},
    {"update.offload_states", [](PlanRequest& r) { r.update.offload_states = true; }},
    {"update.states_on_disk", [](PlanRequest& r) { r.update.states_on_disk = true; }},
    {"update.elements_at_once", [](PlanRequest& r) { r.update.elements_at_once /= 2; }},
    {"device.kind", [](PlanRequest& r) { r.device.kind = KernelDevice::kCuda; }},
    {"device.num_threads", [](PlanRequest& r) { ++r.device.num_threads; }},
    {"device.isa", [](PlanRequest& r) { r.device.isa = CpuIsa::kAmx; }},
    {"device.gpu", [](PlanRequest& r) { r.device.gpu.sm = 90; }},
    {"device.reference_kernels", [](PlanRequest& r) { r.device.reference_kernels = true; }},
    {"device.forced_kernels", [](PlanRequest& r) { r.device.forced_kernels = {"rms_norm_fwd_ref"}; }},
    {"passes.disabled", [](PlanRequest& r) { r.passes.disabled = {"fuse"}; }},
    {"passes.stop_after", [](PlanRequest& r) { r.passes.stop_after = "fuse"; }},
    {"generation.num_pages", [](PlanRequest& r) { r.generation.num_pages = 1; }},
    {"generation.page_size", [](PlanRequest& r) { r.generation.page_size = 32; }},
    {"generation.pages_per_sequence", [](PlanRequest& r) { r.generation.pages_per_sequence = 1; }},
    {"generation.sizes", [](PlanRequest& r) { r.generation.sizes.candidates = 1; }},
    {"ranks.count", [](PlanRequest& r) { r.ranks.count = 2; }},
    {"ranks.sequence_parallel", [](PlanRequest& r) { r.ranks.sequence_parallel = true; }},
    {"ranks.context_parallel", [](PlanRequest& r) { r.ranks.context_parallel = true; }},
    {"ranks.tensor_size", [](PlanRequest& r) { r.ranks.tensor_size = 2; }},
    {"ranks.keeps_gathered", [](PlanRequest& r) { r.ranks.keeps_gathered = true; }},
    {"ranks.pipeline_size", [](PlanRequest& r) { r.ranks.pipeline_size = 2; }},
    {"ranks.stage", [](PlanRequest& r) { r.ranks.stage = 1; }},
    {"ranks.chunks", [](PlanRequest& r) { r.ranks.chunks = 2; }},
    {"ranks.schedule", [](PlanRequest& r) { r.ranks.schedule = PipelineSchedule::kGpipe; }},
    {"ranks.first_blocks", [](PlanRequest& r) { r.ranks.first_blocks = {0}; }},
    {"ranks.maps_peers", [](PlanRequest& r) { r.ranks.maps_peers = true; }},
    {"ranks.tensor_maps_peers", [](PlanRequest& r) { r.ranks.tensor_maps_peers = true; }},
    {"ranks.pipeline_maps_peers", [](PlanRequest& r) { r.ranks.pipeline_maps_peers = true; }},
    {"ranks.least_divided_elements", [](PlanRequest& r) { r.ranks.least_divided_elements = 1; }},
    {"ranks.zero_stage", [](PlanRequest& r) { r.ranks.zero_stage = ZeroStage::kStates; }},
    {"ranks.updates_on_first", [](PlanRequest& r) { r.ranks.updates_on_first = true; }},
    {"ranks.bucket_bytes", [](PlanRequest& r) { r.ranks.bucket_bytes /= 2; }},
};

TEST(PlanRequest, EveryFieldThatDeterminesGraphsIsCompared) {
  const PlanRequest request;
  ASSERT_TRUE(share_begun_graphs(request, request));
  for (const FieldChange& change : kChanges) {
    PlanRequest changed;
    change.make(changed);
    EXPECT_FALSE(static_cast<const GraphRequest&>(request) == changed) << change.field;
    EXPECT_FALSE(share_begun_graphs(request, changed)) << change.field;
  }
}

TEST(PlanRequest, SizesAndLimitsShareGraphs) {
  const PlanRequest request;
  PlanRequest changed = request;
  changed.batches.train = {.tokens = 64, .sequences = 4, .longest = 16};
  changed.recompute.policy = RecomputePolicy::kFull;
  changed.offload.activations = true;
  changed.memory_limit_bytes = 1;
  changed.captured_buckets.train = 2;
  EXPECT_TRUE(share_begun_graphs(request, changed));
  changed.batches.accumulation_steps = 4;
  EXPECT_FALSE(share_begun_graphs(request, changed)) << "gradients are accumulated in one of them only";
  PlanRequest other = changed;
  other.batches.accumulation_steps = 2;
  EXPECT_TRUE(share_begun_graphs(other, changed));
}

TEST(PlanRequest, DumpedPassesShareNoGraphs) {
  PlanRequest request;
  request.passes.dump = [](std::string_view, const std::string&) {};
  EXPECT_FALSE(share_begun_graphs(request, request));
}

}  // namespace
}  // namespace plimsoll
