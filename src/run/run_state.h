// The state of a run that a checkpoint stores, so that a resumed run computes the same bits as an uninterrupted one. It is stored in
// run_state.json, log.jsonl and trainer_state.json. Plain data, and functions without state; thread-safe.
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

// The version of the format of run_state.json. Files of version 1, which also contain the log, can still be read.
inline constexpr int kRunStateSchemaVersion = 2;

// Sums over all steps of a run.
struct RunTotals {
  int64_t tokens = 0;
  double flos = 0;
  double loss_sum = 0;
  double seconds = 0;  // duration of training, summed over all processes that trained the run
};

// Sums over the steps since the previous log record.
struct SinceLog {
  double loss_sum = 0;
  int64_t steps = 0;
};

// The evaluation with the best metric so far.
struct BestEvaluation {
  std::optional<double> metric;
  int64_t step = 0;
  // Name of the checkpoint's folder within output_dir, or its path if the run resumed with another output_dir. "" if no checkpoint of
  // this step was saved.
  std::string checkpoint;
};

// Identifies the training data of a run. A run that resumes compares it with its own data.
struct TrainingData {
  uint64_t hash = 0;  // hash of the data; 0 if not known
  int64_t rows = 0;
};

struct RunState {
  RunIdentity run;
  int64_t step = 0;  // number of optimizer steps so far
  int64_t max_steps = 0;
  // The number of epochs of the run. If max_steps ends the run within an epoch, this epoch is included. It is not stored, because the
  // arguments determine it.
  int64_t num_epochs = 0;
  int64_t micro_batches = 0;  // number of micro-batches so far, from which random numbers are derived
  int64_t states_begin = 0;   // the step after which the optimizer's states were set to zero
  DataPosition position;      // position in the data of the next batch
  double epoch = 0;
  RunTotals totals;
  SinceLog since_log;
  TrainingData data;
  BestEvaluation best;
  // True if a request to stop interrupted the evaluation after this step. The resumed run repeats the evaluation. If the step was due to
  // be saved (save_is_due), it is then saved.
  bool evaluation_is_due = false;
  bool save_is_due = false;
  // State of a learning-rate schedule that follows a metric.
  std::map<std::string, double> schedule_state;
  std::map<std::string, std::string> callback_states;
  LogHistory log_history;  // the log of the run, which is stored in a separate file
  // true if the run has saved a checkpoint; trainer_state.json states it as should_save. The flag is not stored in run_state.json, because
  // a run that resumes always has a checkpoint.
  bool has_checkpoint = false;
  bool saved_at_end = false;  // true if a checkpoint of the last step of the run was saved
  Arguments arguments;
};

// Returns a unique identifier for a new run, which includes the present time.
RunIdentity new_run_identity();

// Returns the content of run_state.json, which is the state without the log.
std::string run_state_json(const RunState& state);
// Parses run_state.json. Errors: kBadData if the text is not a run state in a known format; the message names `source`.
RunState parse_run_state(std::string_view json, const std::string& source);

inline constexpr const char* kLogFile = "log.jsonl";
// Writes the log as log.jsonl, with one record per line.
void write_log(const LogHistory& history, const PutText& put);
// Reads log.jsonl in pieces of limited size. Errors: kBadData naming file and line; FileError.
LogHistory read_log(FileSystem& files, const std::string& path);

// Returns the path of the best checkpoint; "" if there is none.
std::string best_checkpoint_path(const RunState& state);

// Writes trainer_state.json in Hugging Face's format: indentation by 2, sorted keys, and a newline at the end.
void write_trainer_state(const RunState& state, const PutText& put);

}  // namespace plimsoll
