#include "run/stored_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/check.h"

namespace plimsoll {
namespace {

// Returns the first part of the names of the encoder's weights, such as "bert".
std::string_view own_prefix(const std::vector<WeightSpec>& specs) {
  const std::string_view first = specs.front().parts.front().disk_names.front();
  return first.substr(0, first.find('.'));
}

std::vector<std::vector<std::string>> names_of(const std::vector<WeightSpec>& specs, std::string_view prefix,
                                               bool (*is_wanted)(const WeightSpec&)) {
  std::vector<std::vector<std::string>> names;
  for (const WeightSpec& spec : specs) {
    if (!is_wanted(spec)) continue;
    for (const WeightPart& part : spec.parts) {
      names.push_back(part.disk_names);
      for (std::string& name : names.back()) name.insert(0, prefix);
    }
  }
  return names;
}

bool is_missing(const WeightSpec& spec, const WeightPart& part, const ModelFolder& folder,
                OtherShapes other_shapes) {
  for (const std::string& name : part.disk_names) {
    const StoredTensor* tensor = folder.find(name).tensor;
    if (tensor == nullptr) continue;
    std::vector<int64_t> shape = spec.shape;
    shape[0] = part.num_rows;
    return other_shapes == OtherShapes::kAreMissing && tensor->shape != shape;
  }
  return true;
}

// Returns the first few names in quotes, followed by "..." if there are more.
std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i)
    text += fmt::format("{}'{}'", i == 0 ? "" : ", ", names[i].substr(0, 100));
  return names.size() > kShown ? text + ", ..." : text;
}

// Returns the advice for a base model that lacks weights which its adapter does not contain either.
std::string remedy_for_adapter(const ModelFolder& adapter, const std::vector<std::string>& missing) {
  std::vector<std::string> modules;
  for (const std::string& name : missing) {
    std::string module = name.substr(0, name.rfind('.'));
    if (std::ranges::find(modules, module) == modules.end()) modules.push_back(std::move(module));
  }
  return fmt::format(
      "The adapter {} does not contain them either, so the results would be those of random numbers. Give "
      "the "
      "base model that contains them, or, if they were initialised at random when the adapter was trained, "
      "train it again with {} in its modules_to_save",
      adapter.path(), some_of(modules));
}

std::string remedy(RunPurpose purpose, const std::string& folder) {
  if (purpose != RunPurpose::kTrain) {
    return "The results would be those of random numbers. Check that config.json belongs to these weights, "
           "or train "
           "the model first";
  }
  return fmt::format(
      "Training would start from random numbers. Check that config.json belongs to these weights, or train "
      "from "
      "scratch with --config_name {0} --tokenizer_name {0} instead of --model_name_or_path",
      folder);
}

}  // namespace

namespace {

// Some checkpoints store matrices transposed. Tells the folder to return them in the layout of the model.
void transpose_stored(ModelFolder& folder, const std::vector<WeightSpec>& specs, std::string_view prefix) {
  for (const auto& names : names_of(specs, prefix, [](const WeightSpec& spec) { return spec.transposed; }))
    folder.transpose(names);
}

}  // namespace

void unwrap_model_names(ModelFolder& folder, const std::vector<WeightSpec>& specs) {
  const auto names = names_of(specs, "", [](const WeightSpec& spec) { return spec.in_model; });
  folder.unwrap_names(names, own_prefix(specs));
  transpose_stored(folder, specs, "");
}

void unwrap_adapter_names(ModelFolder& adapter, const std::vector<WeightSpec>& specs,
                          const std::string& model_type, const LoraConfig& config) {
  std::vector<WeightSpec> adapted = specs;
  add_lora_weights(adapted, model_type, config);
  const auto names =
      names_of(adapted, kAdapterPrefix, [](const WeightSpec& spec) { return spec.in_adapter; });
  adapter.unwrap_names(names, own_prefix(specs));
  transpose_stored(adapter, adapted, kAdapterPrefix);
}

std::vector<std::string> missing_tensors(const std::vector<WeightSpec>& specs, const ModelFolder& folder,
                                         OtherShapes other_shapes) {
  std::vector<std::string> missing;
  for (const WeightSpec& spec : specs) {
    for (const WeightPart& part : spec.parts) {
      if (is_missing(spec, part, folder, other_shapes)) missing.push_back(part.disk_names.front());
    }
  }
  return missing;
}

void check_stored_weights(const std::vector<WeightSpec>& specs, const ModelFolder& folder, RunPurpose purpose,
                          OtherShapes other_shapes, const ModelFolder* adapter) {
  if (is_plan(purpose) || !folder.has_weights()) return;
  const std::vector<std::string> missing = missing_tensors(specs, folder, other_shapes);
  if (missing.empty()) return;
  const std::string encoder = std::string(own_prefix(specs)) + ".";
  int64_t wanted = 0;
  int64_t wanted_of_encoder = 0;
  for (const WeightSpec& spec : specs) {
    for (const WeightPart& part : spec.parts) {
      ++wanted;
      if (part.disk_names.front().starts_with(encoder)) ++wanted_of_encoder;
    }
  }
  const int64_t missing_of_encoder =
      std::ranges::count_if(missing, [&](const std::string& name) { return name.starts_with(encoder); });
  if (missing_of_encoder == wanted_of_encoder) {
    std::vector<std::string> stored;
    for (const std::string_view name : folder.stored_names()) stored.emplace_back(name);
    const int64_t fitting = wanted - std::ssize(missing);
    throw_error(ErrorCode::kBadData,
                "{}: {} of its {} tensors fit this model{}: the file has {}, the model needs {}. {}",
                folder.path(), fitting, folder.num_tensors(), fitting == 0 ? "" : ", and none of the encoder",
                some_of(stored), some_of(missing), remedy(purpose, folder.path()));
  }
  if (purpose == RunPurpose::kTrain) return;
  throw_error(ErrorCode::kBadData, "{}: {} of the {} tensors that this model needs are missing: {}. {}",
              folder.path(), missing.size(), wanted, some_of(missing),
              adapter != nullptr ? remedy_for_adapter(*adapter, missing) : remedy(purpose, folder.path()));
}

std::vector<std::string> new_modules(const std::vector<WeightSpec>& specs, const ModelFolder& folder,
                                     OtherShapes other_shapes) {
  std::vector<std::string> modules;
  for (const WeightSpec& spec : specs) {
    const bool is_new = std::ranges::any_of(
        spec.parts, [&](const WeightPart& part) { return is_missing(spec, part, folder, other_shapes); });
    if (!is_new) continue;
    // All parts of a fused weight are one matrix in memory and are trained together, so the modules of all parts are listed.
    for (const WeightPart& part : spec.parts) {
      const std::string& name = part.disk_names.front();
      std::string module = name.substr(0, name.rfind('.'));
      if (std::ranges::find(modules, module) == modules.end()) modules.push_back(std::move(module));
    }
  }
  return modules;
}

}  // namespace plimsoll
