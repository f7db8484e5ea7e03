// Finds the model of a run: its configuration, the folder of its weights and its adapter. Functions that read files and return values;
// thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/problem_type.h"
#include "io/ckpt/model_folder.h"
#include "io/hub/hub_cache.h"
#include "models/lora.h"
#include "models/model.h"
#include "plan/request/rules.h"
#include "run/run_purpose.h"

namespace plimsoll {

// Returns true if the model's task is language modelling, whose data is documents instead of rows with labels.
inline bool is_language_model(const ModelConfig& config) {
  return config.predicts_tokens();
}

// Returns true if the model is a masked language model, which predicts the tokens that a mask hides.
inline bool is_masked_language_model(const ModelConfig& config) {
  return config.problem_type && record_of(*config.problem_type).head->hides_tokens;
}

struct ModelSource {
  ModelConfig config = {};
  std::string label = {};  // name of the model in tables
  // A note for the user about how the problem type was inferred, if that is not obvious.
  std::string task_note = {};
  std::string base_model = {};  // The base model that a saved adapter names; "" for a model from scratch.
  // folder of the weights; if not set, all weights get random initial values
  std::optional<ModelFolder> weights = {};
  std::optional<ModelFolder> adapter = {};  // folder of the existing adapter that the run begins with
  AdapterHead adapter_head = {};            // the head for which the existing adapter was trained
  AdapterFacts adapter_facts = {};
  // adapter settings from lora_of(), for an existing or a new adapter
  std::optional<LoraConfig> lora = {};
};

// Finds the model that the arguments name: a folder, a name in the local cache of the Hugging Face Hub, or a preset. Errors: kUsage if no
// model is named, and if an adapter would be saved into the folder of its base; as find_adapter() and choose_lora(); kBadData for a
// folder or configuration that cannot be read, and for an adapter of another model_type than its base.
ModelSource find_model(const Arguments& arguments, RunPurpose purpose, const HubEnvironment& hub,
                       FileSystem& files);

// Finds the adapter of a run: an existing one, or the settings of a new one with the data type in which the base model is stored.
// Functions that read files and return values; thread-safe.

struct AdapterSource {
  std::string base_model = {};  // The base model that a saved adapter names; "" for a model from scratch.
  std::optional<ModelFolder> folder = {};  // folder of an existing adapter
  std::optional<LoraConfig> lora = {};     // settings of an existing adapter
  AdapterHead head = {};                   // the head for which an existing adapter was trained
};

// Returns the existing adapter, if the arguments name one, and the name of the base model. --model_name_or_path may be the folder of an
// adapter, which contains the name of its base model. Errors: kUsage if no base model is named; kBadData for a folder that does not exist
// or contains no adapter.
AdapterSource find_adapter(const Arguments& arguments, RunPurpose purpose, const HubEnvironment& hub,
                           FileSystem& files);

// Returns the configuration with the problem type of the adapter's head, because the base model may be a language model. If the adapter
// does not state its head but contains a classifier, a language model becomes a classifier. Takes the number of labels from the saved
// classifier, unless the adapter's folder has a config.json with the labels.
ModelConfig with_adapter_head(ModelConfig config, const ModelFolder& adapter, const AdapterHead& head);

// Checks that an adapter in `folder` was trained for the head of this problem type, if it states its head. Errors: kUsage.
void check_adapter_head(const AdapterHead& head, const std::string& folder, ProblemType problem_type);

// Returns the settings of the run's adapter, from lora_of(). Errors: as lora_of(), and kUsage for a new adapter in a run that trains
// nothing.
std::optional<LoraConfig> choose_lora(const Arguments& arguments, RunPurpose purpose,
                                      const ModelConfig& config, const AdapterFacts& adapter);

// Suggests models for names that are neither a folder nor in the local cache of the Hugging Face Hub. The suggestions are shown before
// advice to download the model. Pure functions; thread-safe.

// If a Hub name contains the name of an architecture that this version does not support, returns that architecture, such as "Longformer";
// otherwise "".
std::string_view foreign_architecture(std::string_view name);

// Returns the presets that a shortened or misspelled name probably means, the most usual one first: "bert-large-uncased" for
// "bert-large".
std::vector<std::string> similar_presets(std::string_view name);

// Resolves the name or path of a model like resolve_model_folder(), but with better errors. Errors: kUsage, instead of advice to download
// the model, for a name that is not found and that contains an unsupported architecture or is a part of a preset's name; otherwise as
// resolve_model_folder().
std::string resolve_model(FileSystem& files, const HubEnvironment& hub, const std::string& name,
                          const std::string& revision, const FolderArgument& argument);

// Stores in a model which columns of a data file it was trained on, so that evaluation and prediction read the same columns. They are
// stored in its config.json under the keys text_column_names, label_column_name and label_delimiter, as the arguments are called. Hugging
// Face's libraries preserve keys that they do not know. Thread-safe: values and pure functions.

struct TrainedColumns {
  std::vector<std::string> text;  // names of one or two text columns; empty if not known
  std::string label;              // name of the label column; "" if not known
  // The text between the labels of a cell that contains several; "" if not known.
  std::string label_delimiter = {};
};

// Returns the columns that a config.json names. Keys of an unexpected type are ignored, since another program wrote them.
TrainedColumns trained_columns(std::string_view config_json);

// Returns the JSON text with these columns added, or with the keys removed if the columns are not known. An empty text remains empty if
// the columns are not known. Requires: the text is "" or a JSON object.
std::string with_trained_columns(const std::string& config_json, const TrainedColumns& columns);

}  // namespace plimsoll
