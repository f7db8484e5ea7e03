// Writes a model folder that Hugging Face's from_pretrained can open.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/guarded_json.h"
#include "base/json.h"
#include "io/ckpt/model_folder.h"

namespace plimsoll {
namespace {

// Splits the tensors into shards in the given order. A new shard starts if the next tensor would exceed the
// limit. A tensor larger than the limit gets its own shard.
std::vector<WeightFile> split_into_shards(const std::vector<TensorSource>& tensors, int64_t max_shard_bytes) {
  PLIMSOLL_CHECK(max_shard_bytes > 0, "the largest size of a shard must be above 0, but is {} bytes",
                 max_shard_bytes);
  std::vector<WeightFile> shards(1);
  int64_t size_bytes = 0;
  for (const TensorSource& tensor : tensors) {
    if (!shards.back().tensors.empty() && size_bytes + tensor.size_bytes() > max_shard_bytes) {
      shards.emplace_back();
      size_bytes = 0;
    }
    shards.back().tensors.push_back(tensor);
    size_bytes += tensor.size_bytes();
  }
  return shards;
}

std::string shard_name(size_t i, size_t count, std::string_view single = kWeightsFile) {
  return count == 1 ? std::string(single) : fmt::format("model-{:05d}-of-{:05d}.safetensors", i + 1, count);
}

// Returns true for names such as "model-00001-of-00003.safetensors".
bool is_shard_name(std::string_view name) {
  constexpr std::string_view kPattern = "model-#####-of-#####.safetensors";
  return std::ranges::equal(name, kPattern,
                            [](char c, char p) { return p == '#' ? c >= '0' && c <= '9' : c == p; });
}

std::string format_index(const std::vector<WeightFile>& shards) {
  nlohmann::json index;
  int64_t num_parameters = 0;
  int64_t size_bytes = 0;
  for (const WeightFile& shard : shards) {
    for (const TensorSource& tensor : shard.tensors) {
      size_bytes += tensor.size_bytes();
      num_parameters += tensor.num_elements();
      index["weight_map"][tensor.name] = shard.name;
    }
  }
  index["metadata"] = {{"total_parameters", num_parameters}, {"total_size", size_bytes}};
  return python_json(index, 2) + "\n";
}

bool is_adapter_model(const ModelContents& contents) {
  return !contents.adapter_config_text.empty();
}

// A folder in which files are written as <prefix><name>; the list of written files omits the prefix.
struct PrefixedFolder {
  FileSystem& files;
  const std::string& folder;
  const std::string& prefix;
  std::vector<WrittenFile> written = {};

  std::string path_of(std::string_view name) const { return join_path(folder, prefix + std::string(name)); }
  void record(WrittenFile file, std::string_view name) {
    file.name = name;
    written.push_back(std::move(file));
  }
};

void write_configuration(PrefixedFolder& to, const ModelContents& contents) {
  std::set<std::string, std::less<>> taken = {std::string(kConfigFile), std::string(kAdapterConfigFile),
                                              std::string(kAdapterWeightsFile)};
  const nlohmann::json config = parse_json_object(contents.config_text, kConfigFile, strict_json());
  to.record(write_synced_file(to.files, to.path_of(kConfigFile), python_json(config, 2) + "\n"), kConfigFile);
  for (const CopiedFile& file : contents.copied_files) {
    const std::string name = file_name(file.source_path);
    PLIMSOLL_CHECK(taken.insert(name).second && !is_shard_name(name) && name != kWeightsFile &&
                       name != kWeightsIndexFile,
                   "a file that is saved next to the weights is named {}, which is used twice or is the name "
                   "of a weight file",
                   name);
    to.record(file.text ? write_synced_file(to.files, to.path_of(name), *file.text)
                        : copy_synced_file(to.files, file.source_path, to.path_of(name)),
              name);
  }
  if (!is_adapter_model(contents)) return;
  const nlohmann::json adapter =
      parse_json_object(contents.adapter_config_text, kAdapterConfigFile, strict_json());
  to.record(write_synced_file(to.files, to.path_of(kAdapterConfigFile), python_json(adapter, 2) + "\n"),
            kAdapterConfigFile);
}

void write_index(PrefixedFolder& to, const std::vector<WeightFile>& shards) {
  if (shards.size() == 1) return;
  to.record(write_synced_file(to.files, to.path_of(kWeightsIndexFile), format_index(shards)),
            kWeightsIndexFile);
}

// Writes small files first, then the weights, and the index of the weights last.
std::vector<WrittenFile> write_with_prefix(FileSystem& files, const std::string& folder,
                                           const std::string& prefix, const ModelContents& contents) {
  PrefixedFolder to{files, folder, prefix};
  write_configuration(to, contents);
  const std::vector<WeightFile> shards = weight_files_of(contents);
  for (const WeightFile& shard : shards)
    to.record(write_safetensors(files, to.path_of(shard.name), shard.tensors), shard.name);
  write_index(to, shards);
  return std::move(to.written);
}

// Returns the weight files of an earlier save that the new one does not replace. The single file is the first, so that it is removed
// first: readers prefer it to shards.
std::vector<std::string> stale_weights(FileSystem& files, const std::string& folder,
                                       const std::vector<WrittenFile>& written) {
  std::vector<std::string> stale;
  for (const FolderEntry& entry : files.list(folder)) {
    const bool weights = entry.name == kWeightsFile || entry.name == kWeightsIndexFile ||
                         is_shard_name(entry.name) || entry.name == kAdapterWeightsFile ||
                         entry.name == kAdapterConfigFile;
    if (weights && std::ranges::find(written, entry.name, &WrittenFile::name) == written.end()) {
      stale.push_back(entry.name);
    }
  }
  std::stable_partition(stale.begin(), stale.end(),
                        [](const std::string& name) { return name == kWeightsFile; });
  return stale;
}

// Removes temporary files to free space on a full disk. If the disk refuses this too, the first failure has
// already been reported.
void remove_temporary_files(FileSystem& files, const std::string& folder) {
  try {
    for (const FolderEntry& entry : files.list(folder)) {
      if (entry.name.starts_with(kTemporaryPrefix)) files.remove_file(join_path(folder, entry.name));
    }
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the caller throws the first failure
  }
}

}  // namespace

std::vector<WeightFile> weight_files_of(const ModelContents& contents) {
  const bool is_adapter = is_adapter_model(contents);
  std::vector<WeightFile> shards = split_into_shards(
      contents.tensors, is_adapter ? std::numeric_limits<int64_t>::max() : contents.max_shard_bytes);
  for (size_t i = 0; i < shards.size(); ++i)
    shards[i].name = shard_name(i, shards.size(), is_adapter ? kAdapterWeightsFile : kWeightsFile);
  return shards;
}

std::vector<WrittenFile> write_model_texts(FileSystem& files, const std::string& folder,
                                           const ModelContents& contents) {
  const std::string no_prefix;
  PrefixedFolder to{files, folder, no_prefix};
  write_configuration(to, contents);
  write_index(to, weight_files_of(contents));
  return std::move(to.written);
}

std::vector<WrittenFile> write_model_files(FileSystem& files, const std::string& folder,
                                           const ModelContents& contents) {
  return write_with_prefix(files, folder, "", contents);
}

void save_model_folder(FileSystem& files, const std::string& folder, const ModelContents& contents) {
  const std::string prefix(kTemporaryPrefix);
  make_folders(files, folder);
  std::vector<WrittenFile> written;
  try {
    // Files to copy may already be in the folder, or even be the same files. They are therefore copied to
    // their temporary names before anything is replaced.
    written = write_with_prefix(files, folder, prefix, contents);
  } catch (const Error& error) {
    remove_temporary_files(files, folder);
    throw Error(error.code(),
                fmt::format("the model was not saved to '{}': {}. The model saved there before is unchanged",
                            folder, error.what()));
  }
  for (const WrittenFile& file : written) {
    files.rename(join_path(folder, prefix + file.name), join_path(folder, file.name));
  }
  files.sync_folder(folder);
  const std::vector<std::string> stale = stale_weights(files, folder, written);
  for (const std::string& name : stale) files.remove_file(join_path(folder, name));
  if (!stale.empty()) files.sync_folder(folder);
}

}  // namespace plimsoll
