#include "plimsoll/merge.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/units.h"
#include "io/hub/hub_cache.h"
#include "models/lora.h"
#include "run/stored_weights.h"
#include "train/merge_adapter.h"

namespace plimsoll {
namespace {

// Throws if `output` is the folder from which `what` is read, because the merged model would replace its weights.
void refuse_same_folder(const std::string& output, const std::string& read, std::string_view what) {
  std::error_code ignored;
  if (!std::filesystem::equivalent(output, read, ignored)) return;
  throw_error(ErrorCode::kUsage,
              "--output_dir {}: it is the folder of {}, which would be lost; choose another folder for the "
              "merged model",
              output, what);
}

// Throws if the output folder contains a model. Called unless the user permits the replacement of an existing model.
void refuse_other_model(const std::string& output) {
  std::error_code error;
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(output, error)) {
    const std::string name = entry.path().filename().string();
    if (name != kConfigFile && name != kAdapterConfigFile && entry.path().extension() != ".safetensors")
      continue;
    throw_error(ErrorCode::kUsage,
                "--output_dir {}: it already contains a model ({}), which would be lost; choose another "
                "folder for the merged model, or replace the old one with --overwrite_output_dir",
                output, name);
  }
}

}  // namespace

MergeResult merge_adapter(const MergeOptions& options, const Environment& environment) {
  if (options.adapter.empty()) throw_error(ErrorCode::kUsage, "merge: give --adapter FOLDER");
  if (options.output_dir.empty()) throw_error(ErrorCode::kUsage, "merge: give --output_dir FOLDER");
  FileSystem& files = posix_file_system();
  const HubEnvironment hub = hub_environment(environment);
  const FolderArgument argument{.name = "--adapter", .holds = kAdapterArgument.holds};
  ModelFolder adapter =
      ModelFolder::open(files, resolve_model_folder(files, hub, options.adapter, "main", argument));
  if (!adapter.is_adapter()) {
    throw_error(ErrorCode::kBadData,
                "{}: it has no {}, so it is a complete model already and there is nothing to merge",
                options.adapter, kAdapterConfigFile);
  }
  std::string base_name = options.base;
  if (base_name.empty()) {
    base_name =
        parse_adapter_config(adapter.adapter_config_text(), join_path(adapter.path(), kAdapterConfigFile))
            .base_model;
  }
  if (base_name.empty()) {
    throw_error(ErrorCode::kUsage,
                "{}: the adapter does not name its base model: give --model_name_or_path BASE",
                options.adapter);
  }
  ModelFolder base = ModelFolder::open(files, resolve_model_folder(files, hub, base_name));
  if (base.is_adapter()) {
    throw_error(ErrorCode::kBadData, "{}: it is an adapter; the base must be a complete model", base_name);
  }
  check_output_dir(options.output_dir);
  refuse_same_folder(options.output_dir, adapter.path(), "the adapter");
  refuse_same_folder(options.output_dir, base.path(), "the base model");
  if (!options.overwrite_output_dir) refuse_other_model(options.output_dir);
  const MergeReport report = merge_adapter(files, std::move(base), std::move(adapter), options.output_dir);
  std::string line =
      fmt::format("{}: {} with {} merged and {} copied from the adapter", options.output_dir, base_name,
                  counted(report.num_merged, "adapted module"), counted(report.num_saved, "tensor"));
  return {.line = std::move(line),
          .base = std::move(base_name),
          .num_merged = static_cast<int64_t>(report.num_merged),
          .num_copied = static_cast<int64_t>(report.num_saved)};
}

}  // namespace plimsoll
