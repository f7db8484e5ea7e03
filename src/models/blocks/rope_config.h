// Reads and writes the parameters of rotary embeddings in a config.json, in both forms of Hugging Face: `rope_parameters`
// (transformers 5), and `rope_theta` with `rope_scaling` (transformers 4). Thread-safe: pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/config.h"
#include "models/config_reader.h"

namespace plimsoll {

// Sets config.rope. `rope_scaling` takes precedence over `rope_parameters`, as in transformers 5.24. Requires: the sizes of the
// configuration were read. Errors: kUsage for an unsupported type and for keys that the type does not have; kBadData for numbers that are
// missing or out of range. The message names the file, the object and the key.
void read_rope(ModelConfig& config, const ConfigReader& reader);

// Checks the width of heads. Errors: kBadData if it is odd or too large for rotary embeddings.
void check_rope_width(const ModelConfig& config, const ConfigReader& reader);

// Returns the parameters of the rotary embedding that an object in the form of `rope_parameters` describes. `where` names the object in
// messages; `theta` is the base if the object does not contain one. Requires and errors: as read_rope().
RopeParameters read_rope_object(const ModelConfig& config, const ConfigReader& reader,
                                const nlohmann::json& json, const std::string& where, double theta);

// Returns the JSON object for these parameters, without the key `rope_theta`.
nlohmann::json rope_object(const RopeParameters& parameters);

// Writes the parameters in the forms of transformers 4 and 5, so that a reader of either finds the same rotary embedding.
void write_rope(nlohmann::json& json, const ModelConfig& config);

}  // namespace plimsoll
