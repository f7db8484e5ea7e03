// Loads weights from model folders and tensors from checkpoints into the buffers of a plan, on any device. Free
// functions; not thread-safe with respect to one executor.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/executor.h"
#include "io/ckpt/checkpoint.h"
#include "io/ckpt/model_folder.h"
#include "models/lora.h"

namespace plimsoll {

// The folders from which weights are loaded: only the model's folder, or the model's folder and then an adapter's.
enum class WeightsFrom : uint8_t { kModelAlone, kModelUnderAdapter };

// Number of elements that are kept in host memory at a time while weights are transferred.
inline constexpr int64_t kPieceElements = int64_t{1} << 18;

// Loads the weights that a model's folder contains; all others keep their values. Returns a report in Hugging Face's words. Errors:
// kBadData, see ModelFolder::load.
LoadReport load_weights(Executor& executor, const ModelFolder& folder, OnShapeMismatch on_mismatch,
                        WeightsFrom from = WeightsFrom::kModelAlone);

// Returns true if load_weights() fills the whole weight from this folder.
bool is_loaded(const WeightSpec& spec, const ModelFolder& folder, WeightsFrom from);

// Loads the contents of a checkpoint of this run: the model, or its adapter. Errors: kBadData.
void load_saved(Executor& executor, const ModelFolder& folder);

// Writes a tensor of a file into the rows of a persistent buffer that begin with `first_row`.
void read_stored(Executor& executor, const std::string& name, int64_t first_row, const SafetensorsFile& file,
                 const StoredTensor& tensor);

// Returns the weights that `is_wanted` selects, with the names that they have in a file after `prefix`. Valid while the executor exists.
std::vector<WantedTensor> wanted_tensors(Executor& executor, std::string_view prefix,
                                         const std::function<bool(const WeightSpec&)>& is_wanted);

// The function below loads a LoRA adapter and checks that it fits the base model.

// Loads an adapter and the modules that were saved with it. Errors: kBadData, naming the tensor and, if it does not fit this base model,
// both shapes.
void load_adapter(Executor& executor, const ModelFolder& folder);

// The function below initialises those weights of a model that no file provides. Not thread-safe with respect to one executor.

// Fills weights with numbers from a normal distribution (mean 0, standard deviation `range`), zeros or ones, as their specs state. Fills
// all weights, or those that load_weights() from `folder` does not fill. The same seed gives a weight the same numbers on every machine:
// the random generator is Philox, and the numbers are made normal by Box and Muller's method, or by the inverse of the distribution
// function if the spec truncates the distribution.
void initialise_weights(Executor& executor, uint64_t seed, double range, const ModelFolder* folder = nullptr,
                        WeightsFrom from = WeightsFrom::kModelAlone);

// The functions below compute the changed base weights for adapters whose initialisation modifies the base model (change_base() in
// models/lora.h). Not thread-safe with respect to one executor.

// Returns a matrix of the base model as an adapter of this configuration needs it: changed if the initialisation of the adapter changes
// the base model, otherwise as it is stored. Requires: check_base_change() accepted the adapter. Errors: kBadData if a changed matrix
// contains a number that is not finite.
std::vector<double> read_changed_base(const ModelFolder::Located& stored, const LoraConfig& config);

// Applies the adapter's initialisation to the base weights in the buffers of a plan. The changed weights are rounded once to the type of
// the buffers. Does nothing for adapters whose initialisation does not change the base. Requires: the base is not quantized; its weights
// are loaded. Errors: as read_changed_base(). Cost: see change_base(); the weights are divided among the threads, at most 8 of which hold
// a matrix in double precision at a time.
void change_loaded_base(Executor& executor, const ModelFolder& folder);

// The functions below provide the tensors that a checkpoint stores. A weight or state that the ranks divide appears as one complete tensor.
// While it is read, each rank sends its slice to the others, so all ranks have to read the same tensors in the same order.

// If a file must store this part of a weight under several names, appends to `tensors` another tensor with the values of `source` for each
// further name.
void append_copies(const WeightPart& part, const TensorSource& source, std::vector<TensorSource>& tensors);

// Returns the weights under their names in a checkpoint: all of them, or only the adapter's in a run with an adapter. A weight that is
// fused in memory is returned as several tensors, each with some of its rows. Valid while the executor exists.
std::vector<TensorSource> weight_tensors(Executor& executor);
// Returns the optimizer's states under their names in the plan. Valid while the executor exists.
std::vector<TensorSource> state_tensors(Executor& executor);

// Throws kBadData for a tensor of an adapter that belongs to no module of the model.
[[noreturn]] void refuse_unused_tensor(const ModelFolder& adapter, std::string_view name);

// Returns a sentence that explains why an adapter may lack a tensor of this name, and what to do.
std::string describe_missing_tensor(std::string_view name);

}  // namespace plimsoll
