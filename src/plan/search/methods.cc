#include "plimsoll/methods.h"

#include <algorithm>

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
      {.name = "tf32",
       .words = {"--tf32", "True"},
       .kind = "precision",
       .effect = MethodEffect::kRounding,
       .not_on_cpu = "a CPU has no TF32",
       .help = "Products of fp32 matrices on tensor cores, operands rounded to 11 bits."},
      {.name = "sgd",
       .words = {"--optim", "sgd"},
       .kind = "optimizer",
       .effect = MethodEffect::kOtherPath,
       .help = "Gradient descent without states."},
  };
  return kMethods;
}

const Method* find_method(std::string_view name) {
  const std::vector<Method>& table = method_table();
  const auto it = std::find_if(table.begin(), table.end(), [&](const Method& m) { return m.name == name; });
  return it == table.end() ? nullptr : &*it;
}

}  // namespace plimsoll
