// Compares the weights of a model with the tensors in its folder before anything is loaded. Finds out which weights no file provides, and
// whether a run may start without them. Pure functions; thread-safe.
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

// States how a stored tensor is treated if its shape differs from that of the weight. kCount: the tensor counts as present. kAreMissing:
// the tensor counts as missing, so the weight gets random initial values (--ignore_mismatched_sizes).
enum class OtherShapes : uint8_t { kCount, kAreMissing };

// Removes wrappers such as "module." from the names in a model's folder (ModelFolder::unwrap_names()), and makes
// matrices that the folder stores transposed appear in the layout of the model.
void unwrap_model_names(ModelFolder& folder, const std::vector<WeightSpec>& specs);

// Removes wrappers from the names in an adapter's folder, and transposes matrices, as unwrap_model_names() does for a model.
void unwrap_adapter_names(ModelFolder& adapter, const std::vector<WeightSpec>& specs,
                          const std::string& model_type, const LoraConfig& config);

// Returns the weights (or parts of fused weights) that the folder does not provide, by the names of their tensors, in the order of the
// model.
std::vector<std::string> missing_tensors(const std::vector<WeightSpec>& specs, const ModelFolder& folder,
                                         OtherShapes other_shapes);

// Checks that the folder provides the weights that the run needs from it. An evaluation or a prediction needs all weights. Training needs
// at least one weight of the encoder, because the head is often new. With an adapter, `specs` contains the weights that the adapter does
// not provide, and all of them are needed. Errors: kBadData; the message says how many tensors fit, and names some that occur only in the
// file and some that occur only in the model, and the adapter, if any.
void check_stored_weights(const std::vector<WeightSpec>& specs, const ModelFolder& folder, RunPurpose purpose,
                          OtherShapes other_shapes, const ModelFolder* adapter = nullptr);

// Returns the names of the modules whose weights no file provides. In a run with an adapter, these modules are trained and saved
// completely, because their random initial values could not be reproduced later.
std::vector<std::string> new_modules(const std::vector<WeightSpec>& specs, const ModelFolder& folder,
                                     OtherShapes other_shapes);

// Checks the folders of a run before its data is read: the checkpoint from which it resumes and the folder into which it writes. Writes
// nothing; thread-safe.

// The checkpoint that --resume_from_checkpoint selects ("" for none), and lines for the user about checkpoints that were skipped.
struct ResumeChoice {
  std::string path = {};
  std::vector<std::string> lines = {};
};

// Chooses the checkpoint from which the run resumes. `depth` states whether only the sizes of its files are checked, or also their
// hashes. Errors: kBadData if the named checkpoint is missing or damaged, and if --output_dir has checkpoints but all of them are
// damaged.
ResumeChoice choose_checkpoint(FileSystem& files, const Arguments& arguments, VerifyDepth depth);

// Returns the checkpoint from which the run would resume, after checking only the sizes of its files. Returns "" if there is none, or if
// choose_checkpoint() would throw.
std::string resumable_checkpoint(FileSystem& files, const Arguments& arguments);

// Checks that the run can resume from the checkpoint that it will choose. The hashes of large files are verified later, when the files
// are read. Errors: as choose_checkpoint(); kBadData for a checkpoint that contains no state of a run.
void check_resume(FileSystem& files, const Arguments& arguments);

// Checks that --output_dir is a folder into which the run can write, or that it can be created. Errors: kUsage if there is a file with
// this name; kDevice if the system does not permit writing.
void check_output_dir(const std::string& output_dir);

}  // namespace plimsoll
