// What a run has to remember so that it can be resumed bit for bit: the content of run_state.json, log.jsonl
// and trainer_state.json. A value.
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

// Version 1, which holds the log too, can still be read.
inline constexpr int kRunStateSchemaVersion = 2;

struct RunState {
  RunIdentity run;
  int64_t step = 0;  // optimizer steps done
  int64_t max_steps = 0;
  int64_t num_epochs = 0;     // begun by max_steps; not stored, the arguments give it
  int64_t micro_batches = 0;  // numbers the random draws
  DataPosition position;      // of the next batch
  double epoch = 0;
  int64_t tokens_seen = 0;
  double total_flos = 0;
  double loss_sum_since_log = 0;
  int64_t steps_since_log = 0;
  double loss_sum = 0;     // over all steps
  uint64_t data_hash = 0;  // of the training data; 0: not known
  int64_t data_rows = 0;
  double seconds = 0;  // of training so far, over all sessions of the run
  std::optional<double> best_metric;
  int64_t best_step = 0;
  // Folder name within output_dir; a path where the run goes on in another output_dir.
  std::string best_checkpoint;
  // A request to stop cut off the evaluation after this step. The resumed run makes up for it, and then for
  // the save that the step asked for too (save_is_due).
  bool evaluation_is_due = false;
  bool save_is_due = false;
  std::map<std::string, double> schedule_state;  // of a schedule that follows a metric
  std::map<std::string, std::string> callback_states;
  LogHistory log_history;  // not in run_state.json: the checkpoint has a file of its own
  // What Trainer's file says of the last save; not stored, a run that resumes has a checkpoint.
  bool has_checkpoint = false;
  bool saved_at_end = false;  // it was the one of the last step
  Arguments arguments;
};

// A new run, begun now, unlike every other.
RunIdentity new_run_identity();

// All but the log.
std::string run_state_json(const RunState& state);
// Errors: kBadData naming `source` where the text is not a run state of this schema.
RunState parse_run_state(std::string_view json, const std::string& source);

inline constexpr const char* kLogFile = "log.jsonl";
// The log as lines of log.jsonl.
void write_log(const LogHistory& history, const PutText& put);
// Reads such a file, in bounded pieces. Errors: kBadData naming file and line; FileError.
LogHistory read_log(FileSystem& files, const std::string& path);

// Where the best checkpoint lies; "" while there is none.
std::string best_checkpoint_path(const RunState& state);

// Hugging Face's trainer_state.json: indent 2, sorted keys, newline at the end.
void write_trainer_state(const RunState& state, const PutText& put);

}  // namespace plimsoll
