#include <array>

#include "models/config.h"

namespace plimsoll {
namespace {

// Public hyper-parameters, as the config.json of each name on the hub states them.
struct Preset {
  std::string_view name;
  std::string_view organisation;
  std::string_view model_type;
  int64_t vocab_size;
  int64_t hidden_size;
  int64_t layers;
  int64_t heads;
  int64_t intermediate_size;
};
constexpr std::array kPresets{
    Preset{"bert-base-uncased", "google-bert", "bert", 30522, 768, 12, 12, 3072},
    Preset{"bert-base-cased", "google-bert", "bert", 28996, 768, 12, 12, 3072},
    Preset{"bert-large-uncased", "google-bert", "bert", 30522, 1024, 24, 16, 4096},
    Preset{"bert-large-cased", "google-bert", "bert", 28996, 1024, 24, 16, 4096},
    Preset{"distilbert-base-uncased", "distilbert", "distilbert", 30522, 768, 6, 12, 3072},
    Preset{"distilbert-base-cased", "distilbert", "distilbert", 28996, 768, 6, 12, 3072},
    Preset{"all-MiniLM-L6-v2", "sentence-transformers", "bert", 30522, 384, 6, 12, 1536},
    Preset{"MiniLM-L6-H384-uncased", "nreimers", "bert", 30522, 384, 6, 12, 1536},
    Preset{"MiniLM-L12-H384-uncased", "microsoft", "bert", 30522, 384, 12, 12, 1536},
};

}  // namespace

std::optional<ModelConfig> find_preset(std::string_view name) {
  for (const Preset& preset : kPresets) {
    if (name != preset.name && name != std::string(preset.organisation) + "/" + std::string(preset.name))
      continue;
    ModelConfig config;
    config.model_type = preset.model_type;
    config.vocab_size = preset.vocab_size;
    config.hidden_size = preset.hidden_size;
    config.num_hidden_layers = preset.layers;
    config.num_attention_heads = preset.heads;
    config.intermediate_size = preset.intermediate_size;
    if (config.model_type == "distilbert") {
      config.type_vocab_size = 0;
      config.classifier_dropout = 0.2;
    }
    return config;
  }
  return std::nullopt;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

}  // namespace plimsoll
