// Describes an architecture as one record: how its config.json is read and written, its weights, its forward graph, the sizes of its
// published models and the defaults that depend on it. Code elsewhere reads the record instead of comparing the model_type with
// names. Each record is defined in a folder below models/, and architectures.inc lists them. Thread-safe: constant data and pure
// functions.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/ir/graph.h"
#include "models/config.h"
#include "models/weight_spec.h"

namespace plimsoll {

class ConfigReader;
class ModelBuilder;
struct GgufForm;

// A key of config.json and the field of ModelConfig that it sets.
using ConfigField = std::variant<int64_t ModelConfig::*, double ModelConfig::*, std::string ModelConfig::*,
                                 std::optional<double> ModelConfig::*, bool ModelConfig::*>;
struct ConfigKey {
  const char* name = nullptr;
  ConfigField field;
};

// The sizes of a model on the Hugging Face Hub, as its config.json states them.
struct Preset {
  std::string_view name;
  std::string_view organisation;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t intermediate_size = 0;
  int64_t embedding_size = 0;  // number of columns of the embedding tables; 0 means hidden_size
  void (*adjust)(ModelConfig& config) =
      nullptr;  // sets all other values that differ from Architecture::set_defaults(); null if there are none
};

// The part of a model that turns the encoder's output into logits.
struct Head {
  const HeadKind* kind = nullptr;
  void (*add_weights)(std::vector<WeightSpec>& specs, const ModelConfig& config) = nullptr;
  // Builds the head and returns the logits, with one row per prediction: [B, K] or [T, K].
  ValueId (*build)(ModelBuilder& builder, ValueId x_TC) = nullptr;
};

// How the positions of tokens enter a model.
enum class Positions : uint8_t {
  kLearned,  // each position has an embedding, and the first position of a row is 0
  kLearnedAfterPadding,  // the same, but positions start at pad_token_id + 1 and padding has the position pad_token_id, as in RoBERTa
  kRotary,  // attention rotates q and k, so that only the distances between tokens matter
};

struct Architecture {
  std::string_view model_type;  // value of the key model_type in config.json
  // The beginning of the name of Hugging Face's class. A suffix that depends on the HeadKind follows it.
  std::string_view class_prefix;
  // True if the class for language modelling has the suffix HeadKind::old_suffix, as in Hugging Face's GPT2LMHeadModel.
  bool has_old_class_names = false;
  // The keys of config.json that only this architecture has, in addition to common_config_keys().
  std::span<const ConfigKey> config_keys;
  // Sets the defaults of this architecture that differ from those of ModelConfig.
  void (*set_defaults)(ModelConfig& config) = nullptr;
  // Refuses configurations with a forward pass that Plimsoll does not compute for this architecture. Errors: kUsage.
  void (*refuse_variants)(const ConfigReader& reader) = nullptr;
  // Sets the sizes that a config.json may omit because they follow from other sizes. Null if there are no such sizes.
  void (*complete)(ModelConfig& config, const ConfigReader& reader) = nullptr;
  // Writes the keys of config.json that config_keys cannot list, because they do not set exactly one field. Null if there are none.
  void (*write_config)(nlohmann::json& json, const ModelConfig& config) = nullptr;
  bool has_token_types = false;
  // True if transformers adds the word embedding with the index of the token type to each token. Plimsoll does not compute this.
  bool types_are_words = false;
  Positions positions = Positions::kLearned;
  void (*add_encoder_weights)(std::vector<WeightSpec>& specs, const ModelConfig& config) = nullptr;
  // Builds the encoder and returns x_TC, the hidden state of every token.
  ValueId (*build_encoder)(ModelBuilder& builder) = nullptr;
  std::span<const Head> heads;
  std::span<const Preset> presets;
  // Names of the modules that get LoRA adapters by default, as in PEFT. Empty if PEFT has no default for the architecture.
  std::span<const std::string_view> lora_targets;
  // Endings of the names of checkpoint tensors that no weight needs and that are not reported as unused: buffers that transformers once
  // saved, and copies of tied weights.
  std::span<const std::string_view> ignored_on_disk = {};
  // True if checkpoints store the matrices of linear layers transposed. Adapters are then saved with fan_in_fan_out,
  // as PEFT does.
  bool stores_transposed = false;
  // Tensor names and metadata of the architecture in a GGUF file (gguf_form.h); null if it cannot be exported
  // to one.
  const GgufForm* gguf = nullptr;
};

// Returns every architecture, in the order in which messages list them.
std::span<const Architecture* const> architectures();

// Returns null if no architecture has this model_type.
const Architecture* find_architecture(std::string_view model_type);

// Returns the architecture with this model_type. Requires: there is one, which is true for every checked
// configuration.
const Architecture& architecture_of(std::string_view model_type);

// Returns the id of the padding token if the positions of tokens start after this id (Positions::kLearnedAfterPadding), else -1. In
// both cases the first token of a text has the position (result + 1).
int64_t position_padding_id(const ModelConfig& config);

// Returns true if transformers computes another result for a row when padding precedes its tokens, because it counts the padding as
// positions with embeddings of their own.
bool depends_on_left_padding(const ModelConfig& config);

// Returns the number of token types that have an embedding, or 0 if the model has no embeddings of token types.
int64_t num_token_types(const ModelConfig& config);

// Returns the largest number of tokens that a text may have. The model has no positions beyond it.
int64_t max_sequence_length(const ModelConfig& config);

// Returns the head for the problem type of the configuration, or the head for sequences if the configuration states none. Errors: kUsage if
// the architecture does not have this head.
const Head& head_of(const ModelConfig& config);

// Returns Hugging Face's class for this model, such as "BertForSequenceClassification".
std::string hugging_face_class(const ModelConfig& config);

}  // namespace plimsoll
