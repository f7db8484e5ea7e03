#include "io/ckpt/manifest.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/guarded_json.h"
#include "base/json.h"
#include "base/printable.h"

namespace plimsoll::internal {
namespace {

constexpr int64_t kMaxManifestBytes = 64 * 1024 * 1024;

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw_error(ErrorCode::kBadData, "{}: {}; the checkpoint is damaged", file, why);
}

int64_t whole_number(const nlohmann::json& object, const char* key, const std::string& file) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned())
    refuse(file, fmt::format("the number '{}' is missing", key));
  return narrow<int64_t>(std::min(found->get<uint64_t>(), uint64_t{INT64_MAX}));
}

const std::string& text_member(const nlohmann::json& object, const char* key, const std::string& file) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string())
    refuse(file, fmt::format("the text '{}' is missing", key));
  return found->get_ref<const std::string&>();
}

Hash128 parse_hash(const nlohmann::json& entry, const std::string& name, const std::string& file) {
  const auto hash = parse_hash128(text_member(entry, "xxh3_128", file));
  if (!hash) refuse(file, fmt::format("the hash of {} is not 32 hexadecimal digits", quoted_name(name)));
  return *hash;
}

// Reads the byte ranges of a file, each of which begins where the one before it ends, from the start of the file to its end.
std::vector<HashedPart> parse_parts(const nlohmann::json& list, const WrittenFile& listed,
                                    const std::string& file) {
  if (!list.is_array() || list.empty())
    refuse(file, fmt::format("{} has no list 'parts'", quoted_name(listed.name)));
  std::vector<HashedPart> parts;
  int64_t end = 0;
  for (const nlohmann::json& part : list) {
    if (!part.is_object())
      refuse(file, fmt::format("an entry of 'parts' of {} is not an object", quoted_name(listed.name)));
    parts.push_back({whole_number(part, "bytes", file), parse_hash(part, listed.name, file)});
    if (parts.back().bytes > listed.size_bytes - end) {
      refuse(file, fmt::format("the hashed byte ranges ('parts') of {} have more than its {} bytes",
                               quoted_name(listed.name), listed.size_bytes));
    }
    end += parts.back().bytes;
  }
  if (end != listed.size_bytes) {
    refuse(file,
           fmt::format("the hashed byte ranges ('parts') of {} have {} bytes together, but the file has {}",
                       quoted_name(listed.name), end, listed.size_bytes));
  }
  return parts;
}

void parse_entry(const nlohmann::json& entry, const std::string& file, Manifest& manifest) {
  if (!entry.is_object()) refuse(file, "'files' contains a value that is not an object");
  WrittenFile listed;
  listed.name = text_member(entry, "name", file);
  if (listed.name.empty() || listed.name == ".." ||
      listed.name.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
    refuse(file, fmt::format("it lists {}, which is not a plain file name", quoted_name(listed.name)));
  }
  listed.size_bytes = whole_number(entry, "bytes", file);
  if (const auto parts = entry.find("parts"); parts != entry.end()) {
    manifest.parts[listed.name] = parse_parts(*parts, listed, file);
  } else {
    listed.hash = parse_hash(entry, listed.name, file);
  }
  manifest.files.push_back(std::move(listed));
}

}  // namespace

bool Manifest::lists(std::string_view name) const {
  return std::ranges::find(files, name, &WrittenFile::name) != files.end();
}

std::string format_manifest(const Manifest& manifest) {
  const int version = manifest.parts.empty() ? kCheckpointSchemaVersion : kSchemaVersionOfParts;
  nlohmann::json text = {{"schema_version", version}, {"step", manifest.step}};
  if (!manifest.run.id.empty()) text["run"] = {{"id", manifest.run.id}, {"started", manifest.run.started}};
  text["files"] = nlohmann::json::array();
  for (const WrittenFile& file : manifest.files) {
    nlohmann::json entry = {{"name", file.name}, {"bytes", file.size_bytes}};
    if (const auto parts = manifest.parts.find(file.name); parts != manifest.parts.end()) {
      entry["parts"] = nlohmann::json::array();
      for (const HashedPart& part : parts->second)
        entry["parts"].push_back({{"bytes", part.bytes}, {"xxh3_128", to_hex(part.hash)}});
    } else {
      entry["xxh3_128"] = to_hex(file.hash);
    }
    text["files"].push_back(std::move(entry));
  }
  return python_json(text, 2) + "\n";
}

Manifest parse_manifest(std::string_view text, const std::string& file) {
  const nlohmann::json json = parse_json_object(text, file, strict_json());
  const int64_t version = whole_number(json, "schema_version", file);
  if (version != kCheckpointSchemaVersion && version != kSchemaVersionOfParts) {
    throw_error(ErrorCode::kBadData,
                "{}: the checkpoint has schema version {}, but this version of Plimsoll reads {} and {}; use "
                "the version that wrote it",
                file, version, kCheckpointSchemaVersion, kSchemaVersionOfParts);
  }
  Manifest manifest;
  manifest.step = whole_number(json, "step", file);
  if (const auto run = json.find("run"); run != json.end()) {
    if (!run->is_object()) refuse(file, "'run' is not an object");
    manifest.run = {text_member(*run, "id", file), text_member(*run, "started", file)};
  }
  const auto files = json.find("files");
  if (files == json.end() || !files->is_array() || files->empty()) refuse(file, "it has no list 'files'");
  for (const nlohmann::json& entry : *files) parse_entry(entry, file, manifest);
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
