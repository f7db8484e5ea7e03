#include "train/weight_loading.h"

#include <algorithm>

#include "base/units.h"
#include "exec/quantized_weights.h"
#include "models/model.h"
#include "run/stored_weights.h"

namespace plimsoll {

namespace {

// Returns true if the weight is to be loaded from the model's folder and not from the adapter.
bool comes_from_model(const WeightSpec& spec, WeightsFrom from) {
  return spec.in_model && !(spec.in_adapter && from == WeightsFrom::kModelUnderAdapter);
}

}  // namespace

bool is_loaded(const WeightSpec& spec, const ModelFolder& folder, WeightsFrom from) {
  return comes_from_model(spec, from) && missing_tensors({spec}, folder, OtherShapes::kAreMissing).empty();
}

void read_stored(Executor& executor, const std::string& name, int64_t first_row, const SafetensorsFile& file,
                 const StoredTensor& tensor) {
  // Skips a tensor that belongs to another pipeline stage.
  if (executor.plan().is_pipelined() && !executor.plan().has_tensor(name)) return;
  const DType dtype = executor.plan().type_of(name).dtype;
  const int64_t rows = tensor.num_rows();
  int64_t width = 1;
  for (size_t i = 1; i < tensor.shape.size(); ++i) width *= tensor.shape[i];
  const int64_t row_bytes = width * dtype_bytes(dtype);
  const int64_t piece_rows = std::max<int64_t>(1, kPieceElements / std::max<int64_t>(1, width));
  std::vector<std::byte> bytes(static_cast<size_t>(std::min(rows, piece_rows) * row_bytes));
  for (int64_t row = 0; row < rows; row += piece_rows) {
    const int64_t count = std::min(piece_rows, rows - row);
    file.read_rows(tensor, {row, count}, {bytes.data(), dtype});
    executor.write(name, (first_row + row) * row_bytes,
                   std::span(bytes).first(static_cast<size_t>(count * row_bytes)));
  }
}

std::vector<WantedTensor> wanted_tensors(Executor& executor, std::string_view prefix,
                                         const std::function<bool(const WeightSpec&)>& is_wanted) {
  std::vector<WantedTensor> wanted;
  for (const WeightSpec& spec : executor.plan().weights) {
    if (!is_wanted(spec)) continue;
    for (const WeightPart& part : spec.parts) {
      std::vector<int64_t> shape = spec.shape;
      shape[0] = part.num_rows;
      std::vector<std::string> names = part.disk_names;
      for (std::string& name : names) name.insert(0, prefix);
      wanted.push_back(
          {.names = std::move(names),
           .shape = std::move(shape),
           .first_row = part.first_row,
           .read =
               [&executor, &spec, &part](const SafetensorsFile& file, const StoredTensor& tensor) {
                 if (is_quantized(executor.plan(), spec.name)) {
                   // Skips a tensor that belongs to another pipeline stage, so that this stage does not quantize it.
                   if (executor.plan().is_pipelined() && !executor.plan().has_tensor(spec.name)) return;
                   std::vector<float> values(static_cast<size_t>(tensor.num_elements()));
                   file.read(tensor, {values.data(), DType::kF32});
                   const auto index = static_cast<size_t>(&part - spec.parts.data());
                   return write_quantized(executor, spec, index, View{values.data(), DType::kF32});
                 }
                 read_stored(executor, spec.name, part.first_row, file, tensor);
               },
           .is_transposed = spec.transposed});
    }
  }
  return wanted;
}

LoadReport load_weights(Executor& executor, const ModelFolder& folder, OnShapeMismatch on_mismatch,
                        WeightsFrom from) {
  const auto wanted =
      wanted_tensors(executor, "", [&](const WeightSpec& spec) { return comes_from_model(spec, from); });
  LoadReport report =
      folder.load(wanted, {.on_mismatch = on_mismatch,
                           .ignored_suffixes = ignored_on_disk(executor.plan().request.model.config)});
  if (from == WeightsFrom::kModelUnderAdapter) {
    change_loaded_base(executor, folder);
    // A weight of the base model that the adapter replaces is not loaded, but it must not be reported as unused.
    const auto adapted =
        wanted_tensors(executor, "", [](const WeightSpec& spec) { return spec.in_model && spec.in_adapter; });
    std::erase_if(report.unused, [&](const std::string& name) {
      return std::any_of(adapted.begin(), adapted.end(), [&](const WantedTensor& tensor) {
        return std::find(tensor.names.begin(), tensor.names.end(), name) != tensor.names.end();
      });
    });
  }
  return report;
}

void load_saved(Executor& executor, const ModelFolder& folder) {
  if (executor.plan().request.model.lora) return load_adapter(executor, folder);
  load_weights(executor, folder, OnShapeMismatch::kFail);
}

std::string describe_missing_tensor(std::string_view name) {
  if (name.find(".lora_") != std::string_view::npos)
    return fmt::format(
        "the adapter was trained with another base model, or has other modules than its {} says; give the "
        "base model that it was trained on, or copy the adapter again",
        kAdapterConfigFile);
  return "this module is trained with the adapter, but the adapter was saved without it, as old versions of "
         "PEFT did, so its trained values are lost. Train the adapter again, or where "
         "it was trained save it again with this module in modules_to_save";
}

void refuse_unused_tensor(const ModelFolder& adapter, std::string_view name) {
  throw_error(
      ErrorCode::kBadData,
      "{}: the tensor '{}' belongs to no module of this model: the adapter was trained with another base "
      "model, or has other modules than its {} says; give the base model that it was trained on",
      adapter.path(), name, kAdapterConfigFile);
}

void load_adapter(Executor& executor, const ModelFolder& folder) {
  if (!folder.is_adapter()) {
    throw_error(ErrorCode::kBadData,
                "{}: the folder has no {}, so it is a complete model and not an adapter; give it as "
                "--model_name_or_path, or leave the settings of adapters out",
                folder.path(), kAdapterConfigFile);
  }
  const auto wanted =
      wanted_tensors(executor, kAdapterPrefix, [](const WeightSpec& spec) { return spec.in_adapter; });
  const LoadReport report =
      folder.load(wanted, {.on_mismatch = OnShapeMismatch::kTreatAsMissing, .ignored_suffixes = {}});
  if (!report.mismatched.empty()) {
    const ShapeMismatch& first = report.mismatched.front();
    // A whole matrix of an adapter belongs to its head, which has a row per label.
    const bool is_head =
        first.stored_name.find("lora_") == std::string::npos && !first.found.empty() &&
        !first.wanted.empty() &&
        std::equal(first.found.begin() + 1, first.found.end(), first.wanted.begin() + 1, first.wanted.end());
    if (is_head) {
      throw_error(
          ErrorCode::kBadData,
          "{}: the head of the adapter, '{}', was trained for {}, but the data of this run has {}; use data "
          "with the same labels, or begin a new adapter with --lora_r instead of --adapter_name_or_path",
          folder.path(), first.stored_name, counted(first.found[0], "label"), first.wanted[0]);
    }
    throw_error(
        ErrorCode::kBadData,
        "{}: the tensor '{}' has the shape {}, but this model needs {}: the adapter was trained with "
        "another base model, rank or number of labels; use those of that run (its {} names the base model "
        "and the rank, r)",
        folder.path(), first.stored_name, format_shape(first.found), format_shape(first.wanted),
        kAdapterConfigFile);
  }
  if (!report.missing.empty()) {
    throw_error(ErrorCode::kBadData, "{}: the tensor '{}' is missing: {}", folder.path(),
                report.missing.front(), describe_missing_tensor(report.missing.front()));
  }
  if (!report.unused.empty()) refuse_unused_tensor(folder, report.unused.front());
}

}  // namespace plimsoll
