// Computes the base of an adapter whose initialisation changed it. See models/lora_init.h. Free functions; not
// thread-safe with respect to one executor.
#pragma once

#include <vector>

#include "exec/executor.h"
#include "io/ckpt/model_folder.h"
#include "models/lora.h"

namespace plimsoll {

// Returns a stored matrix of the base as the adapter's initialisation left it; the stored numbers if it left them
// unchanged. Requires: check_base_change() accepted the adapter. Errors: kBadData if a number of a matrix that changes
// is not finite.
std::vector<double> read_changed_base(const ModelFolder::Located& stored, const LoraConfig& config);

// Writes the changed weights of the base into the buffers of a plan with such an adapter, rounded once to the type of
// the buffers. Does nothing for other adapters. Requires: the base is not quantized; its weights are loaded. Errors:
// as read_changed_base(). Cost: see change_base(); the weights are divided among the threads, at most 8 of which hold a
// matrix in double precision at a time.
void change_loaded_base(Executor& executor, const ModelFolder& folder);

}  // namespace plimsoll
