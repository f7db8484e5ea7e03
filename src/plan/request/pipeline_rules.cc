// Checks the arguments that concern pipeline parallelism.
#include <algorithm>

#include "base/check.h"
#include "models/lora.h"
#include "plan/request/rules.h"

namespace plimsoll {
namespace {

// The largest number of micro-batches per step of a pipeline. It is limited because the plan contains their order, and because with gpipe
// the arena stores the activations of all of them.
constexpr int64_t kMostMicroBatchesOfPipeline = 4096;

[[noreturn]] void refuse_pipeline(int64_t stages, std::string_view reason, std::string_view remedy) {
  throw_error(ErrorCode::kUsage, "--pp_size {}: {}; {}, or leave --pp_size out", stages, reason, remedy);
}

void check_interleaved(const Arguments& arguments, const PlanRequest& request) {
  const int64_t stages = request.ranks.pipeline_size, chunks = request.ranks.chunks;
  const int64_t layers = request.model.config.num_hidden_layers;
  if (stages * chunks > layers) {
    throw_error(
        ErrorCode::kUsage,
        "--pp_chunks {}: the model has {} layers (num_hidden_layers in config.json), and each of the {} "
        "chunks of {} stages (--pp_size) needs at least one; {}",
        chunks, layers, stages * chunks, stages,
        layers / stages >= 2 ? fmt::format("give a --pp_chunks of at most {}", layers / stages)
                             : "give --pipeline_schedule 1f1b");
  }
  if (request.train && arguments.gradient_accumulation_steps < stages) {
    throw_error(
        ErrorCode::kUsage,
        "--gradient_accumulation_steps {}: --pipeline_schedule interleaved runs micro-batches in groups of "
        "--pp_size {}; give at least {} micro-batches per step, or --pipeline_schedule 1f1b",
        arguments.gradient_accumulation_steps, stages, stages);
  }
  if (request.device.is_gpu()) {
    throw_error(ErrorCode::kUsage,
                "--pipeline_schedule interleaved: this version does not support it on GPUs; give "
                "--pipeline_schedule 1f1b, or --device cpu");
  }
}

// Checks that every layer has an adapter. Each stage of a pipeline makes an update and sends gradients to the stage before it, so each
// needs weights that it trains, and a stage may consist of a single layer.
void check_adapters_of_stages(const PlanRequest& request) {
  const int64_t stages = request.ranks.pipeline_size;
  const ModelConfig& config = request.model.config;
  const LoraConfig& lora = *request.model.lora;
  const std::vector<LoraTarget> targets = lora_targets(model_weights(config), config.model_type, lora);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string number = fmt::format(".{}.", layer);
    if (std::ranges::any_of(targets, [&](const LoraTarget& target) {
          return target.module.find(number) != std::string::npos;
        }))
      continue;
    refuse_pipeline(
        stages, fmt::format("layer {} has no adapter, but each stage needs weights that it trains", layer),
        "choose modules of every layer (--lora_target_modules, --layers_to_transform, --exclude_modules)");
  }
}

}  // namespace

void check_pipeline_parallelism(const Arguments& arguments, const PlanRequest& request) {
  const int64_t stages = request.ranks.pipeline_size;
  if (stages == 1) return;
  const int64_t layers = request.model.config.num_hidden_layers;
  if (stages > layers) {
    throw_error(
        ErrorCode::kUsage,
        "--pp_size {}: the model has {} {} (num_hidden_layers in config.json), and every stage of a pipeline "
        "needs at least one; give a --pp_size of at most {}",
        stages, layers, layers == 1 ? "layer" : "layers", layers);
  }
  const int64_t steps = arguments.gradient_accumulation_steps;
  if (request.ranks.chunks > 1) check_interleaved(arguments, request);
  if (request.train && steps > kMostMicroBatchesOfPipeline) {
    throw_error(ErrorCode::kUsage,
                "--gradient_accumulation_steps {}: a step of a pipeline (--pp_size {}) loads all its "
                "micro-batches before it begins, and at most {}; give fewer, and a larger "
                "--per_device_train_batch_size",
                steps, stages, kMostMicroBatchesOfPipeline);
  }
  if (request.model.lora) check_adapters_of_stages(request);
  if (!request.model.freeze.empty())
    refuse_pipeline(stages,
                    "this version cannot freeze weights (--freeze) of a model that is divided into stages",
                    "train all weights");
  if (request.precision.fp8)
    refuse_pipeline(
        stages,
        "this version cannot compute 8-bit matrix products (--fp8) in a model that is divided into stages",
        "give --bf16");
  if (request.train && request.device.is_gpu() && arguments.offload_activations)
    refuse_pipeline(stages,
                    "a stage holds the activations of several micro-batches, which --offload_activations "
                    "does not transfer in this version",
                    "give --gradient_checkpointing");
  if (request.generation.num_pages > 0)
    refuse_pipeline(stages, "only one process can generate text", "generate in a run of its own");
  if (arguments.recompute == "selective" || arguments.recompute_budget)
    refuse_pipeline(stages,
                    "the stages would recompute different values, which this version does not support",
                    "give --gradient_checkpointing");
  if (!request.train) return;
  if (request.precision.dtype == DType::kBF16 || request.update.optimizer.variance_dtype == DType::kBF16) {
    refuse_pipeline(stages,
                    "the first and the last stage may share the embedding table, and their copies would "
                    "become different, because weights or states in bf16 are rounded randomly",
                    "give --bf16, which keeps them in fp32");
  }
}

}  // namespace plimsoll
