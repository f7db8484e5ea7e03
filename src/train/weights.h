// Fills the executor's weights, with new numbers or from files, and lists them for a checkpoint. Not
// thread-safe.
#pragma once

#include <string>
#include <vector>

#include "exec/executor.h"
#include "io/ckpt/model_folder.h"

namespace plimsoll {

// Whether all weights come from the model's folder, or an adapter is loaded afterwards with the rest.
enum class WeightsFrom : uint8_t { kModelAlone, kModelUnderAdapter };

// Fills weights from a counter-based normal distribution (mean 0, deviation `range`), zeros or ones, as their
// specs say: all of them, or those that load_weights from `folder` does not fill. The same seed gives a
// weight the same numbers on every machine: the normal numbers come from Philox by Box and Muller.
void initialise_weights(Executor& executor, uint64_t seed, double range, const ModelFolder* folder = nullptr,
                        WeightsFrom from = WeightsFrom::kModelAlone);

// Loads the weights that a model's folder has; the others keep what they hold. The report is in Hugging
// Face's words. Errors: kBadData, see ModelFolder::load.
LoadReport load_weights(Executor& executor, const ModelFolder& folder, OnShapeMismatch on_mismatch,
                        WeightsFrom from = WeightsFrom::kModelAlone);

// Loads an adapter and the modules that were saved with it. Errors: kBadData naming the tensor, and both
// shapes where it does not fit this base model.
void load_adapter(Executor& executor, const ModelFolder& folder);

// Loads what a checkpoint of this run holds: the model, or its adapter. Errors: kBadData.
void load_saved(Executor& executor, const ModelFolder& folder);

// Loads a stored tensor into the rows of a persistent buffer from `first_row` on, on any device.
void read_stored(Executor& executor, const std::string& name, int64_t first_row, const SafetensorsFile& file,
                 const StoredTensor& tensor);

// The tensors that a checkpoint stores, by their names there: all weights, or in a run with an adapter only
// the adapter's. A weight that is fused here is several tensors, each with some of its rows. Valid while the
// executor lives.
std::vector<TensorSource> weight_tensors(const Executor& executor);
// The optimizer's states by their names in the plan.
std::vector<TensorSource> state_tensors(const Executor& executor);

}  // namespace plimsoll
