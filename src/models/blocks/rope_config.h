// Reads and writes the parameters of rotary embeddings in a config.json, in both forms of Hugging Face: `rope_parameters`
// (transformers 5), and `rope_theta` with `rope_scaling` (transformers 4). Thread-safe: pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/config.h"
#include "models/config_reader.h"

namespace plimsoll {

// Sets config.rope. `rope_scaling` takes precedence over `rope_parameters`, as in transformers 5.24. Requires: the sizes of the
// configuration were read. Errors: kUsage for a type that is not computed and for keys that it does not have; kBadData for
// numbers that are missing or out of range. The message names the file, the object and the key.
void read_rope(ModelConfig& config, const ConfigReader& reader);

// Writes both forms, so that a reader of either finds the same embedding.
void write_rope(nlohmann::json& json, const ModelConfig& config);

}  // namespace plimsoll
