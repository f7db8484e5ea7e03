// Runs optimizer steps: passes micro-batches and updates to the device and reads their results, one step ahead
// where the plan allows it. It measures how long steps take. It does not decide what happens after a step:
// that is the job of its client, the training loop. One thread uses an object.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "plan/compile/plan.h"
#include "plimsoll/training.h"
#include "train/recent_times.h"
#include "train/session.h"

namespace plimsoll {

// A step whose results have been read.
struct FinishedStep {
  StepInfo info;
  DataPosition next;          // position of the batch after the step
  int64_t micro_batches = 0;  // number of micro-batches of the run, this step included
  double flops = 0;
  int64_t skipped_steps = 0;  // number of steps of the run whose update was skipped, this one included
  double seconds = 0;         // time since StepEngine::start()
};

class StepEngine {
  using Clock = std::chrono::steady_clock;

 public:
  enum class AfterStep : uint8_t { kContinue, kEnd };

  // Decides what happens between steps.
  class Client {
   public:
    virtual ~Client() = default;
    // Returns the learning rate of the next update. `num_updates`: updates done so far. A step that was skipped
    // for its loss scale counts as a step but not as an update, as in Trainer.
    virtual double learning_rate(int64_t num_updates) = 0;
    // Returns true if an evaluation, a save or similar work follows the step, so that the results of the step are
    // needed before the next one starts. `next`: position of the batch after the step.
    virtual bool is_followed_by_other_work(const StepInfo& info, const DataPosition& next) = 0;
    // Called when the results of a step have been read and before the update of the next one starts: the weights
    // are those of the step. The client logs, evaluates and saves here.
    virtual AfterStep on_step(const FinishedStep& step) = 0;
  };

  // Requires: `session` and `client` outlive the engine.
  StepEngine(Session& session, Client& client);

  // Starts the measurement of FinishedStep::seconds. `num_steps`: number of steps that the run has done before. `states_begin`:
  // number of steps of the run before its optimizer states were set to zero; bias corrections do not count these steps. Requires:
  // the session is allocated.
  void start(int64_t num_steps, int64_t states_begin);
  // Starts the loader. `num_epochs`: as for Session::start_batches().
  void start_batches(const DataPosition& position, int64_t num_epochs);
  // Starts the measurement of the first step.
  void start_step_clock() { last_finish_ = Clock::now(); }

  // Passes the micro-batches of one step and its update to the device. If Executor::runs_ahead(), the results of a
  // micro-batch or step are read after the forward and backward pass of the next one have been enqueued, but before
  // the update that follows them. Hence no update runs after a step whose loss or gradients are not finite, and the
  // work of the client after a step sees the weights and states of that step. Errors: kNotFinite, kDevice, and those
  // of the client.
  void run_step();

  // Returns true once the client ended the run.
  bool has_ended() const { return has_ended_; }
  // Returns true if the update of a step was enqueued whose results have not been read.
  bool has_pending_step() const { return pending_.has_value(); }

  // Returns the mean wall time of the steps of this object, including the time they wait for data; 0 before the first
  // step. Steps that used a bucket for the first time are slower and count only if there are no others.
  double mean_step_ms() const {
    const StepTimes& times = later_steps_.count > 0 ? later_steps_ : first_steps_;
    return times.count == 0 ? 0.0 : times.ms / static_cast<double>(times.count);
  }

  // Stops the clock of the steps during its lifetime, for evaluations and saves. The constructor waits for the
  // work that was enqueued on the device; that time still counts, since it belongs to the next step.
  class Pause {
   public:
    // `phase`: what the rank does during the pause.
    Pause(StepEngine& engine, RankPhase phase);
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    StepEngine& engine_;
    Clock::time_point start_;
  };

 private:
  // A micro-batch that was enqueued on the device.
  struct EnqueuedBatch {
    const MicroBatch* batch = nullptr;
    int64_t number = 0;  // the index within the run, from 0
  };
  // An optimizer step from its first micro-batch until its results have been read.
  struct Step {
    StepInfo info = {};
    double denominator = 0;
    int64_t num_enqueued = 0;                  // number of micro-batches that were enqueued
    std::optional<EnqueuedBatch> unread = {};  // the last micro-batch, until its loss has been read
    std::vector<int32_t> rows = {};            // row numbers in the training data
    BatchInfo last = {};
    int64_t micro_batches_done = 0;
    double flops = 0;
    bool meets_bucket = false;  // true if no earlier step of this object has run in its bucket
  };
  struct BucketFlops {
    double all = 0;
    double model = 0;  // model_flops() of the program
  };
  struct StepTimes {
    double ms = 0;
    int64_t count = 0;
  };

  MicroBatch& load_batch();
  void enqueue(const Step& step, const EnqueuedBatch& enqueued);
  void count_batch(Step& step, const MicroBatch& batch);
  void read_loss(Step& step);
  bool ranks_have_other_gradients() const;
  void take_first_bad_of_ranks(StepOutputs& outputs);
  void add_other_ranks(Step& step);
  void finish_pending_step();
  void run_pipeline_step();
  // Reports to the other ranks that this rank begins the step, or resumes it after other work (RankProgress).
  void begin_phase_of_step(int64_t step);
  [[noreturn]] void throw_bad_loss(const Step& step, const EnqueuedBatch& enqueued, double loss);

  Session& session_;
  Client& client_;
  std::vector<MicroBatch> batches_;  // used in turn: two if a batch is loaded while the device computes
  size_t next_batch_ = 0;
  std::optional<Step> pending_;  // a step whose update was enqueued and whose results have not been read
  int64_t num_steps_ = 0;        // the number of steps whose results have been read, over the whole run
  int64_t states_begin_ = 0;
  int64_t skipped_steps_ = 0;
  bool has_ended_ = false;
  double waited_ms_ = 0;  // the time spent waiting for batches since the last step was finished
  Clock::time_point start_;
  Clock::time_point
      last_finish_;  // time of the last finished step, moved forward by the length of each pause since then
  std::map<std::pair<int64_t, int64_t>, BucketFlops> flops_by_bucket_;
  StepTimes first_steps_;  // times of steps that used a bucket for the first time in this object
  StepTimes later_steps_;
  RecentTimes recent_steps_;
};

// Floating-point operations of one micro-batch of a training step, as the plan states them.
double plan_flops(const ProgramPlan& program, const Bucket& bucket);

}  // namespace plimsoll
