// Reads and writes adapter_config.json, PEFT's description of an adapter. Thread-safe: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "models/lora.h"

namespace plimsoll {

struct AdapterConfig {
  LoraConfig lora;
  std::string base_model;  // "" if the file does not name one
};

// Reads the text of such a file. `where` names the file in messages. Errors: kBadData for malformed text (the
// message names the key and both values); kUsage for adapters other than LoRA and for variants of LoRA that
// Plimsoll does not compute.
AdapterConfig parse_adapter_config(std::string_view json, std::string_view where);

// Returns the text as PEFT writes it: two spaces of indent, keys sorted, one newline at the end.
std::string adapter_config_json(const AdapterConfig& config, std::string_view model_type);

}  // namespace plimsoll
