#include "io/hub/hub_files.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/guarded_json.h"
#include "io/hub/hub_address.h"

namespace plimsoll {
namespace {

constexpr int64_t kMaxTreeBytes = int64_t{256} << 20;

// The small files of models and tokenizers that Plimsoll reads or copies.
constexpr std::string_view kSettings[] = {
    "adapter_config.json",     "added_tokens.json", "chat_template.jinja",
    "chat_template.json",      "config.json",       "config_sentence_transformers.json",
    "generation_config.json",  "merges.txt",        "modules.json",
    "special_tokens_map.json", "tokenizer.json",    "tokenizer.model",
    "tokenizer_config.json",   "vocab.json",        "vocab.txt",
};

bool matches_any(const std::string& path, const std::vector<std::string>& patterns) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) {
    // A pattern that ends with '/' names a folder and matches all files below it, as in Hugging Face's tools.
    const std::string whole = pattern.ends_with('/') ? pattern + "*" : pattern;
    return fnmatch(whole.c_str(), path.c_str(), FNM_NOESCAPE) == 0;
  });
}

bool has_file(const std::vector<HubFile>& files, std::string_view path) {
  return std::ranges::find(files, path, &HubFile::path) != files.end();
}

// Returns true for files with weights that Plimsoll reads: a whole model, a shard of one, or an adapter.
bool is_weight_file(const std::string& path, const std::vector<HubFile>& listed) {
  if (path == "adapter_model.safetensors" || path == "model.safetensors") return true;
  const bool is_part =
      path == "model.safetensors.index.json" || fnmatch("model-*-of-*.safetensors", path.c_str(), 0) == 0;
  return is_part && !has_file(listed, "model.safetensors");
}

std::string note_without_weights(const std::vector<HubFile>& listed) {
  const bool has_weights =
      std::ranges::any_of(listed, [&](const HubFile& file) { return is_weight_file(file.path, listed); });
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json", "adapter_model.bin"}) {
    if (!has_weights && has_file(listed, name)) {
      return fmt::format(
          "the repository has weights only in {}, which Plimsoll does not read: convert them to safetensors, "
          "or look "
          "for a revision that has them",
          name);
    }
  }
  return {};
}

void require_named_files(const DownloadRequest& request, const std::vector<HubFile>& listed) {
  for (const std::string& name : request.files) {
    if (has_file(listed, name)) continue;
    std::vector<std::string_view> names;
    for (const HubFile& file : listed) names.push_back(file.path);
    constexpr size_t kMostNames = 12;
    const size_t shown = std::min(names.size(), kMostNames);
    names.resize(shown);
    throw_error(ErrorCode::kBadData, "'{}' has no file '{}' at revision '{}'; it has {}{}", request.name,
                name, request.revision, fmt::join(names, ", "),
                listed.size() > shown ? fmt::format(" and {} more", listed.size() - shown) : "");
  }
}

}  // namespace

bool is_model_setting(std::string_view path) {
  return std::ranges::find(kSettings, path) != std::end(kSettings);
}

SelectedFiles select_files(const DownloadRequest& request, const std::vector<HubFile>& listed,
                           ModelParts parts) {
  require_named_files(request, listed);
  const bool is_default = request.files.empty() && request.include.empty();
  SelectedFiles selected;
  for (const HubFile& file : listed) {
    bool is_wanted = request.kind == RepositoryKind::kDataset || is_model_setting(file.path) ||
                     (parts == ModelParts::kAll && is_weight_file(file.path, listed));
    if (!is_default) {
      is_wanted = std::ranges::find(request.files, file.path) != request.files.end() ||
                  matches_any(file.path, request.include);
    }
    if (is_wanted && !matches_any(file.path, request.exclude)) selected.files.push_back(file);
  }
  if (selected.files.empty()) {
    throw_error(ErrorCode::kBadData,
                "'{}' has {} files at revision '{}', and none of them {}; choose files with --include",
                request.name, listed.size(), request.revision,
                is_default ? "is one that Plimsoll reads" : "matches the patterns");
  }
  if (is_default && parts == ModelParts::kAll && request.kind == RepositoryKind::kModel) {
    if (std::string note = note_without_weights(listed); !note.empty())
      selected.notes.push_back(std::move(note));
  }
  return selected;
}

std::string tree_json(const std::vector<HubFile>& files) {
  nlohmann::ordered_json entries = nlohmann::ordered_json::object();
  for (const HubFile& file : files) {
    nlohmann::ordered_json entry{{"size", file.size_bytes}, {"blob_id", file.git_hash}};
    if (!file.sha256.empty()) {
      entry["lfs_sha256"] = file.sha256;
      entry["lfs_size"] = file.size_bytes;
    }
    if (!file.xet_hash.empty()) entry["xet_hash"] = file.xet_hash;
    entries[file.path] = std::move(entry);
  }
  const nlohmann::ordered_json tree{{"format_version", 1}, {"files", std::move(entries)}};
  return tree.dump(1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

std::optional<std::vector<HubFile>> read_tree(FileSystem& files, const std::string& path) {
  if (!files.status(path)) return std::nullopt;
  try {
    const nlohmann::json tree =
        parse_json(read_text_file(files, path, kMaxTreeBytes), path, {.max_bytes = kMaxTreeBytes});
    if (tree.at("format_version") != 1) return std::nullopt;
    std::vector<HubFile> listed;
    for (const auto& [name, entry] : tree.at("files").items()) {
      HubFile file{.path = name, .size_bytes = entry.at("size"), .git_hash = entry.at("blob_id")};
      file.sha256 = entry.value("lfs_sha256", "");
      file.xet_hash = entry.value("xet_hash", "");
      const auto is_hash = [](const std::string& text) {
        return text.find_first_not_of("0123456789abcdef") == std::string::npos;
      };
      if (file.size_bytes < 0 || !is_path_below(file.path) || file.git_hash.empty() ||
          !is_hash(file.git_hash) || !is_hash(file.sha256)) {
        return std::nullopt;
      }
      listed.push_back(std::move(file));
    }
    return listed;
  } catch (const Error&) {
    return std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace plimsoll
