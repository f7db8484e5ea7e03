#include "plimsoll/export.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/file.h"
#include "base/units.h"
#include "io/gguf/gguf_file.h"
#include "io/hub/hub_cache.h"
#include "run/gguf_export.h"

namespace plimsoll {
namespace {

void check_output_file(FileSystem& files, const ExportOptions& options) {
  const auto status = files.status(options.gguf);
  if (!status) {
    const std::string folder = parent_folder(options.gguf);
    const auto parent = files.status(folder);
    if (parent && parent->kind == FileKind::kFolder) return;
    throw_error(ErrorCode::kUsage,
                "--gguf {}: the folder {} does not exist; create it, or choose another one", options.gguf,
                folder);
  }
  if (status->kind == FileKind::kFolder) {
    throw_error(ErrorCode::kUsage, "--gguf {}: it is a folder; give the name of a file, such as {}",
                options.gguf, join_path(options.gguf, "model.gguf"));
  }
  if (!is_gguf_file(files, options.gguf)) {
    throw_error(ErrorCode::kUsage, "--gguf {}: the file exists and is no GGUF file; choose another name",
                options.gguf);
  }
  if (options.overwrite) return;
  throw_error(ErrorCode::kUsage,
              "--gguf {}: the file exists; choose another name, or replace it with --overwrite",
              options.gguf);
}

}  // namespace

ExportResult export_model(const ExportOptions& options, const Environment& environment) {
  if (options.model.empty()) throw_error(ErrorCode::kUsage, "export: give --model_name_or_path FOLDER");
  if (options.gguf.empty()) throw_error(ErrorCode::kUsage, "export: give --gguf FILE");
  FileSystem& files = posix_file_system();
  ModelFolder folder =
      ModelFolder::open(files, resolve_model_folder(files, hub_environment(environment), options.model));
  if (folder.is_adapter()) {
    throw_error(
        ErrorCode::kUsage,
        "{}: it is an adapter, and a GGUF file contains a complete model; merge it first: plimsoll merge "
        "--adapter {} --output_dir MERGED",
        options.model, options.model);
  }
  check_output_file(files, options);
  std::string path = options.model;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const std::string name = file_name(path);
  GgufReport report =
      export_gguf(files, std::move(folder), {.out_type = options.outtype, .name = name}, options.gguf);
  return {.line = fmt::format("{}: {} of {}, {} in {}", options.gguf, counted(report.num_tensors, "tensor"),
                              options.model, counted(report.size_bytes, "byte"), report.type_name),
          .type = std::string(report.type_name),
          .num_tensors = static_cast<int64_t>(report.num_tensors),
          .size_bytes = report.size_bytes,
          .notes = std::move(report.notes)};
}

}  // namespace plimsoll
