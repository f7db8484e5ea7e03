// A run without its loop: plan, memory, weights, batches, and single steps. The training loop (trainer.h) and
// the public Trainer, which evaluates, predicts and serves callers' own loops (include/plimsoll/trainer.h),
// are built on it. Owns everything of the run. One thread drives it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/executor.h"
#include "io/data/loader.h"
#include "metrics/metrics.h"
#include "plan/compile/plan.h"
#include "plimsoll/training.h"
#include "run/run_setup.h"

namespace plimsoll {

// A micro-batch in memory of its own.
struct MicroBatch {
  OwnedBatch storage;
  BatchInfo info;
  HostBatch view() const;
};

// What update() did with the gradients of a step.
enum class UpdateOutcome : uint8_t {
  kUpdated,
  kSkipped,  // nothing was updated: they overflowed, and the loss scale is smaller from here on
};

class Session {
 public:
  // Plans; allocates nothing of the run yet.
  Session(RunSetup setup, FileSystem& files);
  ~Session();

  const RunSetup& setup() const { return setup_; }
  const Plan& plan() const { return plan_; }
  FileSystem& files() const { return files_; }

  // Takes the arena, measures matrix products where the plan asks for it, fills weights (from the folder,
  // else fresh). Errors: kWillNotFit before anything is taken; kBadData, kDevice. Where it throws nothing is
  // held and is_allocated() is false, so that it may be called again. Returns lines for people: what was
  // measured, and what was loaded in Hugging Face's words; "" for neither.
  std::string allocate();
  bool is_allocated() const { return executor_ != nullptr; }
  // Gives the arena back, after a failure that left a mixture of old and new weights or states in it.
  // allocate() fills a new one.
  void release() { executor_.reset(); }
  Executor& executor() { return *executor_; }
  const Executor& executor() const { return *executor_; }

  // Batches of the training data from a position on, to the end of epoch `num_epochs` - 1 (-1: without end).
  // Workers make batches ahead, and the plan has room for those of the epochs that the run was planned for.
  void start_batches(DataPosition position, int64_t num_epochs = -1);
  // The next micro-batch. Requires: start_batches. Cost: waits for a worker where there are some.
  bool next_batch(MicroBatch& batch);
  MicroBatch make_batch() const;

  // Loss (already divided by `denominator`) and gradients of one micro-batch. `first` overwrites gradients,
  // else they are added where the plan accumulates.
  double forward_backward(const MicroBatch& batch, double denominator, bool first);
  // Updates the weights, or skips the step where a loss scale was too large. Errors: kNotFinite, naming the
  // first bad tensor, where no smaller scale would help; nothing is updated then.
  UpdateOutcome update(double learning_rate, int64_t step);

  // The same without waiting: these may return before the device is done, and what they compute is read by
  // Executor::fetched(). `skipped`: how many steps before this one updated nothing.
  void start_forward_backward(const MicroBatch& batch, double denominator, bool first);
  void start_update(double learning_rate, int64_t step, int64_t skipped);
  // Errors: as update(). Requires: the loss is finite.
  UpdateOutcome outcome_of(const StepOutputs& outputs, int64_t step) const;
  // Executor::first_bad_value() for a micro-batch whose loss was not finite: the `number`th of the run, from
  // 0. Requires: its step has not changed any weight.
  std::string first_bad_value(const MicroBatch& batch, double denominator, int64_t number);

  // Mean loss and the run's metrics over a data set, in order, without dropout, and how fast that was:
  // <split>_loss, <split>_accuracy, ..., <split>_runtime and the rates of train/speed.h.
  MetricMap evaluate(const Dataset& data, const std::string& split, std::vector<std::vector<float>>* logits,
                     const std::function<void(int64_t, int64_t)>& progress);

  // Sets optimizer states and random draws to those of a run that starts from nothing; the weights stay as
  // they are. Costs nothing where they are so already.
  void begin_anew();
  // The states are about to be read from a checkpoint.
  void note_states_read() { is_new_ = false; }

  int64_t micro_batches_done() const { return micro_batches_; }
  void set_micro_batches_done(int64_t n) { micro_batches_ = n; }

  // What a saved model or adapter consists of. Valid while the session lives.
  ModelContents model_contents() const;

  MemoryFigures memory() const;
  // What the device can do at most, measured before the run where it is profiled.
  const Ceilings& ceilings() const { return ceilings_; }

 private:
  // Keys without a split.
  MetricMap loss_and_metrics(const Dataset& data, std::vector<std::vector<float>>* logits,
                             const std::function<void(int64_t, int64_t)>& progress);
  std::string measure_products(Executor& executor);
  // Returns what was loaded, in Hugging Face's words.
  std::string fill_weights(Executor& executor) const;
  // The tokenizer's files, to be carried byte for byte into every saved model.
  std::vector<CarriedFile> tokenizer_files() const;

  RunSetup setup_;
  FileSystem& files_;
  Plan plan_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Loader> loader_;
  bool is_new_ = true;           // states and micro_batches_ are those of a run that starts from nothing
  int64_t micro_batches_ = 0;    // numbers random draws
  int64_t gpu_used_before_ = 0;  // by others, when the arena was taken
  Ceilings ceilings_;
};

}  // namespace plimsoll
