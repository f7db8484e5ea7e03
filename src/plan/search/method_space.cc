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

bool can_choose_budget(const FitSubject& subject) {
  const PlanRequest& request = subject.request;
  return subject.recompute == RecomputeChosen::kByPolicy && request.memory_limit_bytes &&
         *request.memory_limit_bytes >= kMiB && request.passes.is_on("recompute") &&
         request.recompute.policy == RecomputePolicy::kCheap && request.recompute.kept_of_block.empty();
}

}  // namespace

bool has_many_logits(const PlanRequest& request, int64_t sequences) {
  return sequences * request.model.config.num_labels * dtype_bytes(DType::kF32) >= kMiB;
}

MethodSpace::MethodSpace(FitSubject subject, MethodScope scope, int64_t most_sequences,
                         int64_t most_accumulation)
    : subject_(std::move(subject)), scope_(std::move(scope)) {
  const PlanRequest& request = subject_.request;
  PLIMSOLL_CHECK(request.train, "methods of training for a plan that does not train");
  std::vector<const Method*> precisions{nullptr};
  std::vector<const Method*> others{nullptr};
  for (const Method* method : scope_.methods) {
    if (method->kind == "precision") {
      if (most_accumulation == 1 && method->name.ends_with("_gradients")) continue;
      precisions.push_back(method);
    } else if (method->kind == "optimizer") {
      // This method equals 8-bit AdamW with states in host memory.
      if (method->name != "paged_adamw_8bit") others.push_back(method);
    } else if (is_saver(*method)) {
      if (method->kind == "loss" && !has_many_logits(request, most_sequences)) continue;
      if (method->name == "recompute_budget") {
        if (can_choose_budget(subject_)) budget_ = method;
        continue;
      }
      savers_.push_back(method);
    }
  }
  PlanRequest plain = request;
  plain.evaluate = false;
  plain.passes.dump = nullptr;
  const auto count = [&](const PlanRequest& of) {
    Elements elements;
    try {
      for (const WeightSpec& spec : begin_graphs(of).weights)
        (spec.trainable ? elements.trained : elements.frozen) += spec.elements();
    } catch (const Error& error) {
      // The error is reported when the set is planned. Zero is a valid lower bound.
      if (error.code() != ErrorCode::kUsage) throw;
    }
    elements_.push_back(elements);
  };
  count(plain);
  for (const TrainedPart& part : scope_.trained_parts) {
    others.push_back(part.method);
    plain.model.freeze = part.request.model.freeze;
    plain.model.lora = part.request.model.lora;
    count(plain);
  }
  for (const Method* other : others) {
    for (const Method* precision : precisions) {
      MethodSet set;
      if (precision != nullptr) set = set.with(*precision);
      if (other != nullptr) set = set.with(*other);
      if (can_be_asked(set)) base_sets_.push_back(set);
    }
  }
}

const TrainedPart* MethodSpace::part_of(const MethodSet& set) const {
  for (const TrainedPart& part : scope_.trained_parts) {
    if (set.has(*part.method)) return &part;
  }
  return nullptr;
}

std::optional<PlanRequest> MethodSpace::made(const MethodSet& set) const {
  const TrainedPart* part = part_of(set);
  if (part == nullptr) return with_methods(subject_.request, set);
  PlanRequest request = subject_.request;
  request.model.freeze = part->request.model.freeze;
  request.model.lora = part->request.model.lora;
  request.host = part->request.host;
  return with_methods(request, set);
}

bool MethodSpace::can_be_asked(const MethodSet& set) const {
  if (effect(set) > scope_.most) return false;
  const std::optional<PlanRequest> request = made(set);
  // A budget weighs the bytes that the device holds against the time of recomputing them, and offloading
  // removes these bytes from the device.
  return request && (recompute_of(set) != RecomputeChosen::kByBudget || !request->offload.activations);
}

std::optional<MethodSet> MethodSpace::with_budget(const MethodSet& set) const {
  if (budget_ == nullptr || !set.has("checkpointing")) return std::nullopt;
  const PlanRequest request = request_of(set);
  if (request.update.offload_states || request.offload.activations) return std::nullopt;
  return set.without_kind(budget_->kind).with(*budget_);
}

PlanRequest MethodSpace::request_of(const MethodSet& set) const {
  std::optional<PlanRequest> request = made(set);
  PLIMSOLL_CHECK(request.has_value(), "{} cannot be requested", set.text());
  return std::move(*request);
}

RecomputeChosen MethodSpace::recompute_of(const MethodSet& set) const {
  return set.has("recompute_budget") ? RecomputeChosen::kByBudget : subject_.recompute;
}

int64_t MethodSpace::budget_bytes(const MethodSet& set) const {
  if (!set.has("recompute_budget")) return subject_.budget_bytes;
  return *subject_.request.memory_limit_bytes / kMiB * kMiB;
}

std::vector<MethodSet> MethodSpace::with_one_more(const MethodSet& set) const {
  std::vector<MethodSet> sets;
  for (const Method* method : savers_) {
    if (set.has_kind(method->kind)) continue;
    const MethodSet more = set.with(*method);
    if (can_be_asked(more)) sets.push_back(more);
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
  const PlanRequest request = request_of(set);
  const TrainedPart* part = part_of(set);
  const size_t place = part == nullptr ? 0 : 1 + static_cast<size_t>(part - scope_.trained_parts.data());
  const auto trained = static_cast<double>(elements_[place].trained);
  const auto frozen = static_cast<double>(elements_[place].frozen);
  const bool is_on_gpu = request.device.kind == KernelDevice::kCuda;
  const auto whole = static_cast<double>(dtype_bytes(request.precision.dtype));
  // A CPU's products round fp32 weights while they read them; a GPU's products read them in 16 bits.
  const bool in_16_bits =
      request.precision.dtype == DType::kBF16 || (is_on_gpu && request.precision.activation_dtype);
  const double trained_bytes = in_16_bits && request.update.offload_states ? 2 : whole;
  const bool is_quantized = request.model.lora && request.model.lora->base_weights != BaseWeights::kAsLoaded;
  const double frozen_bytes = is_quantized ? 0.5 : request.precision.activation_dtype ? 2 : whole;
  const OptimizerConfig& optimizer = request.update.optimizer;
  const double state_bytes =
      request.update.offload_states
          ? 0
          : static_cast<double>(optimizer_of_kind(optimizer.kind).least_state_bytes(optimizer));
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
