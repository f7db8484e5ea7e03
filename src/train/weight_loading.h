// Loads weights from model folders and tensors from checkpoints into the buffers of a plan, on any device. Free
// functions; not thread-safe with respect to one executor.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/executor.h"
#include "io/ckpt/model_folder.h"

namespace plimsoll {

// The source of weights: the model's folder alone, or the folder and an adapter that is loaded afterwards.
enum class WeightsFrom : uint8_t { kModelAlone, kModelUnderAdapter };

// Number of elements that weight transfers hold in the host's memory at a time.
inline constexpr int64_t kPieceElements = int64_t{1} << 18;

// Loads the weights that a model's folder has; the others keep their values. The report uses Hugging Face's words.
// Errors: kBadData, see ModelFolder::load.
LoadReport load_weights(Executor& executor, const ModelFolder& folder, OnShapeMismatch on_mismatch,
                        WeightsFrom from = WeightsFrom::kModelAlone);

// Returns true if load_weights() fills the whole weight from this folder.
bool is_loaded(const WeightSpec& spec, const ModelFolder& folder, WeightsFrom from);

// Loads the content of a checkpoint of this run: the model, or its adapter. Errors: kBadData.
void load_saved(Executor& executor, const ModelFolder& folder);

// Loads a stored tensor into the rows of a persistent buffer, starting with `first_row`.
void read_stored(Executor& executor, const std::string& name, int64_t first_row, const SafetensorsFile& file,
                 const StoredTensor& tensor);

// Returns the tensors of the weights that `is_wanted` selects, under their names on disk with a prefix. Valid while
// the executor lives.
std::vector<WantedTensor> wanted_tensors(Executor& executor, std::string_view prefix,
                                         const std::function<bool(const WeightSpec&)>& is_wanted);

}  // namespace plimsoll
