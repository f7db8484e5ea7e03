// A model's configuration in one form for every architecture, and the presets that need no download. Names are
// Hugging Face's. If architectures spell a name differently (DistilBERT's `dim`, `n_layers`), this header uses
// BERT's spelling. Thread-safe: values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem_type.h"
#include "base/rope_parameters.h"
#include "plimsoll/error.h"

namespace plimsoll {

// The config.json from which a configuration was read; empty for a preset.
struct ConfigSource {
  std::string json;  // text of config.json; a saved model keeps its keys that are unknown to Plimsoll
  // Data type of the saved weights, such as "bfloat16"; empty if the text does not state it.
  std::string dtype;
  friend bool operator==(const ConfigSource&, const ConfigSource&) = default;
};

// The dropout probabilities in training.
struct DropoutRates {
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  std::optional<double> embedding_dropout_prob;  // if not set, hidden_dropout_prob is used
  std::optional<double> classifier_dropout;      // if not set, hidden_dropout_prob is used
  friend bool operator==(const DropoutRates&, const DropoutRates&) = default;
};

// The settings of models with rotary positions: the Llama family and ModernBERT.
struct DecoderSettings {
  int64_t num_key_value_heads = 0;  // 0 means num_attention_heads
  int64_t head_dim = 0;             // 0 means hidden_size / num_attention_heads
  // Number of tokens in the window of sliding-window attention; 0 if no layer has a window.
  int64_t sliding_window = 0;
  std::vector<bool> slides;  // for each layer, true if it has the window; empty if all layers have it
  bool qkv_bias = false;
  bool output_bias = false;  // true if the projection after attention has a bias
  bool mlp_bias = false;
  bool head_norms = false;  // true if q and k of each head are normalized
  RopeParameters rope;
  friend bool operator==(const DecoderSettings&, const DecoderSettings&) = default;
};

// The settings of ModernBERT: global layers attend to all tokens, and local layers only to nearby tokens.
struct LocalAttentionSettings {
  int64_t local_attention =
      128;  // a token attends to local_attention / 2 tokens before it and to as many after it
  int64_t global_attn_every_n_layers =
      3;  // every n-th layer is global, the others are local; ignored if `slides` is not empty
  // The rotary embedding of local layers. Global layers use DecoderSettings::rope.
  RopeParameters local_rope;
  bool norm_bias = false;
  bool classifier_bias = false;  // true if the dense layer of the head has a bias
  bool decoder_bias =
      true;  // true if the matrix product of the head for masked language modelling has a bias
  std::string classifier_activation = "gelu";
  // "cls" if the head for sequences reads the first token, "mean" if it reads the mean of all tokens.
  std::string classifier_pooling = "cls";
  // Initial weights are drawn from a normal distribution that is truncated at this number of standard deviations; 3 if not set.
  std::optional<double> initializer_cutoff_factor;
  // Returns true if the layer attends to nearby tokens only.
  bool is_local(int64_t layer, const std::vector<bool>& slides) const {
    return slides.empty() ? layer % global_attn_every_n_layers != 0 : slides[static_cast<size_t>(layer)];
  }
  friend bool operator==(const LocalAttentionSettings&, const LocalAttentionSettings&) = default;
};

struct ModelConfig : DropoutRates, DecoderSettings, LocalAttentionSettings {
  std::string model_type = "bert";  // the type name of an architecture, such as "bert"
  std::string hidden_act = "gelu";  // one of the names in base/activation_names.h
  int64_t vocab_size = 30522;
  int64_t hidden_size = 768;
  int64_t embedding_size =
      // Width of the embeddings; if it differs from hidden_size, a projection follows them; 0 means hidden_size.
      0;
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t intermediate_size = 3072;
  int64_t max_position_embeddings = 512;
  int64_t type_vocab_size = 2;
  int64_t pad_token_id =
      // Id of the padding token, whose word embedding starts as zero and gets no gradient; -1 if there is none.
      0;
  double layer_norm_eps = 1e-12;
  double initializer_range = 0.02;
  int64_t num_labels = 2;
  std::vector<std::string> id2label;  // if empty, the labels are LABEL_0, LABEL_1, ...
  std::optional<ProblemType> problem_type;
  // True if the head for language modelling multiplies by the table of word embeddings instead of a separate matrix.
  bool tie_word_embeddings = true;
  ConfigSource source;

  // Returns the width of the embedding tables.
  int64_t embedding_width() const { return embedding_size == 0 ? hidden_size : embedding_size; }
  int64_t heads_of_keys() const {
    return num_key_value_heads == 0 ? num_attention_heads : num_key_value_heads;
  }
  int64_t head_width() const { return head_dim == 0 ? hidden_size / num_attention_heads : head_dim; }
  // Returns the window of a layer's attention, or 0 if the layer attends to all tokens.
  int64_t window_of(int64_t layer) const {
    return slides.empty() || slides[static_cast<size_t>(layer)] ? sliding_window : 0;
  }
  // Returns the number of logits per prediction: one per token of the vocabulary for language modelling, otherwise one per label.
  int64_t num_outputs() const { return predicts_tokens() ? vocab_size : num_labels; }
  bool predicts_tokens() const { return problem_type && record_of(*problem_type).head->predicts_tokens; }
  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

// Reads the text of a config.json. `where` names the file in messages. Errors: kBadData for text that is not
// JSON, a wrong type (the message names the key and both types), and sizes that are out of range or do not divide
// each other; kUsage for an unknown architecture.
ModelConfig parse_model_config(std::string_view json, std::string_view where);

// Returns the config.json of a fine-tuned model: the keys of the file from which the configuration was read (ConfigSource), with the
// labels, problem type, architecture and data type of the trained model. It has two spaces of indent, sorted keys and one newline at the
// end, as Hugging Face writes it.
std::string model_config_json(const ModelConfig& config);

// Returns the configuration of a published model by its name on the Hugging Face Hub ("bert-large-uncased", "google-bert/bert-base-cased",
// "distilbert-base-uncased", "sentence-transformers/all-MiniLM-L6-v2", ...), or nothing if no preset has this name.
std::optional<ModelConfig> find_preset(std::string_view name);
std::vector<std::string> preset_names();

// Describes the outputs of the model: returns "3 labels", for example, or "logits of 50257 tokens" for a language model.
std::string describe_outputs(const ModelConfig& config);

// Applies "key=value,key=value" (run_clm's --config_overrides) with the names of config.json. Errors: kUsage.
void apply_config_overrides(ModelConfig& config, std::string_view overrides);

// Checks the sizes of a configuration. Errors: kBadData if they contradict each other (the message names both values).
void check_model_config(const ModelConfig& config, std::string_view where);

}  // namespace plimsoll
