// adapter_config.json, in which PEFT keeps what an adapter is. Thread-safe: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "models/lora.h"

namespace plimsoll {

struct AdapterConfig {
  LoraConfig lora;
  std::string base_model;  // "" where the file does not say
};

// Reads such a file. `where` names it in messages. Errors: kBadData for text that is not such JSON (key, both
// values); kUsage for adapters of another kind than LoRA and for LoRA's variants that are not here.
AdapterConfig parse_adapter_config(std::string_view json, std::string_view where);

// The text that PEFT opens: two spaces of indent, keys sorted, one newline at the end.
std::string adapter_config_json(const AdapterConfig& config, std::string_view model_type);

}  // namespace plimsoll
