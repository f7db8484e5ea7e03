#include "train/weight_loading.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "device/cpu/parallel.h"
#include "exec/quantized_weights.h"
#include "models/lora.h"
#include "models/model.h"

namespace plimsoll {
namespace {

// The largest number of base weights whose change by the initialisation of an adapter (PEFT's "pissa" or "olora") is computed at the same
// time. Eight are enough to use all threads of a small machine; more would require memory for many large matrices.
constexpr size_t kMostAtOnce = 8;

struct ChangedWeight {
  const LoraTarget* target = nullptr;
  const WeightSpec* spec = nullptr;
  size_t part = 0;  // index of the adapted module in spec->parts, the parts of a fused weight
  std::vector<double> values;
};

std::vector<double> read_finite(const ModelFolder::Located& stored) {
  std::vector<double> values(static_cast<size_t>(stored.tensor->num_elements()));
  stored.file->read(*stored.tensor, {values.data(), DType::kF64});
  if (std::ranges::all_of(values, [](double value) { return std::isfinite(value); })) return values;
  throw_error(ErrorCode::kBadData,
              "{}: the tensor '{}' has a number that is not finite, so the base of this adapter cannot be "
              "computed; get the base model again from its source",
              stored.file->path(), stored.tensor->name);
}

// Finds the weight, and its part if it is fused (such as query in a matrix of query, key and value), that an adapter changes. Requires: the
// model has the adapter's target module.
ChangedWeight find_part(const std::vector<WeightSpec>& specs, const LoraTarget& target) {
  for (const WeightSpec& spec : specs) {
    if (spec.name != target.weight) continue;
    for (size_t part = 0; part < spec.parts.size(); ++part) {
      if (spec.parts[part].first_row == target.first_row)
        return {.target = &target, .spec = &spec, .part = part, .values = {}};
    }
  }
  PLIMSOLL_CHECK(false,
                 "the model must have a fused weight '{}' with a part that begins at row {}, but has none",
                 target.weight, target.first_row);
}

ModelFolder::Located find_stored(const ModelFolder& folder, const WeightPart& part) {
  for (const std::string& name : part.disk_names) {
    if (const auto stored = folder.find(name); stored.tensor != nullptr) return stored;
  }
  return {};
}

// Returns the values of a loaded quantized weight, decoded in the same way as in matrix products.
std::vector<double> read_decoded(Executor& executor, const ChangedWeight& weight) {
  std::vector<float> decoded(static_cast<size_t>(weight.target->out * weight.target->in));
  read_quantized(executor, *weight.spec, weight.part, {decoded.data(), DType::kF32});
  return {decoded.begin(), decoded.end()};
}

void write_rows(Executor& executor, const ChangedWeight& weight) {
  const LoraTarget& target = *weight.target;
  if (is_quantized(executor.plan(), target.weight)) {
    std::vector<float> values(weight.values.size());
    std::ranges::transform(weight.values, values.begin(),
                           [](double value) { return static_cast<float>(value); });
    return write_quantized(executor, *weight.spec, weight.part, View{values.data(), DType::kF32});
  }
  const DType dtype = executor.plan().type_of(target.weight).dtype;
  std::vector<std::byte> bytes(weight.values.size() * static_cast<size_t>(dtype_bytes(dtype)));
  const View view{bytes.data(), dtype};
  for (size_t i = 0; i < weight.values.size(); ++i) view.store(static_cast<int64_t>(i), weight.values[i]);
  executor.write(target.weight, target.first_row * target.in * dtype_bytes(dtype), bytes);
}

}  // namespace

std::vector<double> read_changed_base(const ModelFolder::Located& stored, const LoraConfig& config) {
  if (config.base_change == BaseChange::kNone) {
    std::vector<double> values(static_cast<size_t>(stored.tensor->num_elements()));
    stored.file->read(*stored.tensor, {values.data(), DType::kF64});
    return values;
  }
  std::vector<double> values = read_finite(stored);
  change_base(values, stored.tensor->shape[0], stored.tensor->shape[1], config);
  return values;
}

void change_loaded_base(Executor& executor, const ModelFolder& folder) {
  const ModelOptions& model = executor.plan().request.model;
  if (!model.lora || model.lora->base_change == BaseChange::kNone) return;
  const std::vector<WeightSpec> specs = model_weights(model.config);
  const std::vector<LoraTarget> targets = lora_targets(specs, model.config.model_type, *model.lora);
  const size_t at_once = std::min<size_t>(kMostAtOnce, static_cast<size_t>(num_threads()));
  std::vector<ChangedWeight> changed;
  const auto flush = [&] {
    parallel_for(std::ssize(changed), [&](int64_t i, int /*thread*/) {
      ChangedWeight& weight = changed[static_cast<size_t>(i)];
      change_base(weight.values, weight.target->out, weight.target->in, *model.lora);
    });
    for (const ChangedWeight& weight : changed) write_rows(executor, weight);
    changed.clear();
  };
  for (const LoraTarget& target : targets) {
    ChangedWeight weight = find_part(specs, target);
    const ModelFolder::Located stored = find_stored(folder, weight.spec->parts[weight.part]);
    // Skips a weight that the base model's files do not contain, or contain with another shape. Such a weight was initialised randomly, so
    // it has no loaded values that the adapter's initialisation could change.
    if (stored.tensor == nullptr || stored.tensor->shape != std::vector<int64_t>{target.out, target.in})
      continue;
    weight.values = read_finite(stored);
    // Like PEFT, computes the change from the decoded base weights and quantizes the result again.
    if (is_quantized(executor.plan(), target.weight)) weight.values = read_decoded(executor, weight);
    changed.push_back(std::move(weight));
    if (changed.size() == at_once) flush();
  }
  flush();
}

}  // namespace plimsoll
