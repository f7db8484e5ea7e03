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
      {.name = "checkpointing",
       .words = {"--gradient_checkpointing", "True"},
       .kind = "recompute",
       .effect = MethodEffect::kRounding,
       .help = "Computes whole layers again: the same bits in fp32, a rounding more in 16 bits."},
      {.name = "selective",
       .words = {"--recompute", "selective"},
       .kind = "recompute",
       .effect = MethodEffect::kRounding,
       .help = "Computes attention again, beside what is cheap: the same bits in fp32."},
      {.name = "optimizer_in_backward",
       .words = {"--optimizer_in_backward", "True", "--max_grad_norm", "0"},
       .kind = "accumulation",
       .effect = MethodEffect::kOtherPath,
       .help = "Updates each module as soon as its gradients are there; without clipping."},
      {.name = "sgd",
       .words = {"--optim", "sgd"},
       .kind = "optimizer",
       .effect = MethodEffect::kOtherPath,
       .help = "Gradient descent without states."},
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
