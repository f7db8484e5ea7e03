// Compares the weights of a model with the tensors of its folder before anything is loaded: which weights no file
// provides, and whether a run may start with them. Pure functions; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "io/ckpt/checkpoint.h"
#include "io/ckpt/model_folder.h"
#include "models/lora.h"
#include "models/weight_spec.h"
#include "plimsoll/arguments.h"
#include "run/run_purpose.h"

namespace plimsoll {

// States how a stored tensor is treated if its shape differs from that of the weight.
enum class OtherShapes : uint8_t { kCount, kAreMissing };

// Removes wrappers such as "module." from the names in a model's folder (ModelFolder::unwrap_names()), and makes
// matrices that the folder stores transposed appear in the layout of the model.
void unwrap_model_names(ModelFolder& folder, const std::vector<WeightSpec>& specs);

// Removes wrappers from the names in the folder of an adapter, and transposes matrices, as unwrap_model_names() for a model.
void unwrap_adapter_names(ModelFolder& adapter, const std::vector<WeightSpec>& specs,
                          const std::string& model_type, const LoraConfig& config);

// Returns the parts of weights that the folder does not provide, by the names of their tensors, in the order of the model.
std::vector<std::string> missing_tensors(const std::vector<WeightSpec>& specs, const ModelFolder& folder,
                                         OtherShapes other_shapes);

// Checks that the folder provides the weights that the run needs from it: an evaluation and a prediction need all, and
// training needs at least one of the encoder, because the weights of the head are often new. With an adapter, `specs` are
// those that the adapter does not provide, and all are needed. Errors: kBadData; the message says how many tensors fit, and names
// some that only the file has and some that only the model has.
void check_stored_weights(const std::vector<WeightSpec>& specs, const ModelFolder& folder, RunPurpose purpose,
                          OtherShapes other_shapes);

// Returns the names of the modules whose weights no file provides. An adapter trains and saves them whole, because nobody
// could give them the same random numbers again.
std::vector<std::string> new_modules(const std::vector<WeightSpec>& specs, const ModelFolder& folder,
                                     OtherShapes other_shapes);

// Checks the folders of a run before its data is read: the checkpoint that it resumes from and the folder that it writes
// into. Writes nothing; thread-safe.

// The checkpoint that --resume_from_checkpoint selects, "" for none, and lines for people about checkpoints that were
// skipped.
struct ResumeChoice {
  std::string path = {};
  std::vector<std::string> lines = {};
};

// Chooses the checkpoint to resume from, after checking sizes or also hashes of its files (`depth`). Errors: kBadData if the
// named checkpoint is missing or damaged, and if --output_dir has checkpoints but all of them are damaged.
ResumeChoice choose_checkpoint(FileSystem& files, const Arguments& arguments, VerifyDepth depth);

// Returns the checkpoint that the run would resume from, verified only by the sizes of its files; "" if there is none, or
// if choose_checkpoint() would throw.
std::string resumable_checkpoint(FileSystem& files, const Arguments& arguments);

// Checks that the run can resume from the checkpoint that it will choose. The hashes of large files are verified later,
// when they are read. Errors: as choose_checkpoint(); kBadData for a checkpoint that contains no state of a run.
void check_resume(FileSystem& files, const Arguments& arguments);

// Checks that --output_dir is a folder that can be written into, or that it can be created. Errors: kUsage if a file has
// its name; kDevice if the system does not permit writing.
void check_output_dir(const std::string& output_dir);

}  // namespace plimsoll
