// The model of a run: its configuration, the folder of its weights and its adapter. A function that reads files and
// returns a value; thread-safe.
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

struct ModelSource {
  ModelConfig config = {};
  std::string label = {};       // for tables
  std::string base_model = {};  // the base that a saved adapter names; "" for a model from scratch
  std::optional<ModelFolder> weights = {};  // none: every weight is initialised
  std::optional<ModelFolder> adapter = {};  // the adapter that the run begins with
  AdapterFacts adapter_facts = {};
  std::optional<LoraConfig> lora = {};  // the settings of that adapter or of a new one: lora_of()
};

// Finds the model that the arguments name: a folder, a name in the hub's cache, or a preset. Errors: kUsage if no
// model is named, and if an adapter would be saved into the folder of its base; as find_adapter() and choose_lora();
// kBadData for a folder or configuration that cannot be read, and for an adapter of another model_type than its base.
ModelSource find_model(const Arguments& arguments, RunPurpose purpose, const HubEnvironment& hub,
                       FileSystem& files);

}  // namespace plimsoll
