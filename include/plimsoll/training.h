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

// Where the process's environment matters: names of Hugging Face's cache (HF_HOME, HF_HUB_CACHE,
// HUGGINGFACE_HUB_CACHE, XDG_CACHE_HOME, HOME) with their values. The library reads no variables by itself.
using Environment = std::map<std::string, std::string>;

// After an optimizer step.
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
  // Wall time from the end of the step before, or the start of training, to its end, without what evaluations
  // and saves between took once the device was done with what it had been given. Callbacks and logs count.
  // The sum over an interval of the log is what its tokens_per_second counts.
  double step_ms = 0;
  // Of step_ms, spent waiting for a batch; not where the device had work meanwhile.
  double data_wait_ms = 0;
  // fp16: what the gradients were computed times, and whether they overflowed all the same, so that this step
  // changed no weight and the scale is half from here on.
  double loss_scale = 1;
  bool skipped = false;
  // Floating-point operations of this step's matrix products and attention, forward and backward, without
  // what was computed again to save memory; and what the device's data sheet promises of them a second in the
  // precision of the run, 0 where there is none.
  double model_flops = 0;
  double peak_flops_per_s = 0;
};

// What a callback may ask of the loop; set back after each event.
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
  // Something keeps the run back: a GPU that slows down for want of power or cooling, once for each cause; an
  // fp16 step that is skipped because its gradients overflowed. A line for people.
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
// is a key of the metrics of on_evaluate(), such as "eval_loss". Errors: kUsage of on_evaluate() where that
// is not there; kBadData of restore() for a text that no state() gave.
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
  // The run that it resumed had come to its end: no step was done, what it left in output_dir stays as it
  // was, and `metrics` are of all its steps.
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

// Bytes, as planned and as found.
struct MemoryFigures {
  int64_t predicted_total_bytes = 0;
  int64_t arena_bytes = 0;
  // As observed: the end of the highest unit (64 bytes; 256 on a GPU) of the arena that was in use, written
  // or given to a kernel that ran as its scratch.
  int64_t arena_high_water_bytes = 0;
  // Of what was written alone: a kernel may leave the end of its scratch as it was.
  int64_t arena_written_bytes = 0;
  int64_t lower_bound_bytes = 0;
  int64_t constant_bytes = 0;
  int64_t measured_peak_bytes = 0;  // the process's VmHWM; on a GPU what NVML counts, less what others hold
};

}  // namespace plimsoll
