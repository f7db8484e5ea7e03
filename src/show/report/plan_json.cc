#include "show/report/result_files.h"

#include <cctype>
#include <cmath>
#include <map>

#include "base/hash.h"
#include "base/json.h"
#include "plan/anatomy/anatomy.h"
#include "plan/anatomy/disk_use.h"
#include "plan/anatomy/generation.h"
#include "plan/anatomy/memory.h"
#include "plan/anatomy/operations.h"
#include "plan/compile/op_times.h"
#include "plan/compile/stage_plan.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

// Converts a name to a key: "saved for the backward pass" to "saved_for_the_backward_pass".
std::string key_of(std::string_view name) {
  std::string key;
  for (unsigned char c : name) key += std::isalnum(c) != 0 ? static_cast<char>(c) : '_';
  return key;
}

Json purposes_json(const PhaseMemory& phase) {
  Json object = Json::object();
  for (int p = 0; p < kNumPurposes; ++p) {
    object[key_of(purpose_name(static_cast<Purpose>(p)))] = phase.by_purpose[static_cast<size_t>(p)];
  }
  return object;
}

Json phases_json(const MemoryAnatomy& anatomy) {
  Json object = Json::object();
  for (const PhaseMemory& phase : anatomy.phases) {
    object[std::string(phase_name(phase.phase))] = {
        {"by_purpose", purposes_json(phase)},     {"gaps_bytes", phase.gaps_bytes},
        {"arena_bytes", phase.arena_bytes},       {"unused_bytes", phase.unused_bytes},
        {"constant_bytes", phase.constant_bytes}, {"total_bytes", phase.total_bytes}};
  }
  return object;
}

Json largest_purposes_json(const MemoryAnatomy& anatomy) {
  const PhaseMemory& phase = anatomy.phases[anatomy.largest];
  Json object = purposes_json(phase);
  object["gaps_between_buffers"] = phase.gaps_bytes;
  return object;
}

Json totals_json(const OpTotals& totals) {
  return {{"flops", std::llround(totals.flops)},
          {"bytes", std::llround(totals.bytes)},
          {"estimated_ms", totals.ms}};
}

Json operations_json(const OperationsAnatomy& operations) {
  Json object = Json::object();
  for (int g = 0; g < kNumOpGroups; ++g) {
    const auto group = static_cast<OpGroup>(g);
    Json entry = totals_json(operations.group(group));
    for (Segment segment : {Segment::kForward, Segment::kBackward, Segment::kOptimizer}) {
      entry[std::string(segment_name(segment))] =
          totals_json(operations.by_group[static_cast<size_t>(g)][index_of(segment)]);
    }
    object[key_of(op_group_name(group))] = std::move(entry);
  }
  return object;
}

Json peaks_json(const MemoryAnatomy& anatomy) {
  Json list = Json::array();
  for (const PeakPlace& peak : anatomy.peaks) {
    list.push_back({{"phase", phase_name(peak.phase)},
                    {"op", peak.op},
                    {"output", peak.output},
                    {"module", peak.module},
                    {"segment", segment_name(peak.segment)},
                    {"position", peak.position},
                    {"num_ops", peak.num_ops},
                    {"transient_bytes", peak.live_bytes}});
  }
  return list;
}

Json modules_json(const Plan& plan) {
  Json list = Json::array();
  for (const ModuleMemory& module : module_memory(plan)) {
    list.push_back({{"module", module.module},
                    {"num_parameters", module.num_parameters},
                    {"weight_bytes", module.weight_bytes},
                    {"state_bytes", module.state_bytes},
                    {"staging_bytes", module.staging_bytes},
                    {"gradient_bytes_at_most", module.gradient_bytes_at_most},
                    {"saved_bytes_at_most", module.saved_bytes_at_most},
                    {"temporary_bytes_at_most", module.temporary_bytes_at_most}});
  }
  return list;
}

Json parameters_json(const Plan& plan) {
  const ParameterBytes parameters = parameter_bytes(plan);
  Json quoted = Json::array();
  for (const QuotedFormula& formula : parameters.quoted) {
    quoted.push_back({{"name", formula.name},
                      {"made_of", formula.made_of},
                      {"bytes_per_parameter", formula.bytes_per_parameter},
                      {"bytes", formula.bytes},
                      {"applies", formula.applies}});
  }
  return {{"num_parameters", parameters.num_parameters},
          {"num_trainable_parameters", plan.num_trainable_parameters()},
          {"bytes_per_parameter",
           {{"weights", parameters.weights},
            {"states", parameters.states},
            {"gradients", parameters.gradients},
            {"activations", parameters.activations}}},
          {"quoted", std::move(quoted)},
          {"difference", parameters.difference}};
}

Json bucket_json(const Bucket& bucket) {
  return {{"tokens", bucket.tokens}, {"sequences", bucket.sequences}, {"longest", bucket.longest}};
}

Json program_json(const ProgramPlan& program, const CapturedGraphs& captured) {
  Json passes = Json::array();
  for (const PassRecord& pass : program.passes) {
    passes.push_back({{"name", pass.name},
                      {"ran", pass.ran},
                      {"ops_before", pass.ops_before},
                      {"ops_after", pass.ops_after}});
  }
  std::map<std::string, int64_t> kernels;
  for (const OpPlan& op : program.ops) {
    if (op.kernel != nullptr) ++kernels[std::string(op.kernel->implementation)];
  }
  return {{"name", program.name},
          {"num_ops", program.graph.ops().size()},
          {"bucket", bucket_json(program.bucket)},
          {"num_buckets", program.ladder.size()},
          {"transient_bytes", program.transient_bytes},
          {"lower_bound_bytes", program.lower_bound_bytes},
          {"captured_graphs", captured.count},
          {"captured_graph_bytes", captured.bytes},
          {"passes", std::move(passes)},
          {"kernels", kernels}};
}

Json captured_buckets_json(const PlanRequest& request) {
  if (request.device.kind != KernelDevice::kCuda) return nullptr;
  const CapturedBuckets& buckets = request.captured_buckets;
  return {{"train", buckets.train}, {"update", buckets.update}, {"evaluate", buckets.evaluate}};
}

Json estimate_json(const GenerationEstimate& estimate) {
  return {{"prefill_ms", estimate.prefill_ms},
          {"decode_run_ms", estimate.decode_run_ms},
          {"new_tokens_per_second", estimate.new_tokens_per_s}};
}

Json generation_json(const Plan& plan, const std::vector<BeamCost>& beams) {
  const GenerationOptions& options = plan.request.generation;
  if (options.num_pages == 0) return nullptr;
  const CacheAnatomy cache = cache_anatomy(plan);
  const DecodeReads reads = decode_reads(plan);
  Json costs = Json::array();
  for (const BeamCost& cost : beams) {
    costs.push_back({{"num_beams", cost.num_beams},
                     {"num_pages", cost.cache.num_pages},
                     {"cache_bytes", cost.cache.bytes()},
                     {"arena_bytes", cost.arena_bytes},
                     {"total_bytes", cost.total_bytes},
                     {"fits", cost.fits},
                     {"estimate", estimate_json(cost.estimate)}});
  }
  return {{"prompts_at_once", options.sizes.prompts_at_once},
          {"sequences_per_prompt", options.sizes.sequences_per_prompt},
          {"longest_prompt", options.sizes.longest_prompt},
          {"max_new_tokens", options.sizes.max_new_tokens},
          {"cache",
           {{"bytes_per_token", cache.bytes_per_token},
            {"page_tokens", options.page_size},
            {"page_bytes", cache.page_bytes},
            {"num_pages", cache.num_pages},
            {"shared_pages_per_prompt", cache.per_prompt.shared},
            {"own_pages_per_sequence", cache.per_prompt.own},
            {"bytes", cache.bytes()}}},
          {"weight_bytes_per_decode_run", reads.weight_bytes},
          {"estimate", estimate_json(generation_estimate(plan))},
          {"beams", std::move(costs)}};
}

Json request_json(const PlanRequest& request, const PlanLabels& labels) {
  Json object{
      {"model", labels.model_of(request)},
      {"dtype", dtype_name(request.precision.dtype)},
      {"activation_dtype", dtype_name(request.precision.activation_dtype.value_or(request.precision.dtype))},
      {"fp8", request.precision.fp8},
      {"train", request.train},
      {"evaluate", request.evaluate},
      {"optimizer", optimizer_row(request.update.optimizer.kind).name},
      {"freeze", request.model.freeze},
      {"gradient_accumulation_steps", request.batches.accumulation_steps},
      {"ranks", request.ranks.count},
      {"tensor_ranks", request.ranks.tensor_size},
      {"sequence_parallel", request.ranks.divides_rows()},
      {"context_parallel", request.ranks.divides_context()},
      {"pipeline_stages", request.ranks.pipeline_size},
      {"stage", request.ranks.stage},
      {"zero_stage", request.ranks.updates_on_first ? 0 : static_cast<int>(request.ranks.zero_stage)},
      {"keeps_gathered_weights", request.ranks.keeps_gathered},
      {"train_bucket", bucket_json(request.batches.train)},
      {"evaluate_bucket", bucket_json(request.batches.evaluate)},
      {"captured_buckets", captured_buckets_json(request)},
      {"num_threads", request.device.num_threads},
      {"isa", cpu_isa_name(request.device.isa)},
      {"gpu", request.device.kind == KernelDevice::kCuda ? Json(request.device.gpu.name) : Json(nullptr)},
      {"device", labels.device},
      {"fp32_products", fp32_products_name(request.precision.fp32_products)},
      {"matmul_workspace_bytes", request.products.workspace_bytes},
      {"tuning",
       {{"products", request.products.tuning.products.size()},
        {"xxh3", to_hex(tuning_table_hash(request.products.tuning))}}},
      {"reference_kernels", request.device.reference_kernels},
      {"forced_kernels", request.device.forced_kernels},
      {"recompute",
       request.recompute.kept_of_block.empty() ? recompute_policy_name(request.recompute.policy) : "chosen"},
      {"optimizer_in_backward", request.update.in_backward},
      {"offload_activations", request.offload.activations},
      {"offload_optimizer", request.update.offload_states},
      {"states_on_disk", request.update.states_on_disk},
      {"memory_limit_bytes", nullptr},
      {"host",
       {{"process_bytes", request.host.process_bytes},
        {"data_bytes", request.host.data_bytes},
        {"io_bytes", request.host.io_bytes},
        {"reading_bytes", request.host.reading_bytes}}}};
  if (request.memory_limit_bytes) object["memory_limit_bytes"] = *request.memory_limit_bytes;
  return object;
}

// Returns the list of memory spaces: first the memory of the device that computes (GPU or CPU), then, for a GPU, the host memory, and last
// the disk, if the run stores buffers there.
Json spaces_json(const Plan& plan) {
  Json spaces = Json::array();
  spaces.push_back({{"name", plan.is_on_gpu() ? "cuda" : "cpu"},
                    {"arena_bytes", plan.arena_bytes},
                    {"lower_bound_bytes", plan.lower_bound_bytes},
                    {"constant_bytes", plan.constant_bytes()},
                    {"library_bytes", plan.is_on_gpu() ? 0 : plan.host.library_bytes}});
  if (plan.is_on_gpu()) {
    spaces.back()["constant_provenance"] = plan.request.device.gpu.constant_provenance;
    spaces.push_back({{"name", "host"},
                      {"arena_bytes", plan.staging_bytes() + plan.host_arena_bytes},
                      {"lower_bound_bytes", plan.staging_bytes() + plan.host_lower_bound_bytes},
                      {"constant_bytes", plan.host.total()},
                      {"library_bytes", plan.host.library_bytes}});
  }
  if (plan.disk_bytes > 0) {
    const DiskUse use = disk_use(plan);
    spaces.push_back({{"name", "disk"},
                      {"arena_bytes", plan.disk_bytes},
                      {"lower_bound_bytes", plan.disk_bytes},
                      {"constant_bytes", 0},
                      {"library_bytes", 0},
                      {"read_bytes_per_step", use.read_bytes},
                      {"written_bytes_per_step", use.written_bytes},
                      {"staging_bytes", use.staging_bytes},
                      {"buffers_bytes", use.buffers_bytes},
                      {"ms_per_step", use.ms},
                      {"gb_per_s", plan.request.disk.both_gb_per_s},
                      {"source", plan.request.disk.is_measured() ? "measured" : "assumed"}});
  }
  return spaces;
}

// Returns the data rate and the latency of exchanges between the ranks, or null if the run has only one rank.
Json rank_link_json(const PlanRequest& request) {
  if (request.ranks.count == 1) return nullptr;
  const RankLink link = rank_link(request);
  Json object{{"gb_per_s", link.gb_per_s},
              {"latency_ms", link.latency_ms},
              {"source", link.is_measured ? "measured" : "assumed"},
              {"exchange", link.is_measured ? Json(link_exchange_name(request.links.exchange)) : Json()},
              {"date", link.is_measured ? Json(request.links.date) : Json()}};
  if (!request.named_links.empty())
    object["links"] = {{"inside", request.named_links.inside}, {"between", request.named_links.between}};
  return object;
}

// Returns the stages of a pipeline and the estimated time of a step; null without a pipeline.
Json pipeline_json(const Plan& plan) {
  if (!plan.is_pipelined()) return nullptr;
  const PipelineTime time = plan.trains()
                                ? simulate_step(plan.stages, plan.request.batches.accumulation_steps)
                                : simulate_evaluation(plan.stages, 1);
  Json stages = Json::array();
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const StagePlan& stage = plan.stages[i];
    Json chunks = Json::array();
    for (const StageChunk& chunk : stage.chunks)
      chunks.push_back({{"first_layer", chunk.first_block},
                        {"layers", chunk.num_blocks},
                        {"micro_batches_held", chunk.num_slots},
                        {"saved_bytes", chunk.num_slots * chunk.slot_bytes}});
    stages.push_back({{"first_layer", stage.first_block},
                      {"layers", stage.num_blocks},
                      {"micro_batches_held", stage.num_slots},
                      {"saved_bytes", stage.saved_bytes},
                      {"arena_bytes", stage.arena_bytes},
                      {"total_bytes", stage.total_bytes},
                      {"busy_ms", time.busy_ms[i]}});
    if (!stage.chunks.empty()) stages.back()["chunks"] = std::move(chunks);
  }
  return {{"stages", std::move(stages)}, {"step_ms", time.step_ms}, {"bubble", time.bubble()}};
}

}  // namespace

std::string plan_json(const Plan& plan, const PlanLabels& labels, const std::vector<BeamCost>& beams) {
  const MemoryAnatomy anatomy = memory_anatomy(plan);
  const OperationsAnatomy operations = operations_anatomy(plan);
  Json programs = Json::array();
  for (const ProgramPlan& program : plan.programs) {
    programs.push_back(program_json(program, plan.gpu_constant.graphs_of(program.name)));
  }
  Json object{{"schema_version", kPlanJsonVersion},
              {"total_bytes", plan.total_bytes()},
              {"spaces", spaces_json(plan)},
              {"by_purpose", largest_purposes_json(anatomy)},
              {"by_phase", phases_json(anatomy)},
              {"operations", operations_json(operations)},
              {"estimate",
               {{"samples", operations.samples},
                {"tokens", operations.tokens},
                {"ms", operations.total().ms},
                {"samples_per_second", operations.samples_per_s()},
                {"is_calibrated", !plan.request.cpu_calibration.empty()},
                {"rank_link", rank_link_json(plan.request)},
                {"rates", operations.rates}}},
              {"peaks", peaks_json(anatomy)},
              {"modules", modules_json(plan)},
              {"parameters", parameters_json(plan)},
              {"programs", std::move(programs)},
              {"request", request_json(plan.request, labels)}};
  if (Json pipeline = pipeline_json(plan); !pipeline.is_null()) object["pipeline"] = std::move(pipeline);
  if (Json generation = generation_json(plan, beams); !generation.is_null())
    object["generation"] = std::move(generation);
  return python_json(object, 2) + "\n";
}

std::string memory_json(const MemoryFigures& figures) {
  const Json object{{"predicted_total_bytes", figures.predicted_total_bytes},
                    {"arena_bytes", figures.arena_bytes},
                    {"arena_high_water_bytes", figures.arena_high_water_bytes},
                    {"arena_written_bytes", figures.arena_written_bytes},
                    {"lower_bound_bytes", figures.lower_bound_bytes},
                    {"constant_bytes", figures.constant_bytes},
                    {"measured_peak_bytes", figures.measured_peak_bytes}};
  return python_json(object, 2) + "\n";
}

}  // namespace plimsoll
