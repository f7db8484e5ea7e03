#include "models/architecture.h"

namespace plimsoll {
namespace {

ModelConfig config_of(const Architecture& architecture, const Preset& preset) {
  ModelConfig config;
  config.model_type = architecture.model_type;
  architecture.set_defaults(config);
  config.vocab_size = preset.vocab_size;
  config.hidden_size = preset.hidden_size;
  config.num_hidden_layers = preset.layers;
  config.num_attention_heads = preset.heads;
  config.intermediate_size = preset.intermediate_size;
  config.embedding_size = preset.embedding_size;
  return config;
}

}  // namespace

std::optional<ModelConfig> find_preset(std::string_view name) {
  for (const Architecture* architecture : architectures()) {
    for (const Preset& preset : architecture->presets) {
      const std::string full_name = std::string(preset.organisation) + "/" + std::string(preset.name);
      if (name == preset.name || name == full_name) return config_of(*architecture, preset);
    }
  }
  return std::nullopt;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Architecture* architecture : architectures()) {
    for (const Preset& preset : architecture->presets) names.emplace_back(preset.name);
  }
  return names;
}

}  // namespace plimsoll
