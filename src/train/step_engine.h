// Runs optimizer steps: it enqueues micro-batches and updates on the device and reads their results. If the plan allows it, it enqueues
// the next step before it reads the results of the previous one. It also measures how long steps take. Its client, the training loop,
// decides what happens after a step. An object is used by one thread.
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
  DataPosition next;          // position in the training data of the batch that follows this step
  int64_t micro_batches = 0;  // number of micro-batches of the run, including those of this step
  double flops = 0;
  int64_t skipped_steps = 0;  // number of steps of the run whose update was skipped, including this one
  double seconds = 0;         // seconds since StepEngine::start()
};

class StepEngine {
  using Clock = std::chrono::steady_clock;

 public:
  enum class AfterStep : uint8_t { kContinue, kEnd };

  // Implemented by the training loop to decide what happens between steps.
  class Client {
   public:
    virtual ~Client() = default;
    // Returns the learning rate of the next update. `num_updates` is the number of updates so far. A step that was skipped because of its
    // loss scale counts as a step but not as an update, as in Trainer.
    virtual double learning_rate(int64_t num_updates) = 0;
    // Returns true if the results of the step are needed before the next step starts, because the client will evaluate, save or do
    // other work after it. `next` is the position in the training data of the batch after the step.
    virtual bool is_followed_by_other_work(const StepInfo& info, const DataPosition& next) = 0;
    // Called after the results of a step were read and before the weights are updated again, so that the client sees the weights of that
    // step. The client logs, evaluates and saves in this function.
    virtual AfterStep on_step(const FinishedStep& step) = 0;
  };

  // Requires: `session` and `client` outlive the engine.
  StepEngine(Session& session, Client& client);

  // Starts the clock for FinishedStep::seconds. `num_steps`: number of steps that the run has done before. `states_begin`: number of
  // steps of the run before its optimizer states were set to zero; bias corrections do not count these steps. Requires: the session is
  // allocated.
  void start(int64_t num_steps, int64_t states_begin);
  // Starts the loader of training batches. `num_epochs` has the same meaning as in Session::start_batches().
  void start_batches(const DataPosition& position, int64_t num_epochs);
  // Starts the clock for the first step.
  void start_step_clock() { last_finish_ = Clock::now(); }

  // Enqueues the micro-batches of one step and its update on the device. If Executor::runs_ahead(), the results of a micro-batch or step
  // are read after the forward and backward pass of the next one have been enqueued, but before the update that follows them. Hence no
  // update runs after a step whose loss or gradients are not finite, and the work of the client after a step sees the weights and states
  // of that step. Errors: kNotFinite, kDevice, and those of the client.
  void run_step();

  // Returns true once the client ended the run.
  bool has_ended() const { return has_ended_; }
  // Returns true if the update of a step has been enqueued but its results have not been read.
  bool has_pending_step() const { return pending_.has_value(); }

  // Returns the mean wall time of the steps of this object, including the time for which they wait for data; 0 before the first step. The
  // first step in each bucket (compiled batch size) is slower than the later ones and is ignored, unless there are no later steps.
  double mean_step_ms() const {
    const StepTimes& times = later_steps_.count > 0 ? later_steps_ : first_steps_;
    return times.count == 0 ? 0.0 : times.ms / static_cast<double>(times.count);
  }

  // While an object of this class exists, the time that passes does not count as time of a step. It is used during evaluations and saves.
  // The constructor first waits for the work that was enqueued on the device, and this waiting time counts for the next step.
  class Pause {
   public:
    // `phase` is what the rank reports to the other ranks as its current activity during the pause.
    Pause(StepEngine& engine, RankPhase phase);
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    StepEngine& engine_;
    Clock::time_point start_;
  };

 private:
  // A micro-batch that has been enqueued on the device.
  struct EnqueuedBatch {
    const MicroBatch* batch = nullptr;
    int64_t number = 0;  // index of the micro-batch in the run, starting at 0
  };
  // An optimizer step from its first micro-batch until its results have been read.
  struct Step {
    StepInfo info = {};
    double denominator = 0;
    int64_t num_enqueued = 0;                  // number of micro-batches enqueued so far
    std::optional<EnqueuedBatch> unread = {};  // the last micro-batch, until its loss has been read
    std::vector<int32_t> rows = {};  // rows of this rank's micro-batches so far: indices in the training data
    BatchInfo last = {};
    int64_t micro_batches_done = 0;
    double flops = 0;
    bool meets_bucket = false;  // true if this is the first step with this bucket (compiled batch size)
  };
  struct BucketFlops {
    double all = 0;
    double model = 0;  // floating-point operations of the model, as model_flops() counts them
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
  // Tells the other ranks (RankProgress) that this rank begins the step, or continues it after other work.
  void begin_phase_of_step(int64_t step);
  [[noreturn]] void throw_bad_loss(const Step& step, const EnqueuedBatch& enqueued, double loss);

  Session& session_;
  Client& client_;
  // Batches that are used in turn: one per micro-batch of a step in a pipeline; otherwise two if the next batch is loaded while the device
  // computes, or one if not.
  std::vector<MicroBatch> batches_;
  size_t next_batch_ = 0;
  // The step whose update has been enqueued but whose results have not been read yet; empty if there is none.
  std::optional<Step> pending_;
  int64_t num_steps_ = 0;  // number of steps of the whole run whose results have been read
  int64_t states_begin_ = 0;
  int64_t skipped_steps_ = 0;
  bool has_ended_ = false;
  double waited_ms_ = 0;  // time spent waiting for batches since the previous step was finished
  Clock::time_point start_;
  Clock::time_point
      // Time at which the previous step was finished, plus the length of each pause since then.
      last_finish_;
  std::map<std::pair<int64_t, int64_t>, BucketFlops> flops_by_bucket_;
  StepTimes first_steps_;  // durations of the first step with each bucket (compiled batch size)
  StepTimes later_steps_;
  RecentTimes recent_steps_;
};

// Returns the floating-point operations of one micro-batch of a training step, according to the plan.
double plan_flops(const ProgramPlan& program, const Bucket& bucket);

}  // namespace plimsoll
