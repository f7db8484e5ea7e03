// Opens a model folder and finds its files.
#include "io/ckpt/model_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/guarded_json.h"
#include "base/printable.h"
#include "io/ckpt/foreign_weights.h"

namespace plimsoll {
namespace {

constexpr int64_t kMaxConfigBytes = 16 * 1024 * 1024;
constexpr int64_t kMaxIndexBytes = 256 * 1024 * 1024;

// The names of the files that Hugging Face's tokenizers store in the folder of a model, for all versions and tokenizer classes.
constexpr std::string_view kTokenizerFiles[] = {
    "added_tokens.json",
    "bpe.codes",
    "chat_template.jinja",
    "chat_template.json",
    "merges.txt",
    "sentencepiece.bpe.model",
    "special_tokens_map.json",
    "spiece.model",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
};

// Throws an error for a folder without safetensors weights. The message names other weight files in the folder, if there are any, and
// tells how to convert them.
[[noreturn]] void fail_without_weights(FileSystem& files, const std::string& folder) {
  if (const std::string foreign = describe_foreign_weights(files, folder); !foreign.empty())
    throw_error(ErrorCode::kBadData, "{}: it has no {}, {}", folder, kWeightsFile, foreign);
  throw_error(ErrorCode::kBadData,
              "{}: it has neither {} nor {}. Check that the folder contains a complete model (a download may "
              "have been interrupted)",
              folder, kWeightsFile, kWeightsIndexFile);
}

// Checks that the file name of a shard, which an untrusted index file contains, does not lead out of the folder.
void check_shard_name(const std::string& shard, const std::string& tensor, const std::string& file) {
  const auto refuse = [&](const char* why) {
    throw_error(
        ErrorCode::kBadData,
        "{}: weight_map maps tensor {} to the file {}, {}. Download the file again from a trusted source",
        file, quoted_name(tensor), quoted_name(shard), why);
  };
  if (shard.empty()) refuse("an empty name");
  if (shard.front() == '/') refuse("an absolute path");
  if (shard.find('\\') != std::string::npos) refuse("a name with a backslash");
  if (shard.find('\0') != std::string::npos) refuse("a name with a NUL byte");
  for (size_t start = 0; start <= shard.size();) {
    const size_t slash = std::min(shard.find('/', start), shard.size());
    if (shard.substr(start, slash - start) == "..") refuse("a path that leads out of the folder");
    start = slash + 1;
  }
}

// Checks that each tensor is in the file that the index of the shards names, and in no other file.
void check_index_against_files(const std::map<std::string, std::string>& weight_map,
                               const std::map<std::string, SafetensorsFile>& shards,
                               const std::string& index_path) {
  for (const auto& [tensor, shard] : weight_map) {
    if (shards.at(shard).find(tensor) == nullptr) {
      throw_error(ErrorCode::kBadData,
                  "{}: weight_map says that tensor {} is in {}, but that file does not contain it. The index "
                  "and the shards are from different saves; download all of them again",
                  index_path, quoted_name(tensor), quoted_name(shard));
    }
  }
  for (const auto& [shard, file] : shards) {
    for (const StoredTensor& tensor : file.tensors()) {
      const auto mapped = weight_map.find(tensor.name);
      if (mapped == weight_map.end() || mapped->second != shard) {
        throw_error(
            ErrorCode::kBadData,
            "{}: {} contains tensor {}, which weight_map {}. The index and the shards are from different "
            "saves; download all of them again",
            index_path, quoted_name(shard), quoted_name(tensor.name),
            mapped == weight_map.end() ? "does not list" : "places in " + quoted_name(mapped->second));
      }
    }
  }
}

std::map<std::string, SafetensorsFile> open_shards(FileSystem& files, const std::string& folder,
                                                   const std::map<std::string, std::string>& weight_map,
                                                   const std::string& index_path) {
  std::map<std::string, SafetensorsFile> shards;
  for (const auto& [tensor, shard] : weight_map) {
    if (shards.contains(shard)) continue;
    const std::string path = join_path(folder, shard);
    if (!is_file(files, path)) {
      throw_error(ErrorCode::kBadData,
                  "{}: weight_map needs the file {} (for tensor {}), which does not exist. Download the "
                  "model again or copy the missing file",
                  index_path, quoted_name(shard), quoted_name(tensor));
    }
    shards.emplace(shard, SafetensorsFile::open(files, path));
  }
  check_index_against_files(weight_map, shards, index_path);
  return shards;
}

std::vector<SafetensorsFile> open_weights(FileSystem& files, const std::string& folder, WeightsNeeded needed,
                                          std::string_view single_name) {
  std::vector<SafetensorsFile> opened;
  const std::string single = join_path(folder, single_name);
  const std::string index_path = join_path(folder, kWeightsIndexFile);
  // If the folder contains both a single weight file and an index of shards, the single file is used, as in transformers.
  if (is_file(files, single)) {
    opened.push_back(SafetensorsFile::open(files, single));
  } else if (is_file(files, index_path)) {
    const auto weight_map = parse_weight_index(read_text_file(files, index_path, kMaxIndexBytes), index_path);
    for (auto& [shard, file] : open_shards(files, folder, weight_map, index_path))
      opened.push_back(std::move(file));
  } else if (needed == WeightsNeeded::kYes) {
    fail_without_weights(files, folder);
  }
  return opened;
}

}  // namespace

std::map<std::string, std::string> parse_weight_index(std::string_view json, const std::string& file) {
  const nlohmann::json index = parse_json_object(json, file, strict_json(kMaxIndexBytes));
  const auto weight_map = index.find("weight_map");
  if (weight_map == index.end() || !weight_map->is_object() || weight_map->empty()) {
    throw_error(ErrorCode::kBadData,
                "{}: it has no weight_map that maps tensor names to files. Download the file again", file);
  }
  std::map<std::string, std::string> result;
  for (const auto& [tensor, shard] : weight_map->items()) {
    if (!shard.is_string()) {
      throw_error(
          ErrorCode::kBadData,
          "{}: weight_map maps tensor {} to {} {}, but a file name is expected; download the file again",
          file, quoted_name(tensor), shard.type_name(), quoted_name(shard.dump()));
    }
    check_shard_name(shard.get_ref<const std::string&>(), tensor, file);
    result.emplace(tensor, shard.get<std::string>());
  }
  return result;
}

std::vector<std::string> find_tokenizer_files(FileSystem& files, const std::string& folder) {
  std::vector<std::string> found;
  for (const std::string_view name : kTokenizerFiles) {
    if (is_file(files, join_path(folder, name))) found.emplace_back(name);
  }
  return found;
}

ModelFolder ModelFolder::open(FileSystem& files, const std::string& path, WeightsNeeded needed) {
  const auto status = files.status(path);
  if (!status || status->kind != FileKind::kFolder) {
    throw_error(ErrorCode::kBadData, "{}: {}. A model is a folder with {} and {}", path,
                status ? "it is not a folder" : "the folder does not exist", kConfigFile, kWeightsFile);
  }
  ModelFolder model;
  model.path_ = path;
  const std::string config_path = join_path(path, kConfigFile);
  const std::string adapter_path = join_path(path, kAdapterConfigFile);
  const bool has_model =
      is_file(files, join_path(path, kWeightsFile)) || is_file(files, join_path(path, kWeightsIndexFile));
  if (!has_model && is_file(files, adapter_path)) {
    model.adapter_config_text_ = read_text_file(files, adapter_path, kMaxConfigBytes);
    parse_json_object(model.adapter_config_text_, adapter_path, strict_json());
    if (!is_file(files, join_path(path, kAdapterWeightsFile))) {
      const std::string pickle = join_path(path, "adapter_model.bin");
      if (is_file(files, pickle)) refuse_pointer(files, pickle);
      throw_error(ErrorCode::kBadData,
                  "{}: it has {}, but no {}. Check that the folder contains a complete adapter; save an "
                  "adapter in adapter_model.bin again with PEFT's save_pretrained",
                  path, kAdapterConfigFile, kAdapterWeightsFile);
    }
  }
  if (!is_file(files, config_path) && !model.is_adapter()) {
    const std::string foreign = has_model ? "" : describe_foreign_weights(files, path);
    throw_error(ErrorCode::kBadData, "{}: it has no {}{}", path, kConfigFile,
                foreign.empty() ? ". Check that the folder contains a complete Hugging Face model"
                                : " and no " + std::string(kWeightsFile) + ", " + foreign);
  }
  if (is_file(files, config_path)) {
    model.config_text_ = read_text_file(files, config_path, kMaxConfigBytes);
    parse_json_object(model.config_text_, config_path, strict_json());
  }
  model.tokenizer_files_ = find_tokenizer_files(files, path);
  model.weights_ = open_weights(files, path, needed, model.is_adapter() ? kAdapterWeightsFile : kWeightsFile);
  for (size_t i = 0; i < model.weights_.size(); ++i) {
    for (const StoredTensor& tensor : model.weights_[i].tensors()) {
      model.stored_.emplace(tensor.name, Place{i, tensor.name});
    }
  }
  return model;
}

ModelFolder::Located ModelFolder::find(std::string_view name) const {
  const auto found = stored_.find(name);
  if (found == stored_.end()) return {};
  const SafetensorsFile& file = weights_[found->second.file];
  return {&file, file.find(found->second.name)};
}

void ModelFolder::transpose(std::span<const std::string> names) {
  for (const std::string& name : names) {
    const auto found = stored_.find(name);
    if (found != stored_.end()) weights_[found->second.file].transpose(found->second.name);
  }
}

std::vector<std::string_view> ModelFolder::stored_names() const {
  std::vector<std::string_view> names;
  for (const auto& [name, place] : stored_) names.push_back(place.name);
  std::ranges::sort(names);
  return names;
}

void ModelFolder::unwrap_names(std::span<const std::vector<std::string>> wanted,
                               std::string_view own_prefix) {
  const std::vector<std::string_view> names = stored_names();
  const Unwrapping way = find_unwrapping(names, wanted, own_prefix);
  if (!way.removes_anything()) return;
  unwrapping_note_ = describe_unwrapping(way, names);
  std::map<std::string, Place, std::less<>> unwrapped;
  for (auto& [name, place] : stored_) {
    const auto [entry, is_new] = unwrapped.emplace(way.apply(place.name), place);
    if (is_new) continue;
    throw_error(ErrorCode::kBadData,
                "{}: the tensors {} and {} have the same name when the prefixes that wrappers add (such as "
                "'module.') are removed; delete one of the two from the file",
                path_, quoted_name(entry->second.name), quoted_name(place.name));
  }
  stored_ = std::move(unwrapped);
}

}  // namespace plimsoll
