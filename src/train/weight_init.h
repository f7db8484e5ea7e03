// Initialises the weights of a model that no file provides. Free functions; not thread-safe with respect to one
// executor.
#pragma once

#include <cstdint>

#include "exec/executor.h"
#include "io/ckpt/model_folder.h"
#include "train/weight_loading.h"

namespace plimsoll {

// Fills weights from a counter-based normal distribution (mean 0, deviation `range`), zeros or ones, as their
// specs say: all of them, or those that load_weights() from `folder` does not fill. The same seed gives a weight the
// same numbers on every machine: Philox generates them, and Box and Muller's method makes them normal.
void initialise_weights(Executor& executor, uint64_t seed, double range, const ModelFolder* folder = nullptr,
                        WeightsFrom from = WeightsFrom::kModelAlone);

}  // namespace plimsoll
