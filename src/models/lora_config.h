// Reads and writes adapter_config.json, PEFT's description of an adapter. Thread-safe: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "models/lora.h"

namespace plimsoll {

struct AdapterConfig {
  LoraConfig lora;
  std::string base_model;  // "" if the file does not name one
  // The setting with which PEFT trains the adapter in a way that Plimsoll does not implement ("init_lora_weights mica");
  // "" if there is none. Evaluating and merging do not depend on it.
  std::string trained_otherwise = {};
};

// Reads the text of such a file. `where` names the file in messages. Errors: kBadData for malformed text (the
// message names the key and both values); kUsage for adapters other than LoRA, for variants of LoRA that Plimsoll does not
// compute, and for an initialisation that changed the base in a way that cannot be computed again.
AdapterConfig parse_adapter_config(std::string_view json, std::string_view where);

// Returns the text as PEFT writes it: two spaces of indent, keys sorted, one newline at the end.
std::string adapter_config_json(const AdapterConfig& config, std::string_view model_type,
                                const HeadKind& head = kSequenceClassificationHead);

}  // namespace plimsoll
