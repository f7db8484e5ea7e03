#include "models/llama/llama_config.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "base/check.h"
#include "models/blocks/rope_config.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

constexpr std::array kKeys{
    ConfigKey{"hidden_size", &ModelConfig::hidden_size},
    ConfigKey{"num_hidden_layers", &ModelConfig::num_hidden_layers},
    ConfigKey{"num_attention_heads", &ModelConfig::num_attention_heads},
    ConfigKey{"num_key_value_heads", &ModelConfig::num_key_value_heads},
    ConfigKey{"intermediate_size", &ModelConfig::intermediate_size},
    ConfigKey{"max_position_embeddings", &ModelConfig::max_position_embeddings},
    ConfigKey{"hidden_act", &ModelConfig::hidden_act},
    ConfigKey{"rms_norm_eps", &ModelConfig::layer_norm_eps},
    ConfigKey{"attention_dropout", &ModelConfig::attention_probs_dropout_prob},
    ConfigKey{"classifier_dropout", &ModelConfig::classifier_dropout},
    ConfigKey{"tie_word_embeddings", &ModelConfig::tie_word_embeddings},
    ConfigKey{"head_dim", &ModelConfig::head_dim},
};

// Sets transformers' defaults for the whole family.
void set_family_defaults(ModelConfig& config) {
  config.vocab_size = 32000;
  config.hidden_size = 4096;
  config.intermediate_size = 11008;
  config.num_hidden_layers = 32;
  config.num_attention_heads = 32;
  config.max_position_embeddings = 2048;
  config.hidden_act = "silu";
  config.layer_norm_eps = 1e-6;
  config.pad_token_id = -1;
  config.hidden_dropout_prob = 0.0;
  config.attention_probs_dropout_prob = 0.0;
  config.classifier_dropout = 0.1;  // only the head for token classification has this dropout
  config.tie_word_embeddings = false;
}

// Fills in the sizes that follow from others, and reads the rotary embedding.
void complete_family(ModelConfig& config, const ConfigReader& reader) {
  if (config.num_attention_heads < 1 || config.num_hidden_layers < 1)
    return;  // check_model_config() reports an error for numbers of heads or layers below 1
  if (reader.find("num_key_value_heads") != nullptr && config.num_key_value_heads < 1) {
    throw_error(ErrorCode::kBadData,
                "{}: num_key_value_heads is {}, it must be null or above 0; correct the value",
                reader.where(), config.num_key_value_heads);
  }
  if (config.num_key_value_heads == 0) {
    config.num_key_value_heads = config.num_attention_heads;
  }
  if (config.head_dim == 0 && config.hidden_size % config.num_attention_heads == 0) {
    config.head_dim = config.hidden_size / config.num_attention_heads;
  }
  read_rope(config, reader);
}

// Reads attention_bias, which states for Llama and Qwen3 whether all four linear layers of attention (q, k, v, output) have biases.
void read_attention_bias(ModelConfig& config, const ConfigReader& reader) {
  reader.read(config.output_bias, "attention_bias");
  config.qkv_bias = config.output_bias;
}

void write_family(Json& json, const ModelConfig& config) {
  write_rope(json, config);
}

int64_t read_window(const ConfigReader& reader, int64_t fallback) {
  if (reader.has("sliding_window") && reader.find("sliding_window") == nullptr) return 0;
  int64_t window = fallback;
  reader.read(window, "sliding_window");
  if (window < 1) {
    throw_error(ErrorCode::kBadData,
                "{}: sliding_window is {}, it must be null or above 0; correct the value", reader.where(),
                window);
  }
  return window;
}

void set_llama_defaults(ModelConfig& config) {
  set_family_defaults(config);
}
void complete_llama(ModelConfig& config, const ConfigReader& reader) {
  complete_family(config, reader);
  read_attention_bias(config, reader);
  reader.read(config.mlp_bias, "mlp_bias");
}
void write_llama(Json& json, const ModelConfig& config) {
  write_family(json, config);
  json["attention_bias"] = config.output_bias;
  json["mlp_bias"] = config.mlp_bias;
}

void set_mistral_defaults(ModelConfig& config) {
  set_family_defaults(config);
  config.intermediate_size = 14336;
  config.max_position_embeddings = 4096 * 32;
  config.num_key_value_heads = 8;
  config.sliding_window = 4096;
}
void complete_mistral(ModelConfig& config, const ConfigReader& reader) {
  // The value null means one head of keys and values per head of queries, as in transformers.
  if (reader.has("num_key_value_heads") && reader.find("num_key_value_heads") == nullptr)
    config.num_key_value_heads = config.num_attention_heads;
  complete_family(config, reader);
  config.sliding_window = read_window(reader, config.sliding_window);
}
void write_mistral(Json& json, const ModelConfig& config) {
  write_family(json, config);
  json["sliding_window"] = config.sliding_window == 0 ? Json(nullptr) : Json(config.sliding_window);
}

constexpr const char* kSliding = "sliding_attention";
constexpr const char* kFull = "full_attention";
constexpr int64_t kMaxWindowLayers = 28;

// Reads the layers to which Qwen's window applies: those that layer_types names, or else those from
// max_window_layers on.
void read_qwen_windows(ModelConfig& config, const ConfigReader& reader) {
  bool uses = false;
  reader.read(uses, "use_sliding_window");
  config.sliding_window = uses ? read_window(reader, 4096) : 0;
  config.slides.clear();
  int64_t first = kMaxWindowLayers;
  reader.read(first, "max_window_layers");
  const Json* types = reader.find("layer_types");
  if (types != nullptr && !types->is_array()) reader.wrong_type("layer_types", *types, "a list of strings");
  if (types != nullptr && std::ssize(*types) != config.num_hidden_layers) {
    throw_error(ErrorCode::kBadData,
                "{}: layer_types has {} entries, and num_hidden_layers is {}; correct one of them",
                reader.where(), types->size(), config.num_hidden_layers);
  }
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    bool slides = layer >= first;
    if (types != nullptr) {
      const Json& type = (*types)[static_cast<size_t>(layer)];
      if (type != kSliding && type != kFull) {
        throw_error(ErrorCode::kUsage, "{}: layer_types[{}] is {}; this version computes '{}' and '{}'",
                    reader.where(), layer, type.dump().substr(0, 40), kSliding, kFull);
      }
      slides = type == kSliding;
    }
    if (config.sliding_window > 0) config.slides.push_back(slides);
    if (config.sliding_window == 0 && types != nullptr && slides) {
      throw_error(ErrorCode::kBadData,
                  "{}: layer_types[{}] is '{}', and use_sliding_window is false; correct one of them",
                  reader.where(), layer, kSliding);
    }
  }
}

// Writes the keys that describe the attention window. If only some layers have a window, also writes the list of layer types, because a
// reader that finds no list would derive one from other keys.
void write_qwen_windows(Json& json, const ModelConfig& config) {
  json["use_sliding_window"] = config.sliding_window > 0;
  if (config.sliding_window > 0) json["sliding_window"] = config.sliding_window;
  json.erase("layer_types");
  if (config.slides.empty()) return;
  Json types = Json::array();
  for (const bool slides : config.slides) types.push_back(slides ? kSliding : kFull);
  json["layer_types"] = std::move(types);
}

void set_qwen_defaults(ModelConfig& config) {
  set_family_defaults(config);
  config.vocab_size = 151936;
  config.intermediate_size = 22016;
  config.max_position_embeddings = 32768;
}
void set_qwen2_defaults(ModelConfig& config) {
  set_qwen_defaults(config);
  config.qkv_bias = true;
}
void complete_qwen2(ModelConfig& config, const ConfigReader& reader) {
  complete_family(config, reader);
  read_qwen_windows(config, reader);
}
void write_qwen2(Json& json, const ModelConfig& config) {
  write_family(json, config);
  write_qwen_windows(json, config);
}

void set_qwen3_defaults(ModelConfig& config) {
  set_qwen_defaults(config);
  config.head_dim = 128;
  config.head_norms = true;
}
void complete_qwen3(ModelConfig& config, const ConfigReader& reader) {
  complete_family(config, reader);
  read_attention_bias(config, reader);
  read_qwen_windows(config, reader);
}
void write_qwen3(Json& json, const ModelConfig& config) {
  write_family(json, config);
  write_qwen_windows(json, config);
  json["attention_bias"] = config.output_bias;
}

// The settings of a preset for which the table of presets has no column.
struct PresetDetails {
  int64_t kv_heads = 1, head_dim = 64, positions = 2048;
  double theta = 10000.0;
  bool tied = false;
  double eps = 1e-5;
};
void apply_details(ModelConfig& config, const PresetDetails& details) {
  config.num_key_value_heads = details.kv_heads;
  config.head_dim = details.head_dim;
  config.max_position_embeddings = details.positions;
  config.rope.theta = details.theta;
  config.tie_word_embeddings = details.tied;
  config.layer_norm_eps = details.eps;
}
// Sets the details of a preset of Llama 3.1 or later. Its rotary embedding was trained for 8192 positions and extended afterwards.
void apply_llama3_details(ModelConfig& config, const PresetDetails& details, double factor) {
  apply_details(config, details);
  config.rope.type = RopeType::kLlama3;
  config.rope.factor = factor;
  config.rope.original = 8192.0;
}

constexpr std::array kLlamaPresets{
    Preset{"Llama-3.2-1B", "meta-llama", 128256, 2048, 16, 32, 8192, 0,
           [](ModelConfig& config) {
             apply_llama3_details(config, {8, 64, 131072, 500000.0, true}, 32.0);
           }},
    Preset{"Llama-3.2-3B", "meta-llama", 128256, 3072, 28, 24, 8192, 0,
           [](ModelConfig& config) {
             apply_llama3_details(config, {8, 128, 131072, 500000.0, true}, 32.0);
           }},
    Preset{"Llama-3.1-8B", "meta-llama", 128256, 4096, 32, 32, 14336, 0,
           [](ModelConfig& config) {
             apply_llama3_details(config, {8, 128, 131072, 500000.0, false}, 8.0);
           }},
    Preset{"TinyLlama-1.1B-Chat-v1.0", "TinyLlama", 32000, 2048, 22, 32, 5632, 0,
           [](ModelConfig& config) {
             apply_details(config, {4, 64, 2048, 10000.0, false});
           }},
    Preset{"SmolLM2-135M", "HuggingFaceTB", 49152, 576, 30, 9, 1536, 0,
           [](ModelConfig& config) {
             apply_details(config, {3, 64, 8192, 100000.0, true});
           }},
    Preset{"SmolLM2-360M", "HuggingFaceTB", 49152, 960, 32, 15, 2560, 0,
           [](ModelConfig& config) {
             apply_details(config, {5, 64, 8192, 100000.0, true});
           }},
    Preset{"SmolLM2-1.7B", "HuggingFaceTB", 49152, 2048, 24, 32, 8192, 0,
           [](ModelConfig& config) {
             apply_details(config, {32, 64, 8192, 130000.0, true});
           }},
};
constexpr std::array kMistralPresets{
    Preset{"Mistral-7B-v0.3", "mistralai", 32768, 4096, 32, 32, 14336, 0,
           [](ModelConfig& config) {
             apply_details(config, {8, 128, 32768, 1000000.0, false});
             config.sliding_window = 0;
           }},
};
constexpr std::array kQwen2Presets{
    Preset{"Qwen2.5-0.5B", "Qwen", 151936, 896, 24, 14, 4864, 0,
           [](ModelConfig& config) {
             apply_details(config, {2, 64, 32768, 1000000.0, true, 1e-6});
           }},
    Preset{"Qwen2.5-1.5B", "Qwen", 151936, 1536, 28, 12, 8960, 0,
           [](ModelConfig& config) {
             apply_details(config, {2, 128, 131072, 1000000.0, true, 1e-6});
           }},
    Preset{"Qwen2.5-3B", "Qwen", 151936, 2048, 36, 16, 11008, 0,
           [](ModelConfig& config) {
             apply_details(config, {2, 128, 32768, 1000000.0, true, 1e-6});
           }},
    Preset{"Qwen2.5-7B", "Qwen", 152064, 3584, 28, 28, 18944, 0,
           [](ModelConfig& config) {
             apply_details(config, {4, 128, 131072, 1000000.0, false, 1e-6});
           }},
};
constexpr std::array kQwen3Presets{
    Preset{"Qwen3-0.6B", "Qwen", 151936, 1024, 28, 16, 3072, 0,
           [](ModelConfig& config) {
             apply_details(config, {8, 128, 40960, 1000000.0, true, 1e-6});
           }},
    Preset{"Qwen3-1.7B", "Qwen", 151936, 2048, 28, 16, 6144, 0,
           [](ModelConfig& config) {
             apply_details(config, {8, 128, 40960, 1000000.0, true, 1e-6});
           }},
    Preset{"Qwen3-4B", "Qwen", 151936, 2560, 36, 32, 9728, 0,
           [](ModelConfig& config) {
             apply_details(config, {8, 128, 40960, 1000000.0, true, 1e-6});
           }},
    Preset{"Qwen3-8B", "Qwen", 151936, 4096, 36, 32, 12288, 0,
           [](ModelConfig& config) {
             apply_details(config, {8, 128, 40960, 1000000.0, false, 1e-6});
           }},
};

}  // namespace

const LlamaVariant& llama_variant() {
  static const LlamaVariant variant{kKeys, set_llama_defaults, complete_llama, write_llama, kLlamaPresets};
  return variant;
}
const LlamaVariant& mistral_variant() {
  static const LlamaVariant variant{kKeys, set_mistral_defaults, complete_mistral, write_mistral,
                                    kMistralPresets};
  return variant;
}
const LlamaVariant& qwen2_variant() {
  static const LlamaVariant variant{kKeys, set_qwen2_defaults, complete_qwen2, write_qwen2, kQwen2Presets};
  return variant;
}
const LlamaVariant& qwen3_variant() {
  static const LlamaVariant variant{kKeys, set_qwen3_defaults, complete_qwen3, write_qwen3, kQwen3Presets};
  return variant;
}

}  // namespace plimsoll
