#include "io/ckpt/manifest.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "io/ckpt/json_text.h"

namespace plimsoll::internal {
namespace {

constexpr int64_t kMaxManifestBytes = 64 * 1024 * 1024;

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw_error(ErrorCode::kBadData, "{}: {}; the checkpoint is damaged", file, why);
}

int64_t whole_number(const nlohmann::json& object, const char* key, const std::string& file) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned())
    refuse(file, fmt::format("it has no number '{}'", key));
  return narrow<int64_t>(std::min(found->get<uint64_t>(), uint64_t{INT64_MAX}));
}

const std::string& text_member(const nlohmann::json& object, const char* key, const std::string& file) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) refuse(file, fmt::format("it has no text '{}'", key));
  return found->get_ref<const std::string&>();
}

WrittenFile parse_entry(const nlohmann::json& entry, const std::string& file) {
  if (!entry.is_object()) refuse(file, "'files' contains a value that is not an object");
  WrittenFile listed;
  listed.name = text_member(entry, "name", file);
  if (listed.name.empty() || listed.name == ".." ||
      listed.name.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
    refuse(file, fmt::format("it lists {}, which is not a plain file name", quoted_name(listed.name)));
  }
  listed.size_bytes = whole_number(entry, "bytes", file);
  const auto hash = parse_hash128(text_member(entry, "xxh3_128", file));
  if (!hash)
    refuse(file, fmt::format("the hash of {} is not 32 hexadecimal digits", quoted_name(listed.name)));
  listed.hash = *hash;
  return listed;
}

}  // namespace

bool Manifest::lists(std::string_view name) const {
  return std::ranges::find(files, name, &WrittenFile::name) != files.end();
}

std::string format_manifest(const Manifest& manifest) {
  nlohmann::json text = {{"schema_version", kCheckpointSchemaVersion}, {"step", manifest.step}};
  if (!manifest.run.id.empty()) text["run"] = {{"id", manifest.run.id}, {"started", manifest.run.started}};
  text["files"] = nlohmann::json::array();
  for (const WrittenFile& file : manifest.files) {
    text["files"].push_back(
        {{"name", file.name}, {"bytes", file.size_bytes}, {"xxh3_128", to_hex(file.hash)}});
  }
  return python_json(text, 2) + "\n";
}

Manifest parse_manifest(std::string_view text, const std::string& file) {
  const nlohmann::json json = parse_untrusted_json_object(text, file);
  const int64_t version = whole_number(json, "schema_version", file);
  if (version != kCheckpointSchemaVersion) {
    throw_error(ErrorCode::kBadData,
                "{}: the checkpoint has schema version {}, but this version of Plimsoll reads {}; use the "
                "version that wrote it",
                file, version, kCheckpointSchemaVersion);
  }
  Manifest manifest;
  manifest.step = whole_number(json, "step", file);
  if (const auto run = json.find("run"); run != json.end()) {
    if (!run->is_object()) refuse(file, "'run' is not an object");
    manifest.run = {text_member(*run, "id", file), text_member(*run, "started", file)};
  }
  const auto files = json.find("files");
  if (files == json.end() || !files->is_array() || files->empty()) refuse(file, "it has no list 'files'");
  for (const nlohmann::json& entry : *files) manifest.files.push_back(parse_entry(entry, file));
  return manifest;
}

Manifest read_manifest(FileSystem& files, const std::string& folder) {
  const std::string path = join_path(folder, kManifestFile);
  if (!files.status(path)) {
    throw_error(ErrorCode::kBadData, "{}: it has no {}, so it is not a complete checkpoint of Plimsoll",
                folder, kManifestFile);
  }
  return parse_manifest(read_text_file(files, path, kMaxManifestBytes), path);
}

}  // namespace plimsoll::internal
