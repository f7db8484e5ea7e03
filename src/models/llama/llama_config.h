// The configurations of the Llama family: Llama, Mistral, Qwen2 and Qwen3. Thread-safe: constant data and pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "models/architecture.h"
#include "models/config_reader.h"

namespace plimsoll {

// One member of the Llama family: its keys in config.json, its defaults, and functions that complete, check and write its configuration.
struct LlamaVariant {
  std::span<const ConfigKey> keys;
  void (*set_defaults)(ModelConfig& config) = nullptr;
  void (*complete)(ModelConfig& config, const ConfigReader& reader) = nullptr;
  void (*write_config)(nlohmann::json& json, const ModelConfig& config) = nullptr;
  std::span<const Preset> presets;
};

const LlamaVariant& llama_variant();
const LlamaVariant& mistral_variant();
const LlamaVariant& qwen2_variant();
const LlamaVariant& qwen3_variant();

}  // namespace plimsoll
