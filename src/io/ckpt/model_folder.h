// Opens, loads and writes a Hugging Face model folder: config.json, model.safetensors (or shards with an
// index), and the files of the tokenizer.
//
// It knows no architecture: callers name the tensors that they need, and config.json is treated as text.
// PyTorch pickle files are never read. If a folder contains only those, the error message explains how to
// convert them.
//
// Thread-safety: a ModelFolder is immutable after opening. Ownership: it owns the open weight files, but not
// the tensors. Errors: kBadData with the folder, the file, the tensor and both values; FileError from the
// disk.
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
// File names of an adapter in PEFT.
inline constexpr std::string_view kAdapterConfigFile = "adapter_config.json";
inline constexpr std::string_view kAdapterWeightsFile = "adapter_model.safetensors";
inline constexpr int64_t kDefaultMaxShardBytes = 50'000'000'000;

// Parses model.safetensors.index.json into a map from tensors to files. Pure. Checks that every file is
// inside the folder.
std::map<std::string, std::string> parse_weight_index(std::string_view json, const std::string& file);

// One tensor that a model needs.
struct WantedTensor {
  // Alternative names; the first one that the folder contains is loaded. names.front() is used in reports.
  std::vector<std::string> names;
  std::vector<int64_t> shape;  // shape of the stored tensor, or of its transpose
  // The stored tensor is read into the rows of `destination` from `first_row` on; a row of `destination` must have as many elements as a
  // row of the stored tensor. With q, k and v at rows 0, H and 2H, a fused [3H, H] weight is loaded without a copy.
  View destination = {};
  int64_t first_row = 0;
  // For memory that the host cannot access: called instead of reading into `destination`, in the order of the
  // tensors on the disk.
  std::function<void(const SafetensorsFile& file, const StoredTensor& tensor)> read = {};
  bool is_transposed = false;  // the file has the transpose of the matrix that is wanted
};

enum class OnShapeMismatch : uint8_t { kFail, kTreatAsMissing };

struct LoadOptions {
  OnShapeMismatch on_mismatch =
      OnShapeMismatch::kFail;  // kTreatAsMissing corresponds to Hugging Face's ignore_mismatched_sizes
  // Stored names with one of these suffixes are not reported as unused ("embeddings.position_ids").
  std::vector<std::string> ignored_suffixes;
};

struct ShapeMismatch {
  std::string name;         // requested name
  std::string stored_name;  // name in the file
  std::vector<int64_t> wanted;
  std::vector<int64_t> found;
};

struct LoadReport {
  int64_t num_loaded = 0;
  std::string note = {};            // sentence for the user about wrappers that were removed from the names
  bool is_replaced = false;         // a checkpoint will replace the loaded weights
  std::vector<std::string> unused;  // stored but not requested; sorted
  // requested but not stored (the caller initializes them); in the order of the request
  std::vector<std::string> missing;
  std::vector<ShapeMismatch> mismatched;

  bool clean() const { return unused.empty() && missing.empty() && mismatched.empty(); }
};

// Returns the message for the user about tensors that did not match, in Hugging Face's words, or an empty
// string.
std::string describe_load(const LoadReport& report, std::string_view model_name, std::string_view folder);

enum class WeightsNeeded : uint8_t { kYes, kNo };

// Returns the names of the tokenizer's files in a folder, sorted. A folder without a model may contain them
// as well.
std::vector<std::string> find_tokenizer_files(FileSystem& files, const std::string& folder);

class ModelFolder {
 public:
  // Reads config.json and the headers of the weight files. kNo also accepts a folder without weights.
  static ModelFolder open(FileSystem& files, const std::string& path,
                          WeightsNeeded needed = WeightsNeeded::kYes);

  const std::string& path() const { return path_; }
  // Returns the text of config.json, which is checked to be a JSON object. It is empty if an adapter's folder
  // has none.
  const std::string& config_text() const { return config_text_; }
  // Returns the text of adapter_config.json, which is checked to be a JSON object. It is empty for a complete model.
  const std::string& adapter_config_text() const { return adapter_config_text_; }
  bool is_adapter() const { return !adapter_config_text_.empty(); }
  // Returns the sorted names of the tokenizer files in this folder, which are copied byte for byte.
  const std::vector<std::string>& tokenizer_files() const { return tokenizer_files_; }
  bool has_weights() const { return !weights_.empty(); }
  const std::vector<SafetensorsFile>& weight_files() const { return weights_; }
  // A stored tensor and the file that contains it; null pointers if there is no such tensor.
  struct Located {
    const SafetensorsFile* file = nullptr;
    const StoredTensor* tensor = nullptr;
  };
  Located find(std::string_view name) const;

  // Removes wrappers such as "module." from the names of the tensors if more of the wanted tensors, each with its
  // alternative names, are then found. find() and load() use the names without wrappers from then on; reports name
  // unused tensors as the file does. `own_prefix` as in find_unwrapping(). Errors: kBadData if two tensors get the same
  // name.
  void unwrap_names(std::span<const std::vector<std::string>> wanted, std::string_view own_prefix);
  // Returns a line for the user about removed wrappers, "" if there are none.
  const std::string& unwrapping_note() const { return unwrapping_note_; }
  // Makes read functions return the transposes of these matrices. `names` are names that find() knows.
  void transpose(std::span<const std::string> names);
  // States that a checkpoint will replace all weights of this folder, so that the user need not be told which weights
  // were missing.
  void expect_replacement() { is_replaced_ = true; }
  // Returns the number of tensors in the files.
  int64_t num_tensors() const { return std::ssize(stored_); }
  // Returns the names of the tensors as they are in the files, sorted.
  std::vector<std::string_view> stored_names() const;

  // Loads the requested tensors that exist and reports the rest. The destination of a missing or mismatched
  // tensor is not written. All checks happen before the first byte is read. Errors: kBadData for a mismatch
  // with kFail.
  LoadReport load(std::span<const WantedTensor> wanted, const LoadOptions& options = {}) const;

 private:
  ModelFolder() = default;
  std::string path_;
  std::string config_text_;
  std::string adapter_config_text_;
  std::vector<std::string> tokenizer_files_;
  // The place of a tensor: the index in weights_, and its name there.
  struct Place {
    size_t file = 0;
    std::string name = {};
  };
  std::vector<SafetensorsFile> weights_;
  std::map<std::string, Place, std::less<>> stored_;  // the key is a name that find() accepts
  std::string unwrapping_note_;
  bool is_replaced_ = false;
};

// A file that is saved next to the model, under the name that it has in its source folder. It is copied byte for byte, or contains `text`
// if that has a value.
struct CopiedFile {
  std::string source_path;
  std::optional<std::string> text = std::nullopt;
};

struct ModelContents {
  // a JSON object; written in Hugging Face's format (indent 2, sorted keys, newline)
  std::string config_text;
  // If this text is not empty, the tensors belong to an adapter. The tensors and the text are then written to the
  // adapter's files.
  std::string adapter_config_text = {};
  std::vector<TensorSource> tensors;
  std::vector<CopiedFile> copied_files;
  int64_t max_shard_bytes = kDefaultMaxShardBytes;
};

// A file of the tensors of a model: model.safetensors, a shard, or the file of an adapter.
struct WeightFile {
  std::string name;
  std::vector<TensorSource> tensors;
};

// Returns the files that the tensors are divided into, in order. An adapter is always a single file.
std::vector<WeightFile> weight_files_of(const ModelContents& contents);

// Writes and syncs the files of the model except those of weight_files_of(): config.json, copied files, and the index of
// shards. Returns the written files.
std::vector<WrittenFile> write_model_texts(FileSystem& files, const std::string& folder,
                                           const ModelContents& contents);

// Writes the files of the model into an existing folder and syncs each file, but not the folder. Used for
// folders that a later rename makes visible, such as checkpoints. Returns the written files in order.
std::vector<WrittenFile> write_model_files(FileSystem& files, const std::string& folder,
                                           const ModelContents& contents);

// Writes the files of the model into a folder that may contain an earlier save: writes all files under
// temporary names, renames them one by one (weights last), and removes old shards. A failure before the
// renames leaves the earlier save unchanged. After a crash each file is either old or new, but old and new
// files may be mixed; use checkpoints (checkpoint.h) if that matters.
void save_model_folder(FileSystem& files, const std::string& folder, const ModelContents& contents);

// Names of tensors that were saved from inside a wrapper: torch.compile ("_orig_mod."), DataParallel ("module."),
// FSDP, Lightning ("model."), sentence-transformers ("0.auto_model."), or a class that a user wrote around the model.
// Pure functions; thread-safe.

// A way to remove wrappers from names. A default object removes nothing.
struct Unwrapping {
  // Components that a wrapper may insert anywhere in a name are removed, such as "_orig_mod".
  bool removes_inner = false;
  // The beginning that is removed afterwards from names that have it: "0.auto_model.", "model.".
  std::string prefix = {};

  bool removes_anything() const { return removes_inner || !prefix.empty(); }
  // Returns the name without the wrappers.
  std::string apply(std::string_view name) const;
  friend bool operator==(const Unwrapping&, const Unwrapping&) = default;
};

// Returns the way to remove wrappers after which the files contain most of the wanted tensors, each of which has one
// name or several. Returns a default object if no way finds more tensors than the names as they are. Only components
// that are known to be wrappers are removed, or `own_prefix`, the first component of the model's own names ("bert" in
// "bert.bert."): the weights of another architecture ("roberta.") must not be loaded as those of this model. Cost:
// linear in the names.
Unwrapping find_unwrapping(std::span<const std::string_view> stored,
                           std::span<const std::vector<std::string>> wanted, std::string_view own_prefix);

// Returns a description for the user: "the wrapper 'module.' was removed from the names".
std::string describe_unwrapping(const Unwrapping& unwrapping, std::span<const std::string_view> stored);

}  // namespace plimsoll
