// Writes the log of a run. Its records are kept in memory, appended to log.jsonl and passed to callbacks. A record contains averages over
// the steps since the previous one. Also passes warnings to the callbacks. An object is used by one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/monitor/throttle.h"
#include "plimsoll/training.h"
#include "run/run_state.h"
#include "train/session.h"
#include "train/speed.h"
#include "train/step_engine.h"
#include "train/tensorboard_log.h"

namespace plimsoll {

using Callbacks = std::vector<std::shared_ptr<Callback>>;

class RunLog {
 public:
  // Requires: the arguments outlive the log. Records are stored in `state`.
  RunLog(const Session& session, const Callbacks& callbacks, RunState& state);

  // Adds a step to the sums for the next record.
  void add_step(const FinishedStep& step);
  // Writes a record about the steps since the previous record. tokens_per_second, mfu and data_wait_fraction are computed from the sum
  // of StepInfo::step_ms of these steps, which is wall time without evaluations and saves. unused_row_fraction is the fraction of
  // computed rows that contain only padding.
  void log_step(const StepInfo& info);
  // Appends a record to the history in memory, to log.jsonl and to the TensorBoard events, and passes it to the callbacks.
  void record(LogRecord record);

  // Passes a warning to the callbacks; does nothing for "".
  void warn(const std::string& text) const;
  void warn_skipped_step(const StepInfo& info, int64_t num_skipped) const;
  // Warns if the steps of the run spent much of their time waiting for data.
  void warn_waiting_at_end();

 private:
  // Sums over the steps since the previous log record.
  struct Sums {
    double z_loss = 0;
    int64_t steps = 0;
    int64_t tokens = 0;
    int64_t rows = 0;  // number of computed token rows, including padding up to the batch size
    double wait_ms = 0;
    double time_ms = 0;
    double model_flops = 0;
  };

  const Session& session_;
  const Arguments& arguments_;
  const Callbacks& callbacks_;
  RunState& state_;
  WaitingWatch waiting_;
  Sums sums_;
  int64_t skipped_steps_ = 0;      // number of steps of the whole run whose update was skipped
  std::optional<GpuLog> gpu_log_;  // has a value if the run uses a GPU
  // Writes TensorBoard events. Created with the first record of a run with --report_to tensorboard.
  std::optional<TensorBoardLog> tensorboard_;
};

}  // namespace plimsoll
