// Helps to begin a training run: reads the state and the tensors of a checkpoint, and checks whether the output folder contains
// checkpoints of other runs. Free functions, which the training loop calls in the order of this file.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "io/ckpt/checkpoint.h"
#include "run/run_state.h"
#include "train/session.h"

namespace plimsoll {

// Returns the state of a run that resumes from this checkpoint. `planned` is the state in which this run would start without it; the
// arguments, the data and the number of steps come from `planned`. Adds lines for the user about differences from the checkpoint's
// arguments and data. Errors: kBadData for a damaged state, and if --load_best_model_at_end may need a best checkpoint that is missing
// or damaged.
RunState resumed_state(FileSystem& files, const OpenCheckpoint& checkpoint, const RunState& planned,
                       std::vector<std::string>& lines);

// Returns a line for the user that states from which checkpoint the run resumes. `model` is the model of the run that saved the
// checkpoint.
std::string describe_resume(const OpenCheckpoint& checkpoint, const RunState& state,
                            const std::string& model);
// Returns the name of the model from the arguments of a run.
std::string named_model(const Arguments& arguments);

// Reads weights and optimizer states from the checkpoint. Errors: kBadData if they do not fit this run; the memory of the session is then
// released, because some of its tensors may already come from the checkpoint and others not.
void restore_tensors(Session& session, const OpenCheckpoint& checkpoint);

// States whether a run begins with its first step (kNew) or from a checkpoint (kResumed).
enum class RunBegin : uint8_t { kNew, kResumed };

// Checks that the run does not overwrite checkpoints of other runs in its output folder. If the run is new, removes the links "best" and
// "last" of another run. Adds a line for the user if the folder contains checkpoints of other runs. Errors: kUsage if this run could
// overwrite one of these checkpoints and --replace_checkpoints is not set.
void check_foreign_checkpoints(FileSystem& files, const RunState& state, RunBegin begin,
                               std::vector<std::string>& lines);

// Checks that all ranks begin at the same position in the data and with the same weights and states; they differ if ranks read different
// checkpoints. For a new run only positions are compared: its weights were compared when they were loaded, and its optimizer states are
// zero. The function is also a barrier for all ranks. Errors: kUsage on every rank.
void require_equal_beginnings(Session& session, const RunState& state, RunBegin begin);

// Returns true if the log in the output folder has a record of the end of the run at this step. The record is missing if the run was
// killed between its last checkpoint and its end.
bool is_end_logged(FileSystem& files, const RunState& state);

}  // namespace plimsoll
