// What a Trainer and its batches hold: shared by the files that implement include/plimsoll/trainer.h. Not
// thread-safe, but `stop` may be set from anywhere.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "plimsoll/trainer.h"
#include "train/memory_deltas.h"
#include "train/session.h"
#include "train/train_loop.h"

namespace plimsoll {

struct Batch::Impl {
  MicroBatch batch;
  const void* owner = nullptr;  // whose plan has room for it: the Trainer that made it
  int64_t batches_per_epoch = 1;
  int64_t batch_size = 1;
};

// The optimizer step that a loop of the user's own is in.
struct OwnStep {
  int64_t micro_batches = 0;  // whose gradients are added up
  int64_t rows = 0;           // in them
  double denominator = 1;     // by which the loss of each was divided
};

struct Trainer::Impl {
  explicit Impl(RunSetup setup) : session(std::move(setup), posix_file_system()) {}

  MemoryPhase init_memory;  // begins with the object, before the plan is made
  Session session;
  PlanReport plan;
  std::vector<std::shared_ptr<Callback>> callbacks;
  std::atomic<bool> stop{false};
  std::unique_ptr<TrainLoop> loop;  // the last that began
  std::string loaded;
  MetricMap init_metrics;  // its end, until a phase reports it
  // A loop of one's own.
  bool batches_started = false;
  int64_t steps = 0;
  OwnStep own_step;
  std::vector<UpdatedParameter> own_parameters;  // found at the first update by a rule of the user's own

  class TrainCall;

  void start();
  // Throws kUsage, saying what to call first, where this Trainer was not made to train.
  void require_training(const char* function) const;
  void require_gradients(const char* function) const;
  // Throws kUsage, with the reason, where the plan keeps what a rule of the user's own cannot work on.
  void require_own_update() const;
  // Ends the step whose gradients are there: they are those of the mean over its samples after it.
  void finish_gradients();
  // Throws kUsage while gradients wait for update(): the same memory serves other programs.
  void require_no_gradients(const char* function) const;
  // The first phase that ends tells of the initialisation too, as in Trainer.
  void add_init_metrics(MetricMap& metrics) { metrics.merge(std::exchange(init_metrics, {})); }
  const Arguments& arguments() const { return session.setup().arguments; }
  double step_ms() const { return loop ? loop->mean_step_ms() : 0.0; }
};

}  // namespace plimsoll
