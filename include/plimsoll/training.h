// The data that a program receives during a run: the measurements of each step, and metrics. Also declares the base
// class of callbacks. Thread-safe: values.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/error.h"
#include "plimsoll/log_history.h"

namespace plimsoll {

// Environment variables for the functions that look up caches (HF_HOME, HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE,
// XDG_CACHE_HOME and HOME) and for downloads (docs/DOWNLOADS.md lists them), and the variables with which torchrun, Open
// MPI and Slurm tell a process which rank of a run it is (src/run/rank_environment.h describes them). The library reads no other variable,
// and reads these only in process_environment(), the default of every function that has an Environment as parameter. Pass another map to
// search elsewhere; an empty map has no caches and describes a run of one process. A map may also have LC_CTYPE, the name of the effective
// locale (tables use only ASCII unless it is a UTF-8 locale), and COLUMNS, the width of the terminal that shows the tables.
using Environment = std::map<std::string, std::string>;

// Returns the variables listed above that are set in this process. If HOME is not set, the result contains the home
// directory of the user in the password database. Thread-safe unless another thread changes the environment.
Environment process_environment();

// Returns the number of ranks on this host if a launcher has started this process as a rank of a run, otherwise
// nothing. Errors: kUsage for variables of a launcher that contradict each other.
std::optional<int> num_local_ranks(const Environment& environment);
// Returns true if this process is the rank that prints and writes the files of a run: rank 0, or a process that no
// launcher has started as a rank. Errors: as num_local_ranks().
bool is_first_rank(const Environment& environment);

// The program whose variables tell this process its rank. `plimsoll train` sets the same variables as torchrun.
enum class Launcher : uint8_t { kNone, kTorchrun, kOpenMpi, kSlurm };
// Returns the program that started this process as a rank. Errors: as num_local_ranks().
Launcher launcher_of(const Environment& environment);

// Finds the checkpoints that runs have written into an output folder since an object of this class was constructed, so that a
// program that starts runs can let a new one resume where a failed one ended. One thread at a time uses an object.
class NewCheckpoints {
 public:
  // Lists the checkpoints that the folder contains now. The folder need not exist.
  explicit NewCheckpoints(std::string output_dir);
  ~NewCheckpoints();
  NewCheckpoints(const NewCheckpoints&) = delete;
  NewCheckpoints& operator=(const NewCheckpoints&) = delete;

  // Returns the new checkpoint of the highest step that is complete and whose files have the hashes of its manifest; "" if there
  // is none. Cost: reads the checkpoint. Errors: kDevice if the folder cannot be read.
  std::string newest() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The loss, the times and the other measurements of one optimizer step. They are complete when the step has ended.
struct StepInfo {
  int64_t step = 0;  // number of optimizer steps that are complete
  int64_t max_steps = 0;
  double epoch = 0;          // position in the training data, counted in epochs
  double loss = 0;           // mean over the samples of this step
  double z_loss = 0;         // the part of `loss` that --z_loss_coef adds
  double grad_norm = 0;      // norm of the gradients before clipping
  double learning_rate = 0;  // learning rate of this step
  int64_t num_tokens = 0;    // number of tokens, without padding
  int64_t num_sequences = 0;
  // Number of tokens that were computed. A batch runs in a program that was compiled for a fixed number of tokens. If the batch
  // has fewer tokens, the unused rows are computed too.
  int64_t num_rows_computed = 0;
  // Time since the end of the previous step (for the first step: since the start of training). It excludes
  // evaluation and checkpoints and includes callbacks and logging. tokens_per_second in the log is computed
  // from the sum of these times.
  double step_ms = 0;
  // The part of step_ms in which the device was idle because the run waited for a batch.
  double data_wait_ms = 0;
  // For fp16: the factor by which the loss was multiplied for the backward pass.
  double loss_scale = 1;
  // For fp16: true if the gradients overflowed. The step then changed no weight, and the next step uses half
  // the loss scale.
  bool skipped = false;
  // Floating-point operations of the matrix products and the attention of this step, forward and backward.
  // Recomputation is not counted.
  double model_flops = 0;
  // The rate of floating-point operations that the data sheet of the device states for the precision of the
  // run; 0 if unknown.
  double peak_flops_per_s = 0;
};

// Requests of a callback to the training loop. The loop resets all flags at the end of each step,
// before it calls on_step_end().
struct TrainControl {
  bool stop = false;      // stop after this step
  bool evaluate = false;  // evaluate after this step
  bool save = false;      // save a checkpoint after this step
  bool log = false;       // write a log record after this step
};

// Base class for code that observes or controls a run. The training thread calls its functions. An exception
// ends the run.
class Callback {
 public:
  virtual ~Callback() = default;
  virtual void on_train_begin(int64_t /*max_steps*/) {}
  virtual void on_step_end(const StepInfo& /*info*/, TrainControl& /*control*/) {}
  virtual void on_log(const LogRecord& /*record*/) {}
  // Receives the metrics of an evaluation, whose keys begin with "eval_".
  virtual void on_evaluate(const StepInfo& /*info*/, const MetricMap& /*metrics*/,
                           TrainControl& /*control*/) {}
  virtual void on_save(const std::string& /*path*/) {}
  // Receives a line for people about something that slows the run down: a GPU that reduces its clocks because
  // of power or temperature (once per cause), an fp16 step that was skipped because its gradients overflowed,
  // or time lost waiting for data.
  virtual void on_warning(const std::string& /*text*/) {}
  // Called between the batches of an evaluation or a prediction.
  virtual void on_evaluate_progress(int64_t /*rows_done*/, int64_t /*num_rows*/) {}
  virtual void on_train_end() {}
  // A callback that must keep data when a run is resumed overrides these functions. A checkpoint stores what state()
  // returns under name(), and restore() gets it when the run is resumed.
  virtual std::string name() const { return {}; }
  virtual std::string state() const { return {}; }
  virtual void restore(const std::string& /*state*/) {}
};

// Stops the run when a metric has not improved by more than `threshold` in `patience` consecutive
// evaluations. `metric` is a key of the metrics of on_evaluate(), such as "eval_loss". Errors: on_evaluate()
// throws kUsage if the metrics do not contain that key; restore() throws kBadData for a text that state() did
// not write.
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

// The result of a training run.
struct TrainOutput {
  int64_t step = 0;
  bool interrupted = false;  // true if request_stop() ended the run; the state was then saved
  // True if the resumed run had already finished. In this case no step ran, the files in output_dir are
  // unchanged, and `metrics` describes the complete run.
  bool was_complete = false;
  // The keys are train_loss, train_runtime (seconds), train_samples_per_second, train_steps_per_second, epoch, ...
  MetricMap metrics;
  std::string last_checkpoint;
  std::string best_checkpoint;
  LogHistory log_history;
};

// The predicted scores of one row. Predictions are in the order of the file.
struct Prediction {
  // One logit per label. For token classification, one per label for each word that the model read.
  std::vector<float> logits;
  // The probabilities that follow from the logits: the softmax over all labels; for a multi-label task, the sigmoid of
  // each logit; for token classification, the softmax over the labels of each word. Empty for regression.
  std::vector<float> probabilities;
  // The most likely class; for regression and multi-label tasks, the values as text; for token classification, the class
  // of each word, separated by blanks.
  std::string label;
  // The one or two texts of the row, if --scores is set or the texts were given in memory; for token classification, its
  // words, separated by blanks. Empty for rows of token ids.
  std::vector<std::string> texts;
};

// The planned and observed memory of a run, in bytes.
struct MemoryFigures {
  int64_t predicted_total_bytes = 0;
  int64_t arena_bytes = 0;
  // Observed end of the used part of the arena, rounded up to 64 bytes (256 on a GPU). Used bytes are bytes
  // that were written and the scratch memory of kernels that ran.
  int64_t arena_high_water_bytes = 0;
  // Observed end of the written part of the arena. It can be smaller than arena_high_water_bytes because a kernel
  // need not write all its scratch memory.
  int64_t arena_written_bytes = 0;
  int64_t lower_bound_bytes = 0;
  int64_t constant_bytes = 0;
  // On a CPU the peak resident memory of the process (VmHWM of Linux). On a GPU the memory that NVML reports, without
  // that of other processes.
  int64_t measured_peak_bytes = 0;
};

}  // namespace plimsoll
