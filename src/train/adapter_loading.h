// Loads LoRA adapters and checks that they fit the base model.
#pragma once

#include <string>
#include <string_view>

#include "exec/executor.h"
#include "io/ckpt/model_folder.h"

namespace plimsoll {

// Loads an adapter and the modules that were saved with it. Errors: kBadData naming the tensor, and both shapes if it
// does not fit this base model.
void load_adapter(Executor& executor, const ModelFolder& folder);

// Returns why an adapter may lack a tensor of this name, and what to do.
std::string describe_missing_tensor(std::string_view name);

}  // namespace plimsoll
