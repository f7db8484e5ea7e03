#include "plimsoll/methods.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/optimizer_table.h"

namespace plimsoll {
namespace {

// Returns the training method that selects an optimizer, made from the optimizer's row in the optimizer table.
Method method_of(const OptimizerRow& row, const OptimizerMethod& selection) {
  // True for variants of the default optimizer AdamW, which differ only in how states are stored and rounded.
  const bool is_default = row.family == OptimizerKind::kAdamW;
  Method method{.name = selection.name,
                .words = {"--optim", selection.optim},
                .kind = "optimizer",
                .effect = is_default ? MethodEffect::kRounding : MethodEffect::kOtherPath,
                .help = selection.help};
  if (!selection.optim_args.empty()) {
    method.words.insert(method.words.end(), {"--optim_args", selection.optim_args});
  }
  if (std::ranges::find(row.paged_names, selection.optim) != row.paged_names.end()) {
    method.not_on_cpu = "optimizer states are already in host memory on a CPU";
  }
  return method;
}

std::vector<Method> methods_of_optimizers() {
  std::map<int, Method> by_position;
  for (const OptimizerRow& row : optimizer_rows()) {
    for (const OptimizerMethod& selection : row.methods) {
      const bool is_new = by_position.emplace(selection.position, method_of(row, selection)).second;
      PLIMSOLL_CHECK(is_new,
                     "each training method that selects an optimizer must have its own position, but two "
                     "have position {}",
                     selection.position);
    }
  }
  std::vector<Method> methods;
  methods.reserve(by_position.size());
  for (auto& [position, method] : by_position) methods.push_back(std::move(method));
  return methods;
}

std::vector<Method> make_method_table() {
  std::vector<Method> methods{
      {.name = "accumulation",
       .words = {"--gradient_accumulation_steps", "2"},
       .kind = "accumulation",
       .effect = MethodEffect::kSameSums,
       .not_in_fit = "fit itself splits the effective batch into micro-batches",
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
       .not_on_cpu = "Plimsoll cannot compute fp16 on a CPU",
       .help = "Computes in fp16 with fp32 master weights and a loss scale."},
      {.name = "tf32",
       .words = {"--tf32", "True"},
       .kind = "precision",
       .effect = MethodEffect::kRounding,
       .not_on_cpu = "a CPU has no TF32",
       .help = "Computes products of fp32 matrices on tensor cores, with operands rounded to 11 bits."},
      {.name = "tf32x3",
       .words = {"--matmul_precision", "tf32x3"},
       .kind = "precision",
       .effect = MethodEffect::kRounding,
       .not_on_cpu = "a CPU has no TF32",
       .help = "Computes products of fp32 matrices as three TF32 products, with about the error of fp32."},
      {.name = "pure_bf16",
       .words = {"--dtype", "bfloat16"},
       .kind = "precision",
       .effect = MethodEffect::kRounding,
       .keeps_master_weights = false,
       .help = "Stores weights in bf16 without fp32 master weights, and rounds updates stochastically."},
      {.name = "bf16_gradients",
       .words = {"--bf16", "--gradient_dtype", "bf16"},
       .kind = "precision",
       .effect = MethodEffect::kRounding,
       .not_on_cpu = "a gradient on a CPU has the type of its weight, which is fp32",
       .help = "The same as bf16, with gradients in bf16 even if micro-batches accumulate them."},
      {.name = "fp16_gradients",
       .words = {"--fp16", "--gradient_dtype", "fp16"},
       .kind = "precision",
       .effect = MethodEffect::kRounding,
       .not_on_cpu = "Plimsoll cannot compute fp16 on a CPU",
       .help = "The same as fp16, with gradients in fp16 even if micro-batches accumulate them."},
      {.name = "fp8",
       .words = {"--fp8"},
       .kind = "precision",
       .effect = MethodEffect::kRounding,
       .not_on_cpu = "Plimsoll cannot multiply fp8 on a CPU",
       .help = "The same as bf16, with matrix products of 8-bit numbers: needs compute capability 8.9."},
      {.name = "copies_at_use",
       .words = {"--weight_copies", "at_use"},
       .kind = "copies of weights",
       .effect = MethodEffect::kRounding,
       .not_on_cpu = "on a CPU matrix products round fp32 weights while they read them and need no copies",
       .help = "Makes 16-bit copies of fp32 weights before each matrix product: equal results in fp16."},
      {.name = "checkpointing",
       .words = {"--gradient_checkpointing", "True"},
       .kind = "recompute",
       .effect = MethodEffect::kRounding,
       .help = "Recomputes whole layers: equal results in fp32, one more rounding in 16 bits."},
      {.name = "selective",
       .words = {"--recompute", "selective"},
       .kind = "recompute",
       .effect = MethodEffect::kRounding,
       .not_in_fit = "recompute_budget is at least as fast within the given memory",
       .help = "Recomputes the values that free most memory for 4 % of the step: equal results in fp32."},
      {.name = "recompute_budget",
       .words = {"--recompute_budget", "8GiB"},
       .kind = "recompute",
       .effect = MethodEffect::kRounding,
       .help = "Recomputes as little as the memory allows: equal results in fp32."},
      {.name = "optimizer_in_backward",
       .words = {"--optimizer_in_backward", "True", "--max_grad_norm", "0"},
       .kind = "update",
       .effect = MethodEffect::kOtherPath,
       .help = "Updates each module as soon as its gradients are complete, without gradient clipping."},
      {.name = "chunked_loss",
       .words = {"--chunked_loss", "always"},
       .kind = "loss",
       .effect = MethodEffect::kSameSums,
       .help = "Computes training logits in chunks of rows: saves memory with thousands of labels."},
      {.name = "offload_optimizer",
       .words = {"--offload_optimizer"},
       .kind = "offloaded states",
       .effect = MethodEffect::kSameBits,
       .not_on_cpu = "optimizer states are already in host memory on a CPU",
       .help = "Stores optimizer states, and the parts of weights that only updates read, in pinned host "
               "memory."},
      {.name = "offload_activations",
       .words = {"--offload_activations"},
       .kind = "offloaded activations",
       .effect = MethodEffect::kSameBits,
       .not_on_cpu = "activations are already in host memory on a CPU",
       .help =
           "Stores values that are saved for the backward pass in pinned host memory between the passes."},
  };
  for (Method& method : methods_of_optimizers()) methods.push_back(std::move(method));
  const std::vector<Method> of_trained_part{
      {.name = "freeze",
       .words = {"--freeze", "*embeddings*"},
       .kind = "trained part",
       .effect = MethodEffect::kOtherPath,
       .help = "Does not train the embedding tables: they have no gradients and no states."},
      {.name = "lora",
       .words = {"--lora_r", "8", "--lora_target_modules", "all-linear"},
       .kind = "trained part",
       .effect = MethodEffect::kOtherPath,
       .help = "Trains two narrow matrices per linear module, and the classifier."},
      {.name = "qlora",
       .words = {"--lora_r", "8", "--lora_target_modules", "all-linear", "--load_in_4bit",
                 "--bnb_4bit_use_double_quant"},
       .kind = "trained part",
       .effect = MethodEffect::kOtherPath,
       .help = "The same as lora, with linear modules stored in 4 bits per weight."},
  };
  methods.insert(methods.end(), of_trained_part.begin(), of_trained_part.end());
  return methods;
}

}  // namespace

const std::vector<Method>& method_table() {
  static const std::vector<Method> kMethods = make_method_table();
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
