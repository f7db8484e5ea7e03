#include "plimsoll/methods.h"

#include <algorithm>
#include <set>

namespace plimsoll {

const std::vector<Method>& method_table() {
  static const std::vector<Method> kMethods{
      {.name = "accumulation",
       .words = {"--gradient_accumulation_steps", "2"},
       .kind = "accumulation",
       .effect = MethodEffect::kSameSums,
       .help = "Gradients of several micro-batches make one step."},
      {.name = "bf16",
       .words = {"--bf16"},
       .kind = "precision",
       .effect = MethodEffect::kRounding,
       .help = "Computes in bf16 with fp32 master weights."},
      {.name = "fp16",
       .words = {"--fp16"},
       .kind = "precision",
       .effect = MethodEffect::kRounding,
       .not_on_cpu = "no kernel computes fp16 on a CPU, whose vectors and matrix units take bf16",
       .help = "Computes in fp16 with fp32 master weights and a loss scale."},
      {.name = "tf32",
       .words = {"--tf32", "True"},
       .kind = "precision",
       .effect = MethodEffect::kRounding,
       .not_on_cpu = "a CPU has no TF32",
       .help = "Products of fp32 matrices on tensor cores, operands rounded to 11 bits."},
      {.name = "tf32x3",
       .words = {"--matmul_precision", "tf32x3"},
       .kind = "precision",
       .effect = MethodEffect::kRounding,
       .not_on_cpu = "a CPU has no TF32",
       .help = "Products of fp32 matrices as three products of TF32, with about the error of fp32."},
      {.name = "pure_bf16",
       .words = {"--dtype", "bfloat16"},
       .kind = "precision",
       .effect = MethodEffect::kRounding,
       .help = "Weights in bf16 alone, rounded stochastically."},
      {.name = "checkpointing",
       .words = {"--gradient_checkpointing", "True"},
       .kind = "recompute",
       .effect = MethodEffect::kRounding,
       .help = "Computes whole layers again: the same bits in fp32, a rounding more in 16 bits."},
      {.name = "selective",
       .words = {"--recompute", "selective"},
       .kind = "recompute",
       .effect = MethodEffect::kRounding,
       .not_in_fit = "what it computes again is chosen for one batch, and fit looks for the batch",
       .help = "Computes again what frees most memory for 4 % of the step: the same bits in fp32."},
      {.name = "optimizer_in_backward",
       .words = {"--optimizer_in_backward", "True", "--max_grad_norm", "0"},
       .kind = "accumulation",
       .effect = MethodEffect::kOtherPath,
       .help = "Updates each module as soon as its gradients are there; without clipping."},
      {.name = "chunked_loss",
       .words = {"--chunked_loss", "always"},
       .kind = "loss",
       .effect = MethodEffect::kSameSums,
       .help = "Holds logits of training for some rows at a time: for many thousands of labels."},
      {.name = "offload_optimizer",
       .words = {"--offload_optimizer"},
       .kind = "offload",
       .effect = MethodEffect::kSameBits,
       .not_on_cpu = "on a CPU optimizer states lie in the host's memory already",
       .help = "Keeps optimizer states, and what only updates read of the weights, in pinned host memory."},
      {.name = "offload_activations",
       .words = {"--offload_activations"},
       .kind = "offload",
       .effect = MethodEffect::kSameBits,
       .not_on_cpu = "on a CPU activations lie in the host's memory already",
       .help = "Keeps what is saved for the backward pass in pinned host memory between the passes."},
      {.name = "bf16_moments",
       .words = {"--optim", "adamw_torch_fused", "--optim_args",
                 "momentum_dtype=bfloat16,variance_dtype=bfloat16"},
       .kind = "optimizer",
       .effect = MethodEffect::kRounding,
       .help = "AdamW with moments in bf16, the second rounded stochastically."},
      {.name = "adamw_8bit",
       .words = {"--optim", "adamw_8bit"},
       .kind = "optimizer",
       .effect = MethodEffect::kRounding,
       .help = "AdamW with states of 8 bits in blocks of 256."},
      {.name = "paged_adamw_8bit",
       .words = {"--optim", "paged_adamw_8bit"},
       .kind = "optimizer",
       .effect = MethodEffect::kRounding,
       .not_on_cpu = "on a CPU optimizer states lie in the host's memory already",
       .help = "8-bit AdamW with its states in pinned host memory."},
      {.name = "adafactor",
       .words = {"--optim", "adafactor"},
       .kind = "optimizer",
       .effect = MethodEffect::kOtherPath,
       .help = "A state per row and per column of a matrix in place of one per weight."},
      {.name = "lion",
       .words = {"--optim", "lion_32bit"},
       .kind = "optimizer",
       .effect = MethodEffect::kOtherPath,
       .help = "The sign of a mean of gradients: one state per weight."},
      {.name = "lion_8bit",
       .words = {"--optim", "lion_8bit"},
       .kind = "optimizer",
       .effect = MethodEffect::kOtherPath,
       .help = "Lion with its state in 8 bits."},
      {.name = "adagrad",
       .words = {"--optim", "adagrad"},
       .kind = "optimizer",
       .effect = MethodEffect::kOtherPath,
       .help = "One state per weight: the sum of squared gradients."},
      {.name = "sgd",
       .words = {"--optim", "sgd"},
       .kind = "optimizer",
       .effect = MethodEffect::kOtherPath,
       .help = "Gradient descent without states."},
      {.name = "freeze",
       .words = {"--freeze", "*embeddings*"},
       .kind = "trained part",
       .effect = MethodEffect::kOtherPath,
       .help = "Leaves the tables of embeddings as they are: no gradients and no states for them."},
      {.name = "lora",
       .words = {"--lora_r", "8", "--lora_target_modules", "all-linear"},
       .kind = "trained part",
       .effect = MethodEffect::kOtherPath,
       .help = "Trains two narrow matrices beside each linear module, and the classifier."},
      {.name = "qlora",
       .words = {"--lora_r", "8", "--lora_target_modules", "all-linear", "--load_in_4bit",
                 "--bnb_4bit_use_double_quant"},
       .kind = "trained part",
       .effect = MethodEffect::kOtherPath,
       .help = "The same beside linear modules held in 4 bits a weight."},
  };
  return kMethods;
}

bool set_different_arguments(const std::vector<const Method*>& methods) {
  std::set<std::string_view> names;
  for (const Method* method : methods) {
    for (const std::string_view word : method->words) {
      if (word.starts_with("--") && !names.insert(word).second) return false;
    }
  }
  return true;
}

const Method* find_method(std::string_view name) {
  const std::vector<Method>& table = method_table();
  const auto it = std::find_if(table.begin(), table.end(), [&](const Method& m) { return m.name == name; });
  return it == table.end() ? nullptr : &*it;
}

}  // namespace plimsoll
