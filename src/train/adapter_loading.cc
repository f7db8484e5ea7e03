#include "train/adapter_loading.h"

#include "train/weight_loading.h"

namespace plimsoll {

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
  if (!report.missing.empty() || !report.unused.empty()) {
    const bool lacks = !report.missing.empty();
    throw_error(
        ErrorCode::kBadData,
        "{}: the tensor '{}' {}: the adapter is of another base model or has other modules than its {} says",
        folder.path(), lacks ? report.missing.front() : report.unused.front(),
        lacks ? "is missing" : "belongs to no module of this model", kAdapterConfigFile);
  }
}

}  // namespace plimsoll
