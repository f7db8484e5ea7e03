// The state of a Trainer and its batches, shared by the files that implement include/plimsoll/trainer.h. Not thread-safe,
// except that any thread may set `stop`.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "plimsoll/trainer.h"
#include "run/run_state.h"
#include "train/session.h"
#include "train/speed.h"
#include "train/train_loop.h"

namespace plimsoll {

struct Batch::Impl {
  MicroBatch batch;
  Dataset rows = {};            // the rows of the batch, if it was made by make_batch()
  const void* owner = nullptr;  // the Trainer that made the batch
  bool has_labels = true;
  int64_t batches_per_epoch = 1;
  int64_t batch_size = 1;
};

// The current optimizer step of a custom training loop.
struct OwnStep {
  int64_t micro_batches = 0;  // number of micro-batches whose gradients were added
  int64_t labels = 0;         // number of labels in the micro-batches whose gradients were added
  double denominator = 1;     // the number by which the loss of each micro-batch is divided
};

// The part of the state of a custom training loop that its checkpoints store in addition to tensors.
struct OwnRun {
  // the state that the most recent checkpoint of this loop contains; not set if the loop has neither saved nor loaded one
  std::optional<RunState> state = {};
  DataPosition position = {};  // position in the data after the last batch that was used
  DataPosition start = {};     // position in the data at which next_batch() begins
  double epoch = 0;
  int64_t tokens = 0;
};

struct Trainer::Impl {
  // Only the first rank may write files of the run, so the other ranks get a file system that only reads.
  explicit Impl(RunSetup setup)
      : files(setup.place.is_first() ? posix_file_system() : reading_file_system()),
        session(std::move(setup), files) {}

  FileSystem& files;
  // measures how much memory the constructor of Trainer takes, starting when this object is constructed
  MemoryPhase init_memory;
  Session session;
  PlanReport plan;
  std::vector<std::shared_ptr<Callback>> callbacks;
  std::atomic<bool> stop{false};
  std::unique_ptr<TrainLoop> loop;  // the training loop of the most recent call of train()
  std::string loaded;
  // memory metrics of the constructor, until they are added to the metrics of the first phase that ends
  MetricMap init_metrics;
  // The members below are the state of a custom training loop.
  bool batches_started = false;
  int64_t steps = 0;
  OwnStep own_step;
  OwnRun own_run;
  // the weights for a custom update rule; filled at the first call of update_by()
  std::vector<UpdatedParameter> own_parameters;

  class TrainCall;

  void start();
  // Returns the batch's data. Throws kUsage if the batch is empty or belongs to another Trainer. `action` is the name
  // of the calling function for the message, such as "forward()".
  const Batch::Impl& require_batch(const Batch& batch, const char* action) const;
  // Throws kUsage if this Trainer was not constructed for training. `function` is the name of the call, for the
  // message.
  void require_training(const char* function) const;
  // Throws kUsage if this Trainer has no training data. `function` is the name of the call, for the message.
  void require_training_data(const char* function) const;
  void require_gradients(const char* function) const;
  // Throws kUsage, with the reason, if update_by() cannot update the weights in the form in which the plan stores them,
  // such as bf16.
  void require_own_update() const;
  // Called at the end of a step: scales the accumulated gradients, so that they become the gradients of the mean loss over
  // all samples of the step.
  void finish_gradients();
  // Throws kUsage if gradients have been computed but not used by update(): running an evaluation, for example, would
  // overwrite them.
  void require_no_gradients(const char* function) const;
  // Adds the memory metrics of the initialization to the metrics of the first phase that ends, as in Hugging Face's
  // Trainer.
  void add_init_metrics(MetricMap& metrics) { metrics.merge(std::exchange(init_metrics, {})); }
  const Arguments& arguments() const { return session.setup().arguments; }
  double step_ms() const { return loop ? loop->mean_step_ms() : 0.0; }
};

}  // namespace plimsoll
