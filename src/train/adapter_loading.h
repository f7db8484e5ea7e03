// Loads LoRA adapters and checks that they fit the base model.
#pragma once

#include "exec/executor.h"
#include "io/ckpt/model_folder.h"

namespace plimsoll {

// Loads an adapter and the modules that were saved with it. Errors: kBadData naming the tensor, and both shapes if it
// does not fit this base model.
void load_adapter(Executor& executor, const ModelFolder& folder);

}  // namespace plimsoll
