// Runs a plan on the device that it was made for. Owns the arena; allocates nothing while a segment runs. Not
// thread-safe: one caller.
//
// The executor obeys the plan: a size or place that is not in it is an internal error, never a quiet
// temporary.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/cpu/arena.h"
#include "exec/backend.h"
#include "plan/compile/plan.h"

namespace plimsoll {

enum class ProgramKind : uint8_t { kTrain, kEvaluate };

// Sequences laid end to end, as the host hands them over. Spans are borrowed for the call.
struct HostBatch {
  std::span<const int32_t> ids;
  std::span<const int32_t> token_types;  // empty where the model has none
  std::span<const int32_t> positions;
  std::span<const int32_t> cu_seqlens;    // num_sequences + 1 entries
  std::span<const int32_t> class_labels;  // single label; empty when there are none
  std::span<const float> real_labels;     // [num_sequences, K]: multi-label and regression
  int64_t num_sequences() const { return static_cast<int64_t>(cu_seqlens.size()) - 1; }
  int64_t num_tokens() const { return static_cast<int64_t>(ids.size()); }
};

// What a step leaves for the host.
struct StepOutputs {
  double loss = 0;  // of its last micro-batch
  double grad_norm = 0;
  bool is_finite = false;      // whether the loss and all gradients are; if not, nothing was updated
  std::string first_bad = {};  // the first gradient that is not finite, or ""
  double loss_scale = 1;       // the factor that the gradients contain
  int64_t skipped_steps = 0;   // in the run so far
};

// A parameter, where it lies in the arena, for an update by the caller instead of by the optimizer segment.
struct UpdatedParameter {
  std::string name;
  int64_t count = 0;  // elements of weight, gradient and each state
  View weight;
  ConstView gradient;
  std::vector<View> states;
};

class Executor {
 public:
  // Takes the arena and fills it with `fill`. The plan must outlive the executor. Errors: kDevice where
  // memory is refused.
  explicit Executor(const Plan& plan, uint8_t fill = kArenaPoison);

  // Returns the tuning table that the plan should have (see tuning.h). The caller puts it into the plan
  // before it stages the first batch, because binding a bucket reads it there. Requires: nothing was written
  // yet, for measuring overwrites the arena. Cost: some seconds on a GPU, nothing on a CPU.
  TuningTable measure_products() { return backend_->measure_products(plan_); }

  // An input or output, where the host reads and writes it. The call waits for what runs, so that outputs are
  // current. On a CPU also any other persistent buffer (weights, states). Errors: kInternal for those on a
  // GPU.
  View tensor(const std::string& name) const;
  int64_t elements(const std::string& name) const;
  // Reads or writes part of any persistent buffer on any device, from `offset` bytes behind its start on. A
  // split weight is read and written as fp32, in whole elements. Waits for what runs.
  void read(const std::string& name, int64_t offset, std::span<std::byte> bytes) const;
  void write(const std::string& name, int64_t offset, std::span<const std::byte> bytes);

  // Writes a batch into the inputs of a program; loss is divided by `denominator`. Chooses the bucket.
  // Errors: kInternal for a batch that is larger than planned or ids outside their table.
  void stage(ProgramKind kind, const HostBatch& batch, double denominator);
  // Seed and number of the micro-batch for every random draw of the next run.
  void set_random(uint64_t seed, int64_t micro_batch);
  void set_accumulate(bool add);
  // The inputs of the next update. `step` counts from 1. Optimizers count only updates that were done, so the
  // steps that were skipped before are subtracted: skipped_steps(), or `skipped` where the caller knows
  // better.
  void set_update(double learning_rate, int64_t step) { set_update(learning_rate, step, skipped_steps()); }
  void set_update(double learning_rate, int64_t step, int64_t skipped);

  // Runs one segment of a program in the bucket of the staged batch. May return before the device is done.
  void run(ProgramKind kind, Segment segment);

  // Starts to bring all outputs to the host, as they are when everything that was given so far is done. Does
  // not wait.
  void fetch() { backend_->fetch_outputs(); }
  // An output as of the last fetch(). Waits for that fetch; where the plan runs ahead, not for what was given
  // since.
  ConstView fetched(const std::string& name) const;
  // Whether fetched() would wait.
  bool is_fetching() const { return backend_->is_fetching(); }
  // Returns when the device is done with all that ran, and with what the last step leaves to the next.
  void wait() {
    run_deferred_updates();
    backend_->wait();
  }
  // Requires: the last fetch() came after an optimizer segment.
  StepOutputs fetched_step() const;
  // Whether the memory is still as the last segments of training left it: no other program ran since, and
  // nobody wrote weights or states.
  bool is_train_undisturbed() const { return is_train_undisturbed_; }

  double loss() const { return tensor("loss").load(0); }
  double grad_norm() const { return tensor("grad_norm").load(0); }
  bool finite() const { return tensor("finite").load(0) != 0.0; }
  // The first gradient that was not finite in the optimizer segment, or "".
  std::string first_bad_gradient() const;
  // Every parameter, its gradient and those of its states that have its shape, in the order of the update.
  // The gradients are there between the backward and the optimizer segment. Requires: a CPU, weights that are
  // whole, gradients that outlive the backward segment.
  std::vector<UpdatedParameter> updated_parameters() const;
  // To be called after the host changed weights or states where they lie (updated_parameters()).
  void note_own_update() {
    copies_are_stale_ = true;
    updated_ = false;
  }
  // Finds where a loss that is not finite comes from. Runs the forward segment of the staged training batch
  // once more and names the first value, in the order of the program, that is not finite: "the weight 'x'" or
  // "'y' in module z". "" where all values that are kept for the backward pass are finite. Cost: a forward
  // pass, and reading all those values.
  std::string first_bad_value();

  const Bucket& current_bucket(ProgramKind kind) const;
  // Observed: where the used part of the arena ends, rounded up to the arena's alignment. Used are bytes that
  // were written, and scratch that was given to a kernel which ran: a kernel may leave the end of its scratch
  // unwritten. Cost on a GPU: copies the arena.
  int64_t high_water_bytes() const { return std::max(written_bytes(), given_scratch_end_); }
  // Observed: where the written part of the arena ends, rounded up likewise.
  int64_t written_bytes() const;
  const Plan& plan() const { return plan_; }

  // With loss scaling: the scale of the last step's gradients, and how many steps were skipped because of an
  // overflow, those before a resumed run's checkpoint included. Without it: 1 and 0.
  double used_loss_scale() const;
  int64_t skipped_steps() const;

  // Sets optimizer states (and persistent gradients) to what a run that starts from nothing holds: zero, but
  // for the plan's initial states.
  void zero_states();

  // Measures what the device can do at most. Requires: no program has run yet.
  Ceilings measure_ceilings() { return backend_->measure_ceilings(); }

  void set_profiling(bool on) { profiling_ = on; }
  // The times of each op of the program since profiling was switched on. The first run of a segment in a
  // bucket is counted apart, in first_times(): libraries take their memory in it, and pages are touched for
  // the first time.
  const std::vector<OpTime>& times(ProgramKind kind) const { return program(kind).times; }
  const std::vector<OpTime>& first_times(ProgramKind kind) const { return program(kind).first_times; }

 private:
  struct Program {
    const ProgramPlan* plan = nullptr;
    std::map<int64_t, BoundProgram> by_tokens;  // bound when a bucket is met first
    BoundProgram* bound = nullptr;              // of the staged batch
    Bucket bucket;
    Bucket staged;  // what the batch fills of it
    std::vector<OpTime> times;
    std::vector<OpTime> first_times;
  };
  Program& program(ProgramKind kind);
  const Program& program(ProgramKind kind) const { return const_cast<Executor*>(this)->program(kind); }
  // The name of the gradient that the optimizer segment reported in the output "first_bad"; "" for none.
  std::string bad_gradient(int64_t operand) const;
  BoundProgram& bound_for(Program& program, const Bucket& bucket);
  void refresh_copies();
  void note_scratch(const ProgramPlan& program, Segment segment);
  // Does the work that the last step left to the next one, updates of weights and copies to the host. To be
  // called before anybody reads or writes weights or states, and before another program takes the bytes.
  void run_deferred_updates() const;
  void read_split(const SplitWeight& parts, int64_t offset, std::span<std::byte> whole) const;
  void write_split(const SplitWeight& parts, int64_t offset, std::span<const std::byte> whole);
  void fill_input(const std::string& name, std::span<const int32_t> values, int64_t count, int32_t rest);

  const Plan& plan_;
  std::unique_ptr<ExecutorBackend> backend_;
  bool copies_are_stale_ = true;  // of weights that the host has written since
  bool is_train_undisturbed_ = false;
  bool updated_ = false;  // since the host has written states: an output tells what they count
  Program train_;
  Program evaluate_;
  int64_t given_scratch_end_ = 0;                     // in whole units of the arena's alignment
  mutable BoundProgram* deferred_program_ = nullptr;  // the bucket of a step with deferred work
  bool profiling_ = false;
};

}  // namespace plimsoll
