#include "models/modernbert/modernbert_config.h"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "base/check.h"
#include "models/blocks/rope_config.h"
#include "models/config_reader.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

constexpr const char* kLocal = "sliding_attention";
constexpr const char* kGlobal = "full_attention";

constexpr std::array kKeys{
    ConfigKey{"hidden_size", &ModelConfig::hidden_size},
    ConfigKey{"num_hidden_layers", &ModelConfig::num_hidden_layers},
    ConfigKey{"num_attention_heads", &ModelConfig::num_attention_heads},
    ConfigKey{"intermediate_size", &ModelConfig::intermediate_size},
    ConfigKey{"max_position_embeddings", &ModelConfig::max_position_embeddings},
    ConfigKey{"hidden_activation", &ModelConfig::hidden_act},
    ConfigKey{"norm_eps", &ModelConfig::layer_norm_eps},
    ConfigKey{"norm_bias", &ModelConfig::norm_bias},
    ConfigKey{"mlp_bias", &ModelConfig::mlp_bias},
    ConfigKey{"classifier_bias", &ModelConfig::classifier_bias},
    ConfigKey{"decoder_bias", &ModelConfig::decoder_bias},
    ConfigKey{"classifier_activation", &ModelConfig::classifier_activation},
    ConfigKey{"classifier_pooling", &ModelConfig::classifier_pooling},
    ConfigKey{"embedding_dropout", &ModelConfig::embedding_dropout_prob},
    ConfigKey{"attention_dropout", &ModelConfig::attention_probs_dropout_prob},
    ConfigKey{"mlp_dropout", &ModelConfig::hidden_dropout_prob},
    ConfigKey{"classifier_dropout", &ModelConfig::classifier_dropout},
    ConfigKey{"local_attention", &ModelConfig::local_attention},
    ConfigKey{"global_attn_every_n_layers", &ModelConfig::global_attn_every_n_layers},
    ConfigKey{"initializer_cutoff_factor", &ModelConfig::initializer_cutoff_factor},
    ConfigKey{"tie_word_embeddings", &ModelConfig::tie_word_embeddings},
};

// Every published checkpoint of this architecture averages the tokens, which is not transformers' default.
constexpr std::array kPresets{
    Preset{"ModernBERT-base", "answerdotai", 50368, 768, 22, 12, 1152, 0,
           [](ModelConfig& config) { config.classifier_pooling = "mean"; }},
    Preset{"ModernBERT-large", "answerdotai", 50368, 1024, 28, 16, 2624, 0,
           [](ModelConfig& config) { config.classifier_pooling = "mean"; }},
};

void require_at_least(const ConfigReader& reader, const char* key, int64_t value, int64_t least) {
  if (value >= least) return;
  throw_error(ErrorCode::kBadData, "{}: {} is {}, it must be at least {}; correct the value", reader.where(),
              key, value, least);
}

// Reads which layers are local. A list of layer_types takes precedence over global_attn_every_n_layers. A list with a
// regular pattern is stored as the interval, so that both forms of config.json give the same configuration.
void read_layer_types(ModelConfig& config, const ConfigReader& reader) {
  require_at_least(reader, "global_attn_every_n_layers", config.global_attn_every_n_layers, 1);
  config.slides.clear();
  const Json* types = reader.find("layer_types");
  if (types == nullptr) return;
  if (!types->is_array()) reader.wrong_type("layer_types", *types, "a list of strings");
  if (std::ssize(*types) != config.num_hidden_layers) {
    throw_error(ErrorCode::kBadData,
                "{}: layer_types has {} entries, and num_hidden_layers is {}; correct one of them",
                reader.where(), types->size(), config.num_hidden_layers);
  }
  for (size_t layer = 0; layer < types->size(); ++layer) {
    const Json& type = (*types)[layer];
    if (type != kLocal && type != kGlobal) {
      throw_error(ErrorCode::kUsage, "{}: layer_types[{}] is {}; this version computes '{}' and '{}'",
                  reader.where(), layer, type.dump().substr(0, 40), kLocal, kGlobal);
    }
    config.slides.push_back(type == kLocal);
  }
  const std::vector<bool> listed = config.slides;
  for (int64_t interval = 1; interval <= config.num_hidden_layers; ++interval) {
    config.global_attn_every_n_layers = interval;
    int64_t layer = 0;
    while (layer < std::ssize(listed) && config.is_local(layer, {}) == config.is_local(layer, listed))
      ++layer;
    if (layer == std::ssize(listed)) return config.slides.clear();
  }
}

// Reads the rotary embedding of one type of layer: its object in rope_parameters, and the keys of rope_scaling, which apply to
// both types of layers.
RopeParameters read_rope_of(const ModelConfig& config, const ConfigReader& reader, const char* type,
                            double theta) {
  Json object = Json::object();
  std::string where = fmt::format("{}: rope_parameters", reader.where());
  if (const Json* parameters = reader.find("rope_parameters")) {
    const Json* found = ConfigReader(*parameters, where).find(type);
    where += fmt::format(".{}", type);
    if (found != nullptr) {
      if (!found->is_object()) ConfigReader(*parameters, where).wrong_type(type, *found, "an object");
      object = *found;
    }
  }
  if (const Json* scaling = reader.find("rope_scaling")) {
    if (!scaling->is_object()) reader.wrong_type("rope_scaling", *scaling, "an object");
    where = fmt::format("{}: rope_scaling", reader.where());
    object.update(*scaling);
  }
  return read_rope_object(config, reader, object, where, theta);
}

void read_both_ropes(ModelConfig& config, const ConfigReader& reader) {
  check_rope_width(config, reader);
  if (const Json* parameters = reader.find("rope_parameters")) {
    if (!parameters->is_object()) reader.wrong_type("rope_parameters", *parameters, "an object");
    for (const auto& [key, value] : parameters->items()) {
      if (key == kLocal || key == kGlobal) continue;
      throw_error(ErrorCode::kUsage,
                  "{}: rope_parameters has the key '{}'; its keys must be the types of layers '{}' and '{}'",
                  reader.where(), key, kGlobal, kLocal);
    }
  }
  double global = config.rope.theta, local = config.local_rope.theta;
  reader.read(global, "global_rope_theta");
  // If local_rope_theta is null, local layers have the same base as global layers, as in transformers 4.
  if (reader.has("local_rope_theta") && reader.find("local_rope_theta") == nullptr) local = global;
  reader.read(local, "local_rope_theta");
  config.rope = read_rope_of(config, reader, kGlobal, global);
  config.local_rope = read_rope_of(config, reader, kLocal, local);
}

}  // namespace

std::span<const ConfigKey> modernbert_keys() {
  return kKeys;
}
std::span<const Preset> modernbert_presets() {
  return kPresets;
}

void set_modernbert_defaults(ModelConfig& config) {
  config.vocab_size = 50368;
  config.hidden_size = 768;
  config.intermediate_size = 1152;
  config.num_hidden_layers = 22;
  config.num_attention_heads = 12;
  config.max_position_embeddings = 8192;
  config.pad_token_id = 50283;
  config.layer_norm_eps = 1e-5;
  config.initializer_cutoff_factor = 2.0;
  config.hidden_dropout_prob = 0.0;
  config.attention_probs_dropout_prob = 0.0;
  config.embedding_dropout_prob = 0.0;
  config.classifier_dropout = 0.0;
  config.rope.theta = 160000.0;
  config.local_rope.theta = 10000.0;
}

void complete_modernbert(ModelConfig& config, const ConfigReader& reader) {
  if (config.num_attention_heads < 1 || config.num_hidden_layers < 1 ||
      config.hidden_size % config.num_attention_heads != 0)
    return;  // check_model_config() reports sizes below 1, and a width that is no multiple of the heads
  reader.read(config.output_bias, "attention_bias");
  config.qkv_bias = config.output_bias;
  require_at_least(reader, "local_attention", config.local_attention, 0);
  if (config.classifier_pooling != "cls" && config.classifier_pooling != "mean") {
    throw_error(ErrorCode::kUsage, "{}: classifier_pooling is '{}'; this version computes 'cls' and 'mean'",
                reader.where(), config.classifier_pooling);
  }
  if (reader.has("initializer_cutoff_factor") && reader.find("initializer_cutoff_factor") == nullptr)
    config.initializer_cutoff_factor.reset();
  if (!(config.initializer_cutoff_factor.value_or(3.0) > 0.0)) {
    throw_error(ErrorCode::kBadData,
                "{}: initializer_cutoff_factor is {}, it must be null or above 0; correct the value",
                reader.where(), *config.initializer_cutoff_factor);
  }
  read_layer_types(config, reader);
  read_both_ropes(config, reader);
}

void write_modernbert(Json& json, const ModelConfig& config) {
  json["attention_bias"] = config.output_bias;
  json.erase("layer_types");
  if (!config.slides.empty()) {
    json.erase("global_attn_every_n_layers");
    Json types = Json::array();
    for (const bool slides : config.slides) types.push_back(slides ? kLocal : kGlobal);
    json["layer_types"] = std::move(types);
  }
  json["global_rope_theta"] = config.rope.theta;
  json["local_rope_theta"] = config.local_rope.theta;
  const Json global = rope_object(config.rope), local = rope_object(config.local_rope);
  const bool is_default =
      config.rope.type == RopeType::kDefault && config.local_rope.type == RopeType::kDefault;
  json.erase("rope_scaling");
  json.erase("rope_parameters");
  if (is_default) return;
  json["rope_parameters"] = {{kGlobal, global}, {kLocal, local}};
  if (global == local) json["rope_scaling"] = global;
}

}  // namespace plimsoll
