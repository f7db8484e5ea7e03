// The form of an architecture in a GGUF file, the format of llama.cpp: the names of its tensors, the order of their rows, and
// its metadata. The record of an architecture points to its form (Architecture::gguf); an architecture without one cannot be
// exported. The names and keys are those that llama.cpp reads. Thread-safe: constant data and pure functions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/gguf_metadata.h"
#include "models/config.h"

namespace plimsoll {

// The order in which a GGUF file stores the rows of a matrix. A rotary embedding rotates pairs of elements of a head. kAsStored keeps the
// order of Hugging Face's checkpoints: in a matrix of queries or keys, the rows of the first elements of all pairs of a head precede those
// of the second elements. kPairs stores the rows of the two elements of a pair next to each other.
enum class GgufRows : uint8_t { kAsStored, kPairs };

// The name of a module in Hugging Face's checkpoints and in a GGUF file. In both names, '*' is a placeholder for the number of a layer.
struct GgufModule {
  std::string_view module;
  std::string_view gguf;
  GgufRows rows = GgufRows::kAsStored;
};

struct GgufForm {
  // The value of the key general.architecture, which is also the prefix of the model's other keys.
  std::string_view architecture;
  std::span<const GgufModule> modules;
  // The name of the matrix that llama.cpp can only read in f32, or "" if there is none.
  std::string_view table_in_f32 = "";
  // Refuses configurations for which llama.cpp would compute something else than Plimsoll. `where` names the configuration. Errors: kUsage.
  void (*refuse_variants)(const ModelConfig& config, std::string_view where) = nullptr;
  // Adds the sizes and settings of the model. `prefix` is the name of the architecture and a dot, such as "llama.".
  void (*add_metadata)(GgufMetadata& metadata, const ModelConfig& config,
                       const std::string& prefix) = nullptr;
  // Returns the numbers by which a rotary embedding divides the frequencies of its pairs of elements. A GGUF file stores them as a tensor.
  // Returns an empty list for a model without this tensor.
  std::vector<float> (*rope_divisors)(const ModelConfig& config) = nullptr;
  // Returns a sentence for the user about a property of the model that the GGUF file states differently from
  // config.json, or "".
  std::string (*note)(const ModelConfig& config) = nullptr;
};

// A tensor of a GGUF file.
struct GgufName {
  std::string name;
  GgufRows rows = GgufRows::kAsStored;
};

// Returns the name of the tensor that a Hugging Face checkpoint calls `disk_name` ("model.layers.0.mlp.up_proj.weight"), or nothing if GGUF
// files of this architecture do not contain it.
std::optional<GgufName> gguf_name_of(const GgufForm& form, std::string_view disk_name);

}  // namespace plimsoll
