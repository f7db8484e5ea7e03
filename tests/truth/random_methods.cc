#include "tests/truth/random_methods.h"

#include "device/cpu/cpu_features.h"

namespace plimsoll::testing {
namespace {

// The optimizers of random runs; some entries also move the optimizer states to the host. Consecutive run numbers go through this
// list and through the list of precisions. The two lengths have no common factor, so that every pair of them occurs.
const std::vector<Words>& optimizers() {
  static const std::vector<Words> all{
      {"--optim", "adamw_torch_fused"},
      {"--optim", "sgd"},
      {"--optim", "adafactor"},
      {"--optim", "adamw_8bit"},
      {"--optim", "paged_adamw_8bit"},
      {"--optim", "lion_32bit"},
      {"--optim", "adagrad"},
      {"--optim", "sgd", "--optim_args", "momentum=0.9"},
      {"--optim", "adamw_torch_fused", "--optim_args", "momentum_dtype=bfloat16,variance_dtype=bfloat16"},
      {"--optim", "lion_8bit"},
      {"--optim", "sgd_8bit", "--optim_args", "momentum=0.9"},
      {"--optim", "adagrad_8bit"},
      {"--optim", "paged_adamw_32bit"}};
  return all;
}

const std::vector<Words>& gpu_precisions() {
  static const std::vector<Words> all{{},         {"--tf32", "True"}, {"--matmul_precision", "tf32x3"},
                                      {"--bf16"}, {"--fp16"},         {"--dtype", "bfloat16"}};
  return all;
}

// The reference kernels are slow, so they are used in fp32 only.
const std::vector<Words>& cpu_precisions() {
  static const std::vector<Words> all{{}, {"--bf16"}, {"--kernels", "ref"},
                                      {}, {"--bf16"}, {"--dtype", "bfloat16"}};
  static const std::vector<Words> without_bf16{{}, {}, {}, {"--kernels", "ref"}};
  return has_bf16_products(cpu_isa()) ? all : without_bf16;
}

const std::vector<Words> kRecomputing{
    {"--gradient_checkpointing"}, {"--recompute", "selective"}, {"--recompute", "none"}, {}, {}};

const std::vector<Words> kTrainedParts{
    {"--freeze", "*embeddings*"},
    {"--lora_r", "8", "--lora_target_modules", "all-linear"},
    {"--lora_r", "4", "--load_in_8bit"},
    {"--lora_r", "8", "--lora_target_modules", "all-linear", "--load_in_4bit", "--bnb_4bit_use_double_quant"},
    {},
    {},
    {},
    {}};

}  // namespace

Words method_words_of(RunsOn device, uint64_t number) {
  const std::vector<Words>& precisions = device == RunsOn::kGpu ? gpu_precisions() : cpu_precisions();
  Words words = precisions[number % precisions.size()];
  append(words, optimizers()[number % optimizers().size()]);
  return words;
}

Words draw_method_arguments(RunsOn device, Draw& draw) {
  Words words{"--gradient_accumulation_steps", std::to_string(draw.between(1, 3))};
  const bool in_backward = draw.one_in(5);
  if (in_backward) append(words, {"--optimizer_in_backward", "True"});
  if (in_backward || draw.coin()) append(words, {"--max_grad_norm", "0"});
  append(words, draw.of(kRecomputing));
  append(words, draw.of(kTrainedParts));
  if (draw.one_in(5)) append(words, {"--chunked_loss", "always"});
  if (device == RunsOn::kCpu) return words;
  if (draw.one_in(4)) words.emplace_back("--offload_optimizer");
  if (draw.one_in(4)) words.emplace_back("--offload_activations");
  if (draw.one_in(5)) append(words, {"--weight_copies", "at_use"});
  if (draw.one_in(5)) append(words, {"--gradient_dtype", "fp32"});
  if (draw.one_in(4)) append(words, {"--matmul_workspace", draw.coin() ? "0" : "4MiB"});
  return words;
}

Words evaluation_words_of(uint64_t number) {
  static const std::vector<Words> all{{"--bf16_full_eval"}, {"--fp16_full_eval"}, {"--bf16"}};
  return all[number % all.size()];
}

}  // namespace plimsoll::testing
