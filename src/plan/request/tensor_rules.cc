// Checks the arguments that concern tensor parallelism and context parallelism.
#include "base/check.h"
#include "base/optimizer_table.h"
#include "plan/compile/graphs.h"
#include "plan/request/rules.h"

namespace plimsoll {
namespace {

// Checks that a size of the model, such as its number of heads, is divisible by the number of ranks.
void check_divisible(int64_t size, int64_t ranks, std::string_view what, std::string_view key,
                     std::string_view setting = "--tp_size") {
  if (size % ranks == 0) return;
  throw_error(ErrorCode::kUsage,
              "{} {}: the {} of this model ({} in config.json is {}) cannot be divided among {} "
              "processes; give a {} that divides {}",
              setting, ranks, what, key, size, ranks, setting, size);
}

[[noreturn]] void refuse(int64_t ranks, std::string_view reason, std::string_view remedy,
                         std::string_view setting = "--tp_size") {
  throw_error(ErrorCode::kUsage, "{} {}: {}; {}, or leave {} out", setting, ranks, reason, remedy, setting);
}

// The numbers of a block of a 4-bit matrix share one scale, so each process needs whole blocks of the matrix.
void check_blocks_of_4_bits(const PlanRequest& request) {
  const int64_t ranks = request.ranks.tensor_size;
  const LoraConfig& lora = *request.model.lora;
  const std::optional<int64_t> block = quantization_block(lora);
  if (!block) return;
  if (lora.double_quant)
    refuse(ranks,
           "the blocks in which scales are quantized (--bnb_4bit_use_double_quant) would belong to several "
           "processes",
           "leave --bnb_4bit_use_double_quant out");
  const ModelConfig& config = request.model.config;
  const auto check = [&](int64_t columns, std::string_view what) {
    if (columns % *block == 0) return;
    refuse(
        ranks,
        fmt::format("each process would have {} columns of {}, but the matrices have 4 bits per number, in "
                    "blocks of {} numbers (--load_in_4bit)",
                    columns, what, *block),
        "give --load_in_8bit");
  };
  check(config.hidden_size, "the matrices that read hidden states");
  check(config.num_attention_heads / ranks * config.head_width(), "the output projection of attention");
  check(config.intermediate_size / ranks, "the second feed-forward matrix");
}

}  // namespace

void check_tensor_parallelism(const PlanRequest& request) {
  const int64_t ranks = request.ranks.tensor_size;
  if (!request.ranks.divides_layers()) return;
  const ModelConfig& config = request.model.config;
  check_divisible(config.num_attention_heads, ranks, "attention heads", "num_attention_heads");
  check_divisible(config.heads_of_keys(), ranks, "heads of keys and values", "num_key_value_heads");
  check_divisible(config.intermediate_size, ranks, "columns of feed-forward layers", "intermediate_size");
  if (request.model.lora) check_blocks_of_4_bits(request);
  if (request.precision.fp8)
    refuse(ranks,
           "this version cannot compute 8-bit matrix products (--fp8) in layers that are divided among "
           "processes",
           "give --bf16");
  if (request.generation.num_pages > 0)
    refuse(ranks, "only one process can generate text", "generate in a run of its own");
  if (!request.train) return;
  const OptimizerConfig& optimizer = request.update.optimizer;
  if (optimizer_row(optimizer.kind).frame != UpdateFrame::kPlain) {
    refuse(ranks,
           fmt::format("the states of --optim {} are shared by several elements of a weight, so the results "
                       "would depend on how weights are divided",
                       optimizer_row(optimizer.kind).names.front()),
           "give --optim adamw_torch");
  }
  if (request.precision.dtype == DType::kBF16 || optimizer.variance_dtype == DType::kBF16) {
    refuse(ranks,
           "weights or states in bf16 are rounded randomly, so the results would depend on the number of "
           "processes",
           "give --bf16, which keeps them in fp32");
  }
}

void check_context_parallelism(const PlanRequest& request) {
  constexpr std::string_view kSetting = "--cp_size";
  if (!request.ranks.divides_context()) return;
  const int64_t ranks = request.ranks.tensor_size;
  const ModelConfig& config = request.model.config;
  check_divisible(config.num_attention_heads, ranks, "attention heads", "num_attention_heads", kSetting);
  check_divisible(config.heads_of_keys(), ranks, "heads of keys and values", "num_key_value_heads", kSetting);
  if (request.precision.fp8)
    refuse(ranks, "this version cannot compute 8-bit matrix products (--fp8) of divided rows", "give --bf16",
           kSetting);
  if (request.generation.num_pages > 0)
    refuse(ranks, "only one process can generate text", "generate in a run of its own", kSetting);
}

}  // namespace plimsoll
