// Applies each method to a request, and returns the arguments that ask for it.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/units.h"
#include "optim/optimizers.h"
#include "plan/compile/graphs.h"
#include "plan/search/method_set.h"
#include "tasks/task.h"

namespace plimsoll {
namespace {

bool computes_in_f32(const PlanRequest& request) {
  return request.precision.dtype == DType::kF32 && !request.precision.activation_dtype;
}

// Returns true if the optimizer has no options of --optim_args, which another optimizer may not know.
bool has_plain_options(const OptimizerConfig& config) {
  OptimizerConfig plain{.kind = config.kind};
  plain.beta1 = config.beta1;
  plain.beta2 = config.beta2;
  plain.epsilon = config.epsilon;
  plain.weight_decay = config.weight_decay;
  plain.max_grad_norm = config.max_grad_norm;
  plain.noise_seed = config.noise_seed;
  plain.most_elements_at_once = config.most_elements_at_once;
  return config == plain;
}

bool use_optimizer(PlanRequest& request, OptimizerKind kind) {
  if (!has_plain_options(request.update.optimizer)) return false;
  if (request.update.optimizer.kind == kind) return false;
  request.update.optimizer.kind = kind;
  return true;
}

// Each function changes the request as the method's arguments would if they were added to the run's own. It
// returns false if that is refused or changes nothing.
bool use_bf16(PlanRequest& request) {
  if (!computes_in_f32(request) || !request.device.has_bf16()) return false;
  if (request.precision.fp32_products == Fp32Products::kTf32x3) return false;
  request.precision.activation_dtype = DType::kBF16;
  return true;
}

bool use_fp16(PlanRequest& request) {
  if (!computes_in_f32(request) || !(request.device.is_gpu() || request.device.reference_kernels))
    return false;
  if (request.precision.fp32_products == Fp32Products::kTf32x3 || request.update.in_backward) return false;
  request.precision.activation_dtype = DType::kF16;
  return true;
}

bool use_products(PlanRequest& request, Fp32Products products) {
  if (!computes_in_f32(request) || !request.device.has_tf32()) return false;
  if (request.precision.fp32_products != Fp32Products::kF32) return false;
  request.precision.fp32_products = products;
  return true;
}

bool use_tf32(PlanRequest& request) {
  return use_products(request, Fp32Products::kTf32);
}

bool use_tf32x3(PlanRequest& request) {
  return use_products(request, Fp32Products::kTf32x3);
}

bool use_pure_bf16(PlanRequest& request) {
  const bool in_bf16 = request.precision.activation_dtype.value_or(DType::kBF16) == DType::kBF16;
  if (request.precision.dtype != DType::kF32 || !in_bf16 || !request.device.has_bf16()) return false;
  if (request.precision.fp32_products == Fp32Products::kTf32x3) return false;
  request.precision.dtype = DType::kBF16;
  request.precision.activation_dtype = DType::kBF16;
  request.precision.fp32_products = Fp32Products::kF32;
  return true;
}

bool use_gradients(PlanRequest& request, DType dtype, bool (*use_half)(PlanRequest&)) {
  if (!request.device.is_gpu() || request.precision.gradient_dtype || request.precision.dtype != DType::kF32)
    return false;
  if (request.precision.activation_dtype != dtype && !use_half(request)) return false;
  request.precision.gradient_dtype = dtype;
  return true;
}

bool use_bf16_gradients(PlanRequest& request) {
  return use_gradients(request, DType::kBF16, use_bf16);
}

bool use_fp16_gradients(PlanRequest& request) {
  return use_gradients(request, DType::kF16, use_fp16);
}

bool use_copies_at_use(PlanRequest& request) {
  if (!request.device.is_gpu() || request.precision.copies_at_use || splits_weights(request)) return false;
  if (!request.precision.activation_dtype || request.precision.dtype != DType::kF32) return false;
  request.precision.copies_at_use = true;
  return true;
}

bool use_checkpointing(PlanRequest& request) {
  if (!request.passes.is_on("recompute") || !request.recompute.kept_of_block.empty()) return false;
  if (request.recompute.policy != RecomputePolicy::kCheap) return false;  // the run's arguments name a policy
  request.recompute.policy = RecomputePolicy::kFull;
  return true;
}

bool use_optimizer_in_backward(PlanRequest& request) {
  if (request.update.in_backward || request.precision.activation_dtype == DType::kF16) return false;
  request.update.in_backward = true;
  request.update.optimizer.max_grad_norm = 0.0;
  return true;
}

bool use_chunked_loss(PlanRequest& request) {
  if (!request.passes.is_on("chunked_loss") || !task_of(request.model.problem_type).has_chunked_loss)
    return false;
  if (request.chunked_loss == ChunkedLoss::kAlways) return false;
  request.chunked_loss = ChunkedLoss::kAlways;
  return true;
}

bool has_movable_states(const PlanRequest& request) {
  return request.precision.has_masters() || !optimizer_state_names(request.update.optimizer).empty();
}

bool use_offload_optimizer(PlanRequest& request) {
  if (!request.device.is_gpu() || request.update.offload_states || !has_movable_states(request)) return false;
  request.update.offload_states = true;
  return true;
}

bool use_offload_activations(PlanRequest& request) {
  if (!request.device.is_gpu() || request.offload.activations) return false;
  request.offload.activations = true;
  return true;
}

bool use_bf16_moments(PlanRequest& request) {
  const bool is_adamw = request.update.optimizer.kind == OptimizerKind::kAdamW;
  if (!has_plain_options(request.update.optimizer)) return false;
  if (!is_adamw && !use_optimizer(request, OptimizerKind::kAdamW)) return false;
  request.update.optimizer.momentum_dtype = request.update.optimizer.variance_dtype = DType::kBF16;
  return true;
}

bool use_adamw_8bit(PlanRequest& request) {
  return use_optimizer(request, OptimizerKind::kAdamW8Bit);
}

bool use_paged_adamw_8bit(PlanRequest& request) {
  return use_adamw_8bit(request) && use_offload_optimizer(request);
}

bool use_adafactor(PlanRequest& request) {
  return use_optimizer(request, OptimizerKind::kAdafactor);
}

bool use_lion(PlanRequest& request) {
  return use_optimizer(request, OptimizerKind::kLion);
}

bool use_lion_8bit(PlanRequest& request) {
  return use_optimizer(request, OptimizerKind::kLion8Bit);
}

bool use_adagrad(PlanRequest& request) {
  return use_optimizer(request, OptimizerKind::kAdagrad);
}

// Offloading stays requested with the new optimizer, which must have states to offload.
bool use_sgd(PlanRequest& request) {
  return use_optimizer(request, OptimizerKind::kSgd) &&
         (!request.update.offload_states || has_movable_states(request));
}

bool use_sgd_8bit(PlanRequest& request) {
  if (!use_optimizer(request, OptimizerKind::kSgd8Bit)) return false;
  request.update.optimizer.momentum = 0.9;
  return true;
}

bool use_adagrad_8bit(PlanRequest& request) {
  return use_optimizer(request, OptimizerKind::kAdagrad8Bit);
}

struct Use {
  std::string_view name;
  bool (*make)(PlanRequest&);
};

// In the order in which they are applied: each may depend on those before.
constexpr Use kUses[] = {{"bf16", use_bf16},
                         {"fp16", use_fp16},
                         {"tf32", use_tf32},
                         {"tf32x3", use_tf32x3},
                         {"pure_bf16", use_pure_bf16},
                         {"bf16_gradients", use_bf16_gradients},
                         {"fp16_gradients", use_fp16_gradients},
                         {"bf16_moments", use_bf16_moments},
                         {"adamw_8bit", use_adamw_8bit},
                         {"paged_adamw_8bit", use_paged_adamw_8bit},
                         {"adafactor", use_adafactor},
                         {"lion", use_lion},
                         {"lion_8bit", use_lion_8bit},
                         {"adagrad", use_adagrad},
                         {"sgd", use_sgd},
                         {"sgd_8bit", use_sgd_8bit},
                         {"adagrad_8bit", use_adagrad_8bit},
                         {"copies_at_use", use_copies_at_use},
                         {"checkpointing", use_checkpointing},
                         {"optimizer_in_backward", use_optimizer_in_backward},
                         {"chunked_loss", use_chunked_loss},
                         {"offload_optimizer", use_offload_optimizer},
                         {"offload_activations", use_offload_activations}};

// Returns the optimizer with the same update and states in fp32.
OptimizerKind family_of(OptimizerKind kind) {
  return optimizer_of_kind(kind).family;
}

Effect effect_of_optimizer(const MethodSet& set, const PlanRequest& request) {
  for (const Use& use : kUses) {
    if (!set.has(use.name) || find_method(use.name)->kind != "optimizer") continue;
    PlanRequest changed = request;
    if (!use.make(changed)) return Effect::kOtherModel;
    const bool is_alike =
        family_of(changed.update.optimizer.kind) == family_of(request.update.optimizer.kind) &&
        (changed.update.optimizer.momentum > 0) == (request.update.optimizer.momentum > 0);
    return is_alike ? Effect::kRounding : Effect::kOtherModel;
  }
  return Effect::kNone;
}

}  // namespace

std::optional<PlanRequest> with_methods(const PlanRequest& request, const MethodSet& set) {
  PlanRequest changed = request;
  for (const Use& use : kUses) {
    if (set.has(use.name) && !use.make(changed)) return std::nullopt;
  }
  return changed;
}

Effect effect_of(const MethodSet& set, const PlanRequest& request) {
  Effect effect = effect_of_optimizer(set, request);
  const auto at_least = [&](Effect least) { effect = std::max(effect, least); };
  for (const Method& method : method_table()) {
    if (!set.has(method) || method.kind == "optimizer") continue;
    if (method.effect == MethodEffect::kOtherPath &&
        !(method.name == "optimizer_in_backward" && request.update.optimizer.max_grad_norm == 0.0)) {
      at_least(Effect::kOtherModel);
    }
    if (method.effect != MethodEffect::kRounding) continue;
    // Recomputed values have the same bits in fp32, and so have copies in fp16.
    if (method.kind == "recompute" && !request.precision.activation_dtype) continue;
    if (method.kind == "copies of weights" && request.precision.activation_dtype != DType::kBF16) continue;
    at_least(Effect::kRounding);
  }
  return effect;
}

std::vector<std::string> words_of(const MethodSet& set, const PlanRequest& request, int64_t budget_bytes) {
  std::vector<std::string> words;
  for (const Method* method : set.methods()) {
    words.insert(words.end(), method->words.begin(), method->words.end());
    // The request already has this argument.
    if (method->name == "optimizer_in_backward" && request.update.optimizer.max_grad_norm == 0.0)
      words.resize(words.size() - 2);
    if (method->name == "recompute_budget") words.back() = fmt::format("{}MiB", budget_bytes / kMiB);
    // The request may offload states because of its optimizer's name; another name would bring them back.
    if (method->kind == "optimizer" && request.update.offload_states)
      words.emplace_back("--offload_optimizer");
  }
  return words;
}

}  // namespace plimsoll
