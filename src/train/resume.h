// Parts of the beginning of a training run: the state that a checkpoint stores, the tensors that it contains, and
// the checkpoints of other runs in the output folder. Free functions; the training loop calls them in order.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "io/ckpt/checkpoint.h"
#include "run/run_state.h"
#include "train/session.h"

namespace plimsoll {

// Returns the state of a run that resumes from this checkpoint. `planned` is the state of the same run from its
// start: arguments, data and length are taken from it. Adds lines for people about arguments and data that
// differ from those of the checkpoint. Errors: kBadData for a damaged state, and if --load_best_model_at_end may
// need a best checkpoint that is missing or damaged.
RunState resumed_state(FileSystem& files, const OpenCheckpoint& checkpoint, const RunState& planned,
                       std::vector<std::string>& lines);

// Returns the line that says from where the run resumes. `model`: the model that the checkpoint's run named.
std::string describe_resume(const OpenCheckpoint& checkpoint, const RunState& state,
                            const std::string& model);
// Returns the model that the arguments of a run name.
std::string named_model(const Arguments& arguments);

// Reads weights and optimizer states from the checkpoint. Errors: kBadData if they do not fit this run; the session
// is then released, because it may contain tensors of this run and of the checkpoint.
void restore_tensors(Session& session, const OpenCheckpoint& checkpoint);

// The beginning of a run: its first step, or a checkpoint.
enum class RunBegin : uint8_t { kNew, kResumed };

// Checks that the run does not write over checkpoints of other runs in its output folder, and removes the links
// "best" and "last" of another run if this one is new. Adds a line for people if other runs have checkpoints there.
// Errors: kUsage if this run could write over one of them and --replace_checkpoints is not set.
void check_foreign_checkpoints(FileSystem& files, const RunState& state, RunBegin begin,
                               std::vector<std::string>& lines);

// Refuses ranks that begin at different positions or with different weights, because they read different checkpoints. The
// weights of a new run were compared when they were loaded, and its states are zero. It is also a barrier. Errors: kUsage on every rank.
void require_equal_beginnings(Session& session, const RunState& state, RunBegin begin);

// Returns true if the log in the output folder contains the end of the run at this step. A run that was killed
// between its last checkpoint and its end has no such record.
bool is_end_logged(FileSystem& files, const RunState& state);

}  // namespace plimsoll
