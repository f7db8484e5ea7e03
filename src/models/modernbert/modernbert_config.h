// The configuration of ModernBERT in config.json, in the form of transformers 4 (global_attn_every_n_layers, global_rope_theta,
// local_rope_theta, rope_scaling) and in that of transformers 5 (layer_types, rope_parameters per type of layer).
// Thread-safe: constant data and pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "models/architecture.h"

namespace plimsoll {

std::span<const ConfigKey> modernbert_keys();
std::span<const Preset> modernbert_presets();

// Sets transformers' defaults.
void set_modernbert_defaults(ModelConfig& config);

// Reads the settings that modernbert_keys() cannot describe as a key and a field. Errors: kBadData for values out of range and lists of the
// wrong length; kUsage for settings with which Plimsoll cannot compute the model.
void complete_modernbert(ModelConfig& config, const ConfigReader& reader);

// Writes the settings in the form that transformers 4 and 5 both read. The keys of transformers 5 are only written if they are needed: for
// a pattern of layers that has no regular interval, and for rotary embeddings of another type than the default.
void write_modernbert(nlohmann::json& json, const ModelConfig& config);

}  // namespace plimsoll
