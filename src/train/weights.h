// Weights between the executor and the disk: initialising, loading, listing for a checkpoint. Not
// thread-safe.
#pragma once

#include <string>
#include <vector>

#include "exec/executor.h"
#include "io/ckpt/model_folder.h"

namespace plimsoll {

// Whether a model's folder is all there is, or an adapter comes after it with the rest.
enum class WeightsFrom : uint8_t { kModelAlone, kModelUnderAdapter };

// Fills weights from a counter-based normal distribution (mean 0, deviation `range`), zeros or ones, as their
// specs say: all of them, or those that load_weights from `folder` does not fill. The same seed gives a
// weight the same numbers on every machine: the normal numbers come from Philox by Box and Muller.
void initialise_weights(Executor& executor, uint64_t seed, double range, const ModelFolder* folder = nullptr,
                        WeightsFrom from = WeightsFrom::kModelAlone);

// Loads what a model's folder has into the weights; the rest keeps what it holds. The report is in Hugging
// Face's words. Errors: kBadData, see ModelFolder::load.
LoadReport load_weights(Executor& executor, const ModelFolder& folder, OnShapeMismatch on_mismatch,
                        WeightsFrom from = WeightsFrom::kModelAlone);

// Loads an adapter and the modules that were saved with it. Errors: kBadData naming the tensor, and both
// shapes where it does not fit this base model.
void load_adapter(Executor& executor, const ModelFolder& folder);

// Loads what a checkpoint of this run holds: the model, or its adapter. Errors: kBadData.
void load_saved(Executor& executor, const ModelFolder& folder);

// A stored tensor into the rows of a persistent buffer from `first_row` on, on whichever device that lies.
void read_stored(Executor& executor, const std::string& name, int64_t first_row, const SafetensorsFile& file,
                 const StoredTensor& tensor);

// The weights as a checkpoint names them, in a run with adapters those alone; parts of fused weights are rows
// of them. Valid while the executor lives.
std::vector<TensorSource> weight_tensors(const Executor& executor);
// The optimizer's states by their names in the plan.
std::vector<TensorSource> state_tensors(const Executor& executor);

}  // namespace plimsoll
