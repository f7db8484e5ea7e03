// The adapter of a run: an existing one, or the settings of a new one, and the precision in which the base model
// below it is stored. Functions that read files and return values; thread-safe.
#pragma once

#include <optional>
#include <string>

#include "base/file.h"
#include "io/ckpt/model_folder.h"
#include "io/hub/hub_cache.h"
#include "models/lora_config.h"
#include "models/model.h"
#include "plan/request/rules.h"
#include "run/run_purpose.h"

namespace plimsoll {

struct AdapterSource {
  std::string base_model = {};             // the base that a saved adapter names; "" for a model from scratch
  std::optional<ModelFolder> folder = {};  // the folder of an existing adapter
  std::optional<LoraConfig> lora = {};     // the settings of an existing adapter
};

// Returns the existing adapter, if the arguments name one, and the name of the base model. --model_name_or_path may
// name the folder of an adapter, which names its base. Errors: kUsage if no base is named; kBadData for a folder that does not exist or contains no adapter.
AdapterSource find_adapter(const Arguments& arguments, RunPurpose purpose, const HubEnvironment& hub,
                           FileSystem& files);

// Returns the configuration with the number of labels of the adapter's head, if the adapter has no config.json.
ModelConfig with_adapter_head(ModelConfig config, const ModelFolder& adapter);

// Returns lora_of(). Errors: as lora_of(), and kUsage for a new adapter in a run that trains nothing.
std::optional<LoraConfig> choose_lora(const Arguments& arguments, RunPurpose purpose,
                                      const ModelConfig& config, const AdapterFacts& adapter);

}  // namespace plimsoll
