#include "train/adapter_loading.h"

#include "train/weight_loading.h"

namespace plimsoll {

std::string describe_missing_tensor(std::string_view name) {
  if (name.find(".lora_") != std::string_view::npos)
    return fmt::format("the adapter is of another base model or has other modules than its {} says",
                       kAdapterConfigFile);
  return "this module is trained and saved with the adapter, but the adapter was saved without it, as by old "
         "versions of "
         "PEFT, whose random values are lost with the run. Train the adapter again, or where it was trained "
         "save it with "
         "this module in modules_to_save";
}

void load_adapter(Executor& executor, const ModelFolder& folder) {
  if (!folder.is_adapter()) {
    throw_error(ErrorCode::kBadData,
                "{}: it has no {}: it is a complete model, not an adapter; give it as --model_name_or_path, "
                "or leave the settings of adapters out",
                folder.path(), kAdapterConfigFile);
  }
  const auto wanted =
      wanted_tensors(executor, kAdapterPrefix, [](const WeightSpec& spec) { return spec.in_adapter; });
  const LoadReport report =
      folder.load(wanted, {.on_mismatch = OnShapeMismatch::kTreatAsMissing, .ignored_suffixes = {}});
  if (!report.mismatched.empty()) {
    const ShapeMismatch& first = report.mismatched.front();
    throw_error(ErrorCode::kBadData,
                "{}: the tensor '{}' has the shape {}, this model needs {}: the adapter is of another base "
                "model, rank or number of labels; use the base that its {} names",
                folder.path(), first.stored_name, format_shape(first.found), format_shape(first.wanted),
                kAdapterConfigFile);
  }
  if (!report.missing.empty()) {
    throw_error(ErrorCode::kBadData, "{}: the tensor '{}' is missing: {}", folder.path(),
                report.missing.front(), describe_missing_tensor(report.missing.front()));
  }
  if (!report.unused.empty()) {
    throw_error(
        ErrorCode::kBadData,
        "{}: the tensor '{}' belongs to no module of this model: the adapter is of another base model or has "
        "other modules than its {} says",
        folder.path(), report.unused.front(), kAdapterConfigFile);
  }
}

}  // namespace plimsoll
