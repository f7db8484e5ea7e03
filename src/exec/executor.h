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
#include "plan/build/plan.h"

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
  bool is_finite = false;      // that loss and all gradients: else nothing was updated
  std::string first_bad = {};  // the first gradient that is not finite, or ""
  double loss_scale = 1;       // that the gradients were scaled by
  int64_t skipped_steps = 0;   // so far
};

// What an update of the host's own reads and writes of a parameter, where it lies.
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

  // The tuning table that the plan should have (see tuning.h). The executor reads the plan's when it binds a
  // bucket, so the caller puts the table into the plan before the first batch is staged. Requires: nothing
  // was written yet, for measuring needs the arena. Cost: some seconds on a GPU, nothing on a CPU.
  TuningTable measure_products() { return backend_->measure_products(plan_); }

  // An input or output where the host sees it; an output is current after this call, which waits for what
  // runs. On a CPU the other persistent buffers too (weights, states). Errors: kInternal for those on a GPU.
  View tensor(const std::string& name) const;
  int64_t elements(const std::string& name) const;
  // Any persistent buffer, `offset` bytes from its start on any device; a split weight as the fp32 that it
  // is, whole elements of it. Waits.
  void read(const std::string& name, int64_t offset, std::span<std::byte> bytes) const;
  void write(const std::string& name, int64_t offset, std::span<const std::byte> bytes);

  // Writes a batch into the inputs of a program; loss is divided by `denominator`. Chooses the bucket.
  // Errors: kInternal for a batch that is larger than planned or ids outside their table.
  void stage(ProgramKind kind, const HostBatch& batch, double denominator);
  // Seed and number of the micro-batch for every random draw of the next run.
  void set_random(uint64_t seed, int64_t micro_batch);
  void set_accumulate(bool add);
  // `step` is 1 for the first; the update's own number leaves out the steps that were skipped: of all that
  // ran, or as many as the caller knows of.
  void set_update(double learning_rate, int64_t step) { set_update(learning_rate, step, skipped_steps()); }
  void set_update(double learning_rate, int64_t step, int64_t skipped);

  // Runs one segment of a program in the bucket of the staged batch. May return before the device is done.
  void run(ProgramKind kind, Segment segment);

  // Begins to bring all outputs to the host, as they are when what ran so far is done, and returns before.
  void fetch() { backend_->fetch_outputs(); }
  // An output as of the last fetch(), which it waits for; where the plan runs ahead, what was run since goes
  // on meanwhile.
  ConstView fetched(const std::string& name) const;
  // Whether it would wait.
  bool is_fetching() const { return backend_->is_fetching(); }
  // Returns when the device is done with all that ran, and with what the last step leaves to the next.
  void wait() {
    finish_last_run();
    backend_->wait();
  }
  // Requires: the last fetch() came after an optimizer segment.
  StepOutputs fetched_step() const;
  // Whether what the last segments of training left is there still: no other program ran since, and nobody
  // wrote.
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
  // The host has changed weights or states where they lie.
  void note_own_update() {
    copies_are_stale_ = true;
    updated_ = false;
  }
  // For a batch whose loss is not finite, and that is still staged for training: runs its forward segment
  // once more and names the first value in the order of the program that is not finite, "the weight 'x'" or
  // "'y' in module z"; "" where none of those that the backward pass keeps is. Cost: a forward pass and
  // reading it all.
  std::string first_bad_value();

  const Bucket& current_bucket(ProgramKind kind) const;
  // The end of the highest unit of the arena's alignment, in which buffers are handed out, that was in use:
  // it holds a byte which was written, or it was scratch of a kernel that ran. A kernel may leave
  // the end of its scratch unwritten. Cost on a GPU: copies the arena.
  int64_t high_water_bytes() const { return std::max(written_bytes(), given_scratch_end_); }
  // Of what was written alone.
  int64_t written_bytes() const;
  const Plan& plan() const { return plan_; }

  // With loss scaling: the scale of the last step's gradients, and the steps that an overflow has skipped,
  // which are no updates: those that a resumed run's states count too. 1 and 0 without it.
  double used_loss_scale() const;
  int64_t skipped_steps() const;

  // Sets optimizer states (and persistent gradients) to what a run that starts from nothing holds: zero, but
  // for the plan's initial states.
  void zero_states();

  // Measures what the device can do at most. Requires: no program has run yet.
  Ceilings measure_ceilings() { return backend_->measure_ceilings(); }

  void set_profiling(bool on) { profiling_ = on; }
  // By op of the program, since profiling was switched on. The first run of a segment in a bucket stands
  // apart: libraries take their memory in it and pages are touched for the first time.
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
  // By the device's own word, the output "first_bad".
  std::string bad_gradient(int64_t operand) const;
  BoundProgram& bound_for(Program& program, const Bucket& bucket);
  void refresh_copies();
  void note_scratch(const ProgramPlan& program, Segment segment);
  // Does what the last step left to the next, updates of weights and copies to the host: before anybody reads
  // or writes those, and before another program takes the bytes.
  void finish_last_run() const;
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
  int64_t given_scratch_end_ = 0;            // in whole units of the arena's alignment
  mutable BoundProgram* left_by_ = nullptr;  // the bucket of a step that left something
  bool profiling_ = false;
};

}  // namespace plimsoll
