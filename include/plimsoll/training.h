// What a program sees of a run while it goes on: figures of a step, metrics, callbacks. Values; thread-safe
// unless said.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plimsoll/error.h"
#include "plimsoll/log_history.h"

namespace plimsoll {

// Environment variables with their values, for the functions that need them: HF_HOME, HF_HUB_CACHE,
// HUGGINGFACE_HUB_CACHE, XDG_CACHE_HOME and HOME say where caches are. The library never reads the process's
// environment itself.
using Environment = std::map<std::string, std::string>;

// The figures of one optimizer step, complete when it is done.
struct StepInfo {
  int64_t step = 0;  // optimizer steps done
  int64_t max_steps = 0;
  double epoch = 0;          // fraction of the data seen
  double loss = 0;           // mean over the real samples of this step
  double grad_norm = 0;      // before clipping
  double learning_rate = 0;  // used by this step
  int64_t num_tokens = 0;    // real tokens of this step
  int64_t num_sequences = 0;
  int64_t num_rows_computed = 0;  // tokens of the buckets that ran: the real ones and the unused tail
  // Time since the previous step ended (for the first: since training began), excluding evaluation and
  // checkpointing; includes callbacks and logging. The log's tokens_per_second is over the sum of these.
  double step_ms = 0;
  // The part of step_ms in which the run waited for a batch while the device had nothing to do.
  double data_wait_ms = 0;
  // fp16 only: the factor that the loss was multiplied by for the backward pass.
  double loss_scale = 1;
  // fp16 only: the gradients overflowed. This step changed no weight, and the loss scale is halved for the
  // next.
  bool skipped = false;
  // Floating-point operations of this step's matrix products and attention, forward and backward. What was
  // computed again to save memory does not count.
  double model_flops = 0;
  // The rate of the device's data sheet for such operations in the run's precision; 0 where there is none.
  double peak_flops_per_s = 0;
};

// What a callback may ask of the training loop. All flags are false again when the next step ends.
struct TrainControl {
  bool stop = false;      // end after this step
  bool evaluate = false;  // evaluate after this step
  bool save = false;      // save a checkpoint after this step
  bool log = false;       // write a log record after this step
};

// Derive from this to watch or steer a run. Called from the thread that trains; what it throws ends the run.
class Callback {
 public:
  virtual ~Callback() = default;
  virtual void on_train_begin(int64_t /*max_steps*/) {}
  virtual void on_step_end(const StepInfo& /*info*/, TrainControl& /*control*/) {}
  virtual void on_log(const LogRecord& /*record*/) {}
  // Metrics carry the prefix "eval_".
  virtual void on_evaluate(const StepInfo& /*info*/, const MetricMap& /*metrics*/,
                           TrainControl& /*control*/) {}
  virtual void on_save(const std::string& /*path*/) {}
  // A line for people about something that slows the run down: a GPU that lowers its clocks for want of power
  // or cooling (once for each cause), an fp16 step that was skipped because its gradients overflowed, time
  // lost waiting for data.
  virtual void on_warning(const std::string& /*text*/) {}
  // Between the batches of an evaluation or a prediction.
  virtual void on_evaluate_progress(int64_t /*rows_done*/, int64_t /*num_rows*/) {}
  virtual void on_train_end() {}
  // For resuming: what this callback must remember. The text is kept in the checkpoint under its name.
  virtual std::string name() const { return {}; }
  virtual std::string state() const { return {}; }
  virtual void restore(const std::string& /*state*/) {}
};

// Stops when a metric has not improved by more than `threshold` in `patience` evaluations in a row. `metric`
// is a key of the metrics of on_evaluate(), such as "eval_loss". Errors: on_evaluate() throws kUsage where
// the metrics do not have that key; restore() throws kBadData for a text that state() did not write.
class EarlyStopping : public Callback {
 public:
  EarlyStopping(std::string metric, bool greater_is_better, int64_t patience, double threshold = 0.0);
  void on_evaluate(const StepInfo& info, const MetricMap& metrics, TrainControl& control) override;
  std::string name() const override { return "EarlyStopping"; }
  std::string state() const override;
  void restore(const std::string& state) override;

 private:
  std::string metric_;
  bool greater_is_better_;
  int64_t patience_;
  double threshold_;
  bool has_best_ = false;
  double best_ = 0;
  int64_t evaluations_without_improvement_ = 0;
};

// How a run ended.
struct TrainOutput {
  int64_t step = 0;
  bool interrupted = false;  // request_stop() ended it; the state is saved
  // The run to resume had already finished: no step was done, its files in output_dir are unchanged, and
  // `metrics` are those of the whole run.
  bool was_complete = false;
  // train_loss, train_runtime (seconds), train_samples_per_second, train_steps_per_second, epoch, ...
  MetricMap metrics;
  std::string last_checkpoint;
  std::string best_checkpoint;
  LogHistory log_history;
};

// Scores per row, in the order of the file.
struct Prediction {
  std::vector<float> logits;  // one per label
  std::string label;          // the most likely class; for regression and multi-label: the values as text
};

// The bytes of a run, planned and observed.
struct MemoryFigures {
  int64_t predicted_total_bytes = 0;
  int64_t arena_bytes = 0;
  // Observed: where the used part of the arena ends, in units of 64 bytes (256 on a GPU). Used are bytes that
  // were written, and scratch that was given to a kernel which ran.
  int64_t arena_high_water_bytes = 0;
  // Observed: where the written part alone ends. It may be less, for a kernel need not write all its scratch.
  int64_t arena_written_bytes = 0;
  int64_t lower_bound_bytes = 0;
  int64_t constant_bytes = 0;
  int64_t measured_peak_bytes = 0;  // the process's VmHWM; on a GPU what NVML counts, less what others hold
};

}  // namespace plimsoll
