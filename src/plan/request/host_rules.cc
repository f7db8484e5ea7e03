// Computes the host memory that a run needs outside the arena.
#include <algorithm>

#include "plan/request/rules.h"

namespace plimsoll {
namespace {

// The number of ops per layer in the forward and backward pass, before ops are fused, which leaves about half of them. kOpsPerAdaptedLayer
// is for layers in which each linear module has an adapter.
constexpr int64_t kOpsPerLayer = 60;
constexpr int64_t kOpsPerAdaptedLayer = 140;
// Host memory per op (before fusion) for the calls that an executor prepares for one bucket (batch size). Measured: 1300 to 1500 bytes per
// op after fusion, which leaves about half of the ops.
constexpr int64_t kBytesPerBoundOp = 896;

// Returns the host memory that quantization needs at once: the largest matrix in fp32, and its codes.
int64_t quantizing_bytes(const ModelConfig& config, const std::optional<LoraConfig>& lora) {
  if (!lora || lora->base_weights == BaseWeights::kAsLoaded) return 0;
  int64_t largest = 0;
  for (const WeightSpec& spec : model_weights(config)) {
    if (spec.shape.size() != 2 || spec.name.find("embeddings") != std::string::npos) continue;
    for (const WeightPart& part : spec.parts) largest = std::max(largest, part.num_rows * spec.shape[1]);
  }
  return 6 * largest;
}

}  // namespace

HostMemory host_memory_of(const HostFacts& facts, const ModelConfig& config,
                          const std::optional<LoraConfig>& lora, const Bucket& train) {
  const int64_t ops = (lora ? kOpsPerAdaptedLayer : kOpsPerLayer) * config.num_hidden_layers;
  return {.process_bytes = facts.process_bytes +
                           facts.bound_buckets * (ops * kBytesPerBoundOp + facts.library_bytes_per_bucket),
          .data_bytes = facts.data_bytes + facts.batch_bytes_per_token * train.tokens,
          .io_bytes = facts.io_bytes + quantizing_bytes(config, lora),
          .reading_bytes = facts.reading_bytes,
          .bound_buckets = facts.bound_buckets};
}

}  // namespace plimsoll
