// A Hugging Face model folder: config.json, model.safetensors (or shards with an index), tokenizer files.
// Opened, loaded from, and written.
//
// What it is not: it knows no architecture. Callers say which tensors they want under which names;
// config.json is carried as text. PyTorch pickle files are never read; finding only those is an error that
// says how to convert them.
//
// Thread-safety: a ModelFolder is immutable once open. Ownership: it owns the open weight files, never the
// tensors. Errors: kBadData naming folder, file, tensor and both values; FileError from the disk.
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
// Of an adapter, as PEFT names them.
inline constexpr std::string_view kAdapterConfigFile = "adapter_config.json";
inline constexpr std::string_view kAdapterWeightsFile = "adapter_model.safetensors";
inline constexpr int64_t kDefaultMaxShardBytes = 50'000'000'000;

// model.safetensors.index.json: which file holds which tensor. Pure; checks that every file name stays inside
// the folder.
std::map<std::string, std::string> parse_weight_index(std::string_view json, const std::string& file);

// One tensor that a model wants.
struct WantedTensor {
  // Tried in order, the first that the folder has is loaded; names.front() is the name in reports.
  std::vector<std::string> names;
  std::vector<int64_t> shape;  // of the stored tensor
  // The start of the destination. The stored tensor fills its rows from `first_row` on, where a row has as
  // many elements as one of the stored tensor's: with q, k and v at rows 0, H and 2H a fused [3H, H] weight
  // is loaded without a copy.
  View destination = {};
  int64_t first_row = 0;
  // For memory that the host does not see: called in place of reading into `destination`, in the order in
  // which the tensors lie on the disk.
  std::function<void(const SafetensorsFile& file, const StoredTensor& tensor)> read = {};
};

// The names under which checkpoints store what we call `name`: as it is, without `prefix` ("bert."), each
// also with the old LayerNorm.gamma/beta. `prefix` empty: only the old norm names are added.
std::vector<std::string> stored_name_alternatives(const std::string& name, std::string_view prefix);

enum class OnShapeMismatch : uint8_t { kFail, kTreatAsMissing };

struct LoadOptions {
  OnShapeMismatch on_mismatch =
      OnShapeMismatch::kFail;  // kTreatAsMissing is Hugging Face's ignore_mismatched_sizes
  // Stored names that end with one of these are not reported as unused ("embeddings.position_ids").
  std::vector<std::string> ignored_suffixes;
};

struct ShapeMismatch {
  std::string name;         // as wanted
  std::string stored_name;  // as found
  std::vector<int64_t> wanted;
  std::vector<int64_t> found;
};

struct LoadReport {
  int64_t num_loaded = 0;
  std::vector<std::string> unused;   // stored, not wanted; sorted
  std::vector<std::string> missing;  // wanted, not stored (the caller initialises them); in the order wanted
  std::vector<ShapeMismatch> mismatched;

  bool clean() const { return unused.empty() && missing.empty() && mismatched.empty(); }
};

// What a user reads about a load that was not clean, in Hugging Face's words; empty if it was.
std::string describe_load(const LoadReport& report, std::string_view model_name, std::string_view folder);

enum class WeightsNeeded : uint8_t { kYes, kNo };

// Names of the tokenizer's files in a folder, sorted; a folder without a model may have them too.
std::vector<std::string> find_tokenizer_files(FileSystem& files, const std::string& folder);

class ModelFolder {
 public:
  // Reads config.json and, where there are any, the headers of the weight files. kNo accepts a folder without
  // weights.
  static ModelFolder open(FileSystem& files, const std::string& path,
                          WeightsNeeded needed = WeightsNeeded::kYes);

  const std::string& path() const { return path_; }
  // config.json as it lies on the disk; checked to be a JSON object. An adapter's folder may lack it: "".
  const std::string& config_text() const { return config_text_; }
  // adapter_config.json, likewise; "" in the folder of a whole model.
  const std::string& adapter_config_text() const { return adapter_config_text_; }
  bool is_adapter() const { return !adapter_config_text_.empty(); }
  // Names of the tokenizer's files that are there, sorted; to be carried byte for byte.
  const std::vector<std::string>& tokenizer_files() const { return tokenizer_files_; }
  bool has_weights() const { return !weights_.empty(); }
  const std::vector<SafetensorsFile>& weight_files() const { return weights_; }
  // The stored tensor of that name and the file that holds it; null pointers if there is none.
  struct Located {
    const SafetensorsFile* file = nullptr;
    const StoredTensor* tensor = nullptr;
  };
  Located find(std::string_view name) const;

  // Loads what is wanted and there, and reports the rest. Nothing is written to the destination of a tensor
  // that is missing or mismatched. All checks come before the first byte is read. Errors: kBadData on a
  // mismatch under kFail.
  LoadReport load(std::span<const WantedTensor> wanted, const LoadOptions& options = {}) const;

 private:
  ModelFolder() = default;
  std::string path_;
  std::string config_text_;
  std::string adapter_config_text_;
  std::vector<std::string> tokenizer_files_;
  std::vector<SafetensorsFile> weights_;
  std::map<std::string, size_t, std::less<>> file_of_;  // tensor name -> index in weights_
};

// A file to carry byte for byte: where it is now. It keeps its name.
struct CarriedFile {
  std::string source_path;
};

struct ModelContents {
  std::string config_text;  // JSON object; written as Hugging Face does (indent 2, sorted keys, newline)
  // Where it is not empty, the tensors are an adapter's: they go to its file, with this text beside them.
  std::string adapter_config_text = {};
  std::vector<TensorSource> tensors;
  std::vector<CarriedFile> carried;
  int64_t max_shard_bytes = kDefaultMaxShardBytes;
};

// Writes the model's files into an existing folder and syncs each (not the folder). For folders that become
// visible by a rename later, as checkpoints do. Returns what was written, in order.
std::vector<WrittenFile> write_model_files(FileSystem& files, const std::string& folder,
                                           const ModelContents& contents);

// Writes the model's files into a folder that may hold an earlier save: all under temporary names, then
// renamed one by one with the weights last, then stale shards removed. A failure before the renames leaves
// the earlier save as it was. Each file is the old or the new one after a crash, the set of them may be
// mixed; where that matters use checkpoints (checkpoint.h).
void save_model_folder(FileSystem& files, const std::string& folder, const ModelContents& contents);

}  // namespace plimsoll
