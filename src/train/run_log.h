// The log of a run: its records in memory, in log.jsonl and to the callbacks, averages over the steps since the
// last record, and warnings. One thread uses an object.
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
  // The arguments have to outlive the log, which stores its records in `state`.
  RunLog(const Session& session, const Callbacks& callbacks, RunState& state);

  // Counts a step for the next record.
  void add_step(const FinishedStep& step);
  // Writes a record about the steps since the last one. tokens_per_second, mfu and both fractions are relative to
  // the sum of StepInfo::step_ms of these steps: wall time without evaluations and saves.
  void log_step(const StepInfo& info);
  // Appends a record to the history, to log.jsonl and to the events of TensorBoard, and passes it to the callbacks.
  void record(LogRecord record);

  // Passes a warning to the callbacks; "" is no warning.
  void warn(const std::string& text) const;
  void warn_skipped_step(const StepInfo& info, int64_t num_skipped) const;
  // Warns if the steps of the run waited for data for a large part of their time.
  void warn_waiting_at_end();

 private:
  // Sums over the steps since the last record.
  struct Sums {
    double z_loss = 0;
    int64_t steps = 0;
    int64_t tokens = 0;
    int64_t rows = 0;  // rows that were computed, including rows of buckets without a token
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
  int64_t skipped_steps_ = 0;      // number of skipped steps of the whole run
  std::optional<GpuLog> gpu_log_;  // set if the run is on a GPU
  // Set after the first record of a run with --report_to tensorboard.
  std::optional<TensorBoardLog> tensorboard_;
};

}  // namespace plimsoll
