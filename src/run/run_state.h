// The state of a run that a checkpoint stores so that the run can be resumed bit for bit: the content of
// run_state.json, log.jsonl and trainer_state.json. Values; thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/ckpt/checkpoint.h"
#include "io/data/sampler.h"
#include "plimsoll/arguments.h"
#include "plimsoll/training.h"

namespace plimsoll {

// Files of version 1, which contain the log as well, can still be read.
inline constexpr int kRunStateSchemaVersion = 2;

// Sums over all steps of a run.
struct RunTotals {
  int64_t tokens = 0;
  double flos = 0;
  double loss_sum = 0;
  double seconds = 0;  // duration of training, over all sessions of the run
};

// Sums over the steps since the last record of the log.
struct SinceLog {
  double loss_sum = 0;
  int64_t steps = 0;
};

// The best evaluation so far.
struct BestEvaluation {
  std::optional<double> metric;
  int64_t step = 0;
  // The folder's name within output_dir; a path if the run resumed in another output_dir. "" if it was not saved.
  std::string checkpoint;
};

// Identifies the training data.
struct TrainingData {
  uint64_t hash = 0;  // 0: not known
  int64_t rows = 0;
};

struct RunState {
  RunIdentity run;
  int64_t step = 0;  // number of optimizer steps done
  int64_t max_steps = 0;
  // Number of epochs that have begun when the run reaches max_steps. It is not stored, because the arguments determine it.
  int64_t num_epochs = 0;
  int64_t micro_batches = 0;  // number of micro-batches done, which selects the random numbers
  int64_t states_begin = 0;   // the step after which the optimizer's states began at zero
  DataPosition position;      // position of the next batch
  double epoch = 0;
  RunTotals totals;
  SinceLog since_log;
  TrainingData data;
  BestEvaluation best;
  // A request to stop interrupted the evaluation after this step. The resumed run repeats it, and then saves if the step
  // was due to be saved (save_is_due).
  bool evaluation_is_due = false;
  bool save_is_due = false;
  std::map<std::string, double> schedule_state;  // state of a learning rate that follows a metric
  std::map<std::string, std::string> callback_states;
  LogHistory log_history;  // stored in a file of its own
  // True if a checkpoint was saved. Used for trainer_state.json only. It is not stored, because a run that resumes
  // always has a checkpoint.
  bool has_checkpoint = false;
  bool saved_at_end = false;  // the last checkpoint was saved at the last step
  Arguments arguments;
};

// Returns the identity of a new run, which begins now and differs from every other.
RunIdentity new_run_identity();

// Returns run_state.json: everything but the log.
std::string run_state_json(const RunState& state);
// Parses run_state.json. Errors: kBadData naming `source` if the text is not a run state of a known schema.
RunState parse_run_state(std::string_view json, const std::string& source);

inline constexpr const char* kLogFile = "log.jsonl";
// Writes the log as lines of log.jsonl.
void write_log(const LogHistory& history, const PutText& put);
// Reads log.jsonl in pieces of bounded size. Errors: kBadData naming file and line; FileError.
LogHistory read_log(FileSystem& files, const std::string& path);

// Returns the path of the best checkpoint; "" if there is none.
std::string best_checkpoint_path(const RunState& state);

// Writes Hugging Face's trainer_state.json: indent 2, sorted keys, newline at the end.
void write_trainer_state(const RunState& state, const PutText& put);

}  // namespace plimsoll
