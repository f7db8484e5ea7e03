#include "plan/search/method_space.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "optim/optimizers.h"
#include "plan/compile/graphs.h"

namespace plimsoll {
namespace {

bool is_saver(const Method& method) {
  for (const std::string_view kind :
       {"copies of weights", "recompute", "update", "loss", "offloaded states", "offloaded activations"}) {
    if (method.kind == kind) return true;
  }
  return false;
}

bool can_choose_budget(const RunSpec& run, const PlanRequest& own) {
  return recompute_chosen(run) == RecomputeChosen::kByPolicy && own.memory_limit_bytes.value_or(0) >= kMiB &&
         own.passes.is_on("recompute") && own.recompute == RecomputeChoice();
}

const Method* part_of(const MethodSet& set) {
  const std::vector<const Method*> part = set.only_kind("trained part").methods();
  return part.empty() ? nullptr : part.front();
}

// Returns the run without gradient accumulation, because the search itself decides how to split the effective batch.
RunSpec without_accumulation(RunSpec run) {
  run.arguments.gradient_accumulation_steps = 1;
  return run;
}

}  // namespace

bool applies_to(const Method& method, const DeviceOptions& device) {
  return device.is_gpu() || method.not_on_cpu.empty();
}

std::string reason_of(const std::string& message) {
  std::string reason = message.substr(0, message.find('\n'));
  const size_t colon = reason.find(": ");
  if (reason.starts_with("--") && colon != std::string::npos) reason.erase(0, colon + 2);
  return reason;
}

UsableMethods usable_methods(const RunSpec& run, Effect most) {
  UsableMethods found{.scope = {.most = most}};
  const PlanRequest own = request_of(run);
  for (const Method& method : method_table()) {
    if (!method.not_in_fit.empty()) continue;
    const MethodSet alone = MethodSet().with(method);
    if (effect_of(alone, own) > most) continue;
    // A method that changes nothing on this device, such as tf32 on a CPU, is skipped: with it, the search would list a run twice.
    if (!applies_to(method, own.device)) continue;
    if (method.name == "recompute_budget" && own.memory_limit_bytes.value_or(0) < kMiB) continue;
    try {
      static_cast<void>(request_of(with_methods(run, alone)));
      found.scope.methods.push_back(&method);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUsage) throw;
      found.refused.emplace_back(&method, reason_of(error.what()));
    }
  }
  return found;
}

bool has_many_logits(const PlanRequest& request, int64_t sequences) {
  const Bucket bucket{.tokens = sequences * request.batches.train.longest,
                      .sequences = sequences,
                      .longest = request.batches.train.longest};
  return num_predictions(request, bucket) * request.model.config.num_outputs() * dtype_bytes(DType::kF32) >=
         kMiB;
}

MethodSpace::MethodSpace(RunSpec run, MethodScope scope, int64_t most_sequences, int64_t most_accumulation)
    : run_(without_accumulation(std::move(run))), own_(request_of(run_)), scope_(std::move(scope)) {
  std::vector<const Method*> precisions{nullptr};
  std::vector<const Method*> others{nullptr};
  for (const Method* method : scope_.methods) {
    if (method->kind == "precision") {
      if (most_accumulation == 1 && method->name.ends_with("_gradients")) continue;
      precisions.push_back(method);
    } else if (method->kind == "optimizer" || method->kind == "trained part") {
      // paged_adamw_8bit is skipped, because it equals the combination of 8-bit AdamW and states in host memory.
      if (method->name != "paged_adamw_8bit") others.push_back(method);
    } else if (is_saver(*method)) {
      if (method->kind == "loss" && !has_many_logits(own_, most_sequences)) continue;
      if (method->name == "recompute_budget") {
        if (can_choose_budget(run_, own_)) budget_ = method;
        continue;
      }
      savers_.push_back(method);
    }
  }
  const auto count = [&](const Method* part, PlanRequest request) {
    request.evaluate = false;
    request.passes.dump = nullptr;
    Elements& elements = elements_[part];
    try {
      for (const WeightSpec& spec : begin_graphs(request).weights)
        (spec.trainable ? elements.trained : elements.frozen) += spec.elements();
    } catch (const Error& error) {
      // A set whose arguments are refused is reported when it is planned. Until then its lower bound is zero.
      if (error.code() != ErrorCode::kUsage) throw;
    }
  };
  count(nullptr, own_);
  base_sets_.emplace_back();
  for (const Method* other : others) {
    const MethodSet alone = other == nullptr ? MethodSet() : MethodSet().with(*other);
    const bool is_part = other != nullptr && other->kind == "trained part";
    std::optional<PlanRequest> of_other = other == nullptr ? own_ : changed_request(run_, alone);
    if (is_part && of_other) count(other, *of_other);
    if (other != nullptr && of_other && effect(alone) <= scope_.most) base_sets_.push_back(alone);
    for (const Method* precision : precisions) {
      if (precision == nullptr) continue;
      const MethodSet set = alone.with(*precision);
      // Offloading may be refused for an optimizer without states, but accepted together with a precision that adds master weights to be
      // offloaded.
      if (can_be_asked(set, of_other.value_or(own_))) base_sets_.push_back(set);
    }
  }
}

const MethodSpace::Elements& MethodSpace::elements_of(const MethodSet& set) const {
  const auto it = elements_.find(part_of(set));
  return it != elements_.end() ? it->second : elements_.at(nullptr);
}

bool MethodSpace::can_be_asked(const MethodSet& set, const PlanRequest& without) const {
  if (effect(set) > scope_.most) return false;
  const std::optional<RunSpec> run = try_methods(run_, set);
  if (!run) return false;
  const PlanRequest request = request_of(*run);
  // A recomputation budget trades memory of the device for time. Offloading moves the same values to host memory, so the two are not
  // combined.
  if (recompute_chosen(*run) == RecomputeChosen::kByBudget && request.offload.activations) return false;
  return !(request == without);
}

std::optional<MethodSet> MethodSpace::with_budget(const MethodSet& set) const {
  if (budget_ == nullptr || !set.has("checkpointing")) return std::nullopt;
  const PlanRequest request = request_of(run_with(set));
  if (request.update.offload_states || request.offload.activations) return std::nullopt;
  return set.without_kind(budget_->kind).with(*budget_);
}

RunSpec MethodSpace::run_with(const MethodSet& set) const {
  return with_methods(run_, set);
}

std::vector<MethodSet> MethodSpace::with_one_more(const MethodSet& set) const {
  std::vector<MethodSet> sets;
  const PlanRequest without = request_of(run_with(set));
  for (const Method* method : savers_) {
    if (set.has_kind(method->kind)) continue;
    const MethodSet more = set.with(*method);
    if (can_be_asked(more, without)) sets.push_back(more);
  }
  return sets;
}

std::vector<MethodSet> MethodSpace::all_fixed() const {
  std::vector<MethodSet> sets = base_sets_;
  std::set<MethodSet> seen(sets.begin(), sets.end());
  for (size_t i = 0; i < sets.size(); ++i) {
    for (const MethodSet& more : with_one_more(sets[i])) {
      if (seen.insert(more).second) sets.push_back(more);
    }
  }
  return sets;
}

std::vector<const Method*> MethodSpace::methods() const {
  std::vector<const Method*> methods;
  for (const Method& method : method_table()) {
    const bool is_saver_here = &method == budget_ || std::ranges::find(savers_, &method) != savers_.end();
    const bool is_paged = method.name == "paged_adamw_8bit" &&
                          std::ranges::find(scope_.methods, &method) != scope_.methods.end();
    const bool is_in_base_set =
        std::ranges::any_of(base_sets_, [&](const MethodSet& set) { return set.has(method); });
    if (is_saver_here || is_paged || is_in_base_set) methods.push_back(&method);
  }
  return methods;
}

int64_t MethodSpace::least_bytes(const MethodSet& set, int64_t accumulation) const {
  const PlanRequest request = request_of(run_with(set));
  const Elements& elements = elements_of(set);
  const auto trained = static_cast<double>(elements.trained);
  const auto frozen = static_cast<double>(elements.frozen);
  const bool is_on_gpu = request.device.kind == KernelDevice::kCuda;
  const auto whole = static_cast<double>(dtype_bytes(request.precision.dtype));
  // Matrix products on a CPU round fp32 weights while they read them; on a GPU they read 16-bit copies.
  const bool in_16_bits =
      request.precision.dtype == DType::kBF16 || (is_on_gpu && request.precision.activation_dtype);
  const double trained_bytes = in_16_bits && request.update.offload_states ? 2 : whole;
  const bool is_quantized = request.model.lora && request.model.lora->base_weights != BaseWeights::kAsLoaded;
  const double frozen_bytes = is_quantized ? 0.5 : request.precision.activation_dtype ? 2 : whole;
  const OptimizerConfig& optimizer = request.update.optimizer;
  const double state_bytes =
      request.update.offload_states ? 0 : static_cast<double>(least_state_bytes(optimizer));
  double gradient_bytes = 0;
  if (!request.update.in_backward) {
    const bool adds_in_f32 =
        accumulation > 1 && !request.precision.gradient_dtype && request.precision.dtype == DType::kF32;
    gradient_bytes = in_16_bits && !adds_in_f32 ? 2 : whole;
  }
  const double arena = trained * (trained_bytes + state_bytes + gradient_bytes) + frozen * frozen_bytes;
  const int64_t beside =
      is_on_gpu ? request.device.gpu.constant_bytes : request.host.process_bytes + request.host.io_bytes;
  return static_cast<int64_t>(arena) + beside;
}

}  // namespace plimsoll
