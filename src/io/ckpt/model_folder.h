// Opens, loads and writes a Hugging Face model folder: config.json, model.safetensors (or shards with an
// index), and the files of the tokenizer.
//
// The code does not depend on the architecture of the model: callers name the tensors that they need, and config.json is treated as text.
// PyTorch pickle files are never read. If a folder contains only those, the error message explains how to convert them.
//
// Thread-safety: a ModelFolder is immutable after opening. Ownership: it owns the open weight files, but not the tensors. Errors:
// kBadData, with a message that names the folder, the file, the tensor, and the expected and the found value; FileError from the disk.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/view.h"
#include "io/ckpt/safetensors.h"

namespace plimsoll {

inline constexpr std::string_view kConfigFile = "config.json";
inline constexpr std::string_view kWeightsFile = "model.safetensors";
inline constexpr std::string_view kWeightsIndexFile = "model.safetensors.index.json";
// File names of an adapter (LoRA weights) as the library PEFT writes them.
inline constexpr std::string_view kAdapterConfigFile = "adapter_config.json";
inline constexpr std::string_view kAdapterWeightsFile = "adapter_model.safetensors";
inline constexpr int64_t kDefaultMaxShardBytes = 50'000'000'000;

// Parses model.safetensors.index.json and returns a map from the names of tensors to the names of files. Checks that every file is inside
// the folder. A pure function.
std::map<std::string, std::string> parse_weight_index(std::string_view json, const std::string& file);

// A tensor that a model needs, and the memory into which it is loaded.
struct WantedTensor {
  // Alternative names of the tensor. The first name that the folder contains is loaded. Reports use names.front().
  std::vector<std::string> names;
  // The shape that the tensor must have, after it was transposed if is_transposed.
  std::vector<int64_t> shape;
  // The stored tensor is read into the rows of `destination` that begin with `first_row`; a row of `destination` must have as many
  // elements as a row of the stored tensor. In this way the weights of Q, K and V can be loaded without a copy into one [3H, H] matrix,
  // at rows 0, H and 2H.
  View destination = {};
  int64_t first_row = 0;
  // If set, this function is called instead of reading into `destination`, for memory that the host cannot access. The calls are in the
  // order of the tensors on the disk.
  std::function<void(const SafetensorsFile& file, const StoredTensor& tensor)> read = {};
  bool is_transposed = false;  // true if the file contains the transpose of the needed matrix
};

enum class OnShapeMismatch : uint8_t { kFail, kTreatAsMissing };

struct LoadOptions {
  OnShapeMismatch on_mismatch =
      OnShapeMismatch::kFail;  // kTreatAsMissing corresponds to Hugging Face's ignore_mismatched_sizes
  // Tensors whose names end with one of these suffixes, such as "embeddings.position_ids", are not reported as unused.
  std::vector<std::string> ignored_suffixes;
};

struct ShapeMismatch {
  std::string name;         // first name in WantedTensor::names of the requested tensor
  std::string stored_name;  // name of the tensor in the weight file
  std::vector<int64_t> wanted;
  std::vector<int64_t> found;
};

struct LoadReport {
  int64_t num_loaded = 0;
  std::string note = {};  // a sentence for the user if wrappers such as "module." were removed from the names
  bool is_replaced = false;         // true if a checkpoint will overwrite the loaded weights
  std::vector<std::string> unused;  // names of tensors in the files that were not requested, sorted
  // Names of requested tensors that are not in the files, in the order of the request. The caller initializes them.
  std::vector<std::string> missing;
  std::vector<ShapeMismatch> mismatched;

  bool clean() const { return unused.empty() && missing.empty() && mismatched.empty(); }
};

// Returns the message for the user about unused, missing and mismatched tensors, in the wording of Hugging Face's transformers, or an
// empty string if there are none.
std::string describe_load(const LoadReport& report, std::string_view model_name, std::string_view folder);

enum class WeightsNeeded : uint8_t { kYes, kNo };

// Returns the sorted names of the tokenizer's files in a folder, which need not contain a model.
std::vector<std::string> find_tokenizer_files(FileSystem& files, const std::string& folder);

class ModelFolder {
 public:
  // Opens a folder: reads config.json and the headers of the weight files. With WeightsNeeded::kNo, a folder without weights is accepted.
  static ModelFolder open(FileSystem& files, const std::string& path,
                          WeightsNeeded needed = WeightsNeeded::kYes);

  const std::string& path() const { return path_; }
  // Returns the text of config.json, after checking that it is a JSON object. It is empty if an adapter's folder has no such file.
  const std::string& config_text() const { return config_text_; }
  // Returns the text of adapter_config.json, after checking that it is a JSON object. It is empty if the folder contains a complete
  // model.
  const std::string& adapter_config_text() const { return adapter_config_text_; }
  bool is_adapter() const { return !adapter_config_text_.empty(); }
  // Returns the sorted names of the tokenizer files in this folder, which are copied byte for byte when the model is saved.
  const std::vector<std::string>& tokenizer_files() const { return tokenizer_files_; }
  bool has_weights() const { return !weights_.empty(); }
  const std::vector<SafetensorsFile>& weight_files() const { return weights_; }
  // A stored tensor and the file that contains it; null pointers if there is no such tensor.
  struct Located {
    const SafetensorsFile* file = nullptr;
    const StoredTensor* tensor = nullptr;
  };
  Located find(std::string_view name) const;

  // Removes wrappers such as "module." from the names of the tensors in the files if more of the wanted tensors are found without them.
  // Each element of `wanted` lists the alternative names of one tensor. Afterwards find() and load() use the names without wrappers;
  // reports still name unused tensors as the file does. For `own_prefix` see find_unwrapping(). Errors: kBadData if two tensors get the
  // same name.
  void unwrap_names(std::span<const std::vector<std::string>> wanted, std::string_view own_prefix);
  // Returns a sentence for the user about removed wrappers, or an empty string if none were removed.
  const std::string& unwrapping_note() const { return unwrapping_note_; }
  // Marks the matrices with these names, which find() must accept, as transposed: reading them later returns their transposes.
  void transpose(std::span<const std::string> names);
  // Declares that a checkpoint will overwrite all weights of this folder, so that the user is not warned about missing weights.
  void expect_replacement() { is_replaced_ = true; }
  // Returns the number of tensors in the files.
  int64_t num_tensors() const { return std::ssize(stored_); }
  // Returns the sorted names of the tensors as they are in the files, with wrappers.
  std::vector<std::string_view> stored_names() const;

  // Loads the requested tensors that exist and reports the others. The memory of a missing or mismatched tensor is not written. All
  // checks happen before the first byte is read. Errors: kBadData for a mismatched shape if on_mismatch is kFail.
  LoadReport load(std::span<const WantedTensor> wanted, const LoadOptions& options = {}) const;

 private:
  ModelFolder() = default;
  std::string path_;
  std::string config_text_;
  std::string adapter_config_text_;
  std::vector<std::string> tokenizer_files_;
  // The location of a tensor: the index of its file in weights_, and its name in this file.
  struct Place {
    size_t file = 0;
    std::string name = {};
  };
  std::vector<SafetensorsFile> weights_;
  std::map<std::string, Place, std::less<>> stored_;  // all tensors, by the names that find() accepts
  std::string unwrapping_note_;
  bool is_replaced_ = false;
};

// A file that is saved together with the model, under the name that it has in its source folder. If `text` has a value, this text is
// written; otherwise the file is copied byte for byte.
struct CopiedFile {
  std::string source_path;
  std::optional<std::string> text = std::nullopt;
};

struct ModelContents {
  // a JSON object, which is written like Hugging Face's files: indent 2, sorted keys, final newline
  std::string config_text;
  // If this text is not empty, the tensors belong to an adapter. The tensors and the text are then written to the
  // adapter's files.
  std::string adapter_config_text = {};
  std::vector<TensorSource> tensors;
  std::vector<CopiedFile> copied_files;
  int64_t max_shard_bytes = kDefaultMaxShardBytes;
};

// A file with tensors of a model: model.safetensors, a shard of it, or the file of an adapter.
struct WeightFile {
  std::string name;
  std::vector<TensorSource> tensors;
};

// Returns the weight files of a model and the tensors that each of them will contain, in order. An adapter is always a single file.
std::vector<WeightFile> weight_files_of(const ModelContents& contents);

// Writes and syncs the files of the model that weight_files_of() does not list: config.json, copied files, and the index of shards.
// Returns the written files.
std::vector<WrittenFile> write_model_texts(FileSystem& files, const std::string& folder,
                                           const ModelContents& contents);

// Writes the files of the model into an existing folder. Syncs each file, but not the folder: the caller later renames the folder, as for
// checkpoints. Returns the written files in order.
std::vector<WrittenFile> write_model_files(FileSystem& files, const std::string& folder,
                                           const ModelContents& contents);

// Writes the files of the model into a folder that may contain an older version of the model. First writes all files under temporary
// names, then renames them one by one (weights last), then removes old shards. A failure before the renames leaves the older version
// unchanged. After a crash each file is either old or new, but old and new files may be mixed; use checkpoints (checkpoint.h) if that
// matters.
void save_model_folder(FileSystem& files, const std::string& folder, const ModelContents& contents);

// Removes wrappers from the names of tensors. A wrapper adds components to the names if a model was saved from inside torch.compile
// ("_orig_mod."), DataParallel ("module."), FSDP, Lightning ("model."), sentence-transformers ("0.auto_model.") or a class that a user
// wrote around the model. Pure functions; thread-safe.

// Specifies which wrappers to remove from names. A default object removes none.
struct Unwrapping {
  // True to remove components that a wrapper may insert anywhere in a name, such as "_orig_mod".
  bool removes_inner = false;
  // A prefix such as "0.auto_model." or "model.". It is removed from the names that begin with it, after the components that removes_inner
  // selects were removed.
  std::string prefix = {};

  bool removes_anything() const { return removes_inner || !prefix.empty(); }
  // Returns the name without the wrappers.
  std::string apply(std::string_view name) const;
  friend bool operator==(const Unwrapping&, const Unwrapping&) = default;
};

// Finds the wrappers to remove so that the files contain as many of the wanted tensors as possible. Each element of `wanted` lists the
// alternative names of one tensor. Returns a default object if removing wrappers does not find more tensors. Removes only components that
// are known names of wrappers, numbers of one or two digits (as in "0.auto_model."), and `own_prefix`, the first component of the model's
// own names, which may be repeated ("bert" in "bert.bert."). Other prefixes such as "roberta." are kept, because the weights of another
// architecture must not be loaded as those of this model. Cost: linear in the number of names.
Unwrapping find_unwrapping(std::span<const std::string_view> stored,
                           std::span<const std::vector<std::string>> wanted, std::string_view own_prefix);

// Returns a description of the removed wrappers for the user, such as "the wrapper 'module.' was removed from the names".
std::string describe_unwrapping(const Unwrapping& unwrapping, std::span<const std::string_view> stored);

}  // namespace plimsoll
