// Runs a plan on the device that it was made for. Owns the arena; allocates nothing while a program runs. Not thread-safe:
// one caller. Functions that read outputs or memory are not const, because they wait for the device and run deferred work.
//
// The executor obeys the plan: it reports a size or an address that is not in the plan as an internal error and never
// allocates a temporary buffer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "device/cpu/arena.h"
#include "exec/backend.h"
#include "plan/compile/plan.h"

namespace plimsoll {

// The results of a step that the host reads.
struct StepOutputs {
  double loss = 0;  // loss of the last micro-batch, or 0 in a pipeline stage that does not compute the loss
  double grad_norm = 0;
  bool is_finite = false;  // true if the loss and all gradients are finite; otherwise nothing was updated
  std::string first_bad =
      // Name of the first gradient that is not finite, or ""; a pipeline stage only checks its own gradients.
      {};
  double loss_scale = 1;      // the loss scale by which the gradients are multiplied
  int64_t skipped_steps = 0;  // number of steps that were skipped in the run so far
};

// In a pipeline: the memory slot that stores the activations of the micro-batch, from 0 to ProgramPlan::num_slots - 1, and the
// number of the chunk of layers that runs.
struct PassOfMicroBatch {
  int64_t slot = 0;
  int64_t chunk = 0;
};

// The data of one parameter in the arena, for callers that compute updates themselves instead of running the optimizer segment of the
// training program.
struct UpdatedParameter {
  std::string name;
  int64_t count = 0;  // number of elements of the weight, and of its gradient and of each state
  View weight;
  ConstView gradient;
  std::vector<View> states;
};

class Executor {
 public:
  // Allocates the arena and fills it. The plan must outlive the executor. Errors: kDevice if memory is refused.
  explicit Executor(const Plan& plan, const ExecutorOptions& options = {});
  // Waits until the other pipeline stages have received the values that they read from this stage's arena, unless a rank has failed.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Returns true if enqueued work may run while the host reads outputs that it fetched earlier. During profiling the host waits for each
  // op. If it enqueued the next step before it read the results of the current one, the time of the next step would be added to the time of
  // the current step.
  bool runs_ahead() const { return runs_ahead_ && !profiling_; }

  // Returns the tuning table that the plan should have (see tuning.h). The caller puts it into the plan before it stages the first batch,
  // because staging binds ops to kernels, and binding reads the table. Requires: nothing has been written to the arena yet, because
  // measuring overwrites it. Cost: some seconds on a GPU, nothing on a CPU.
  TuningTable measure_products() { return backend_->measure_products(plan_); }

  // Returns an input or output at the address where the host reads and writes it. Waits for the device, so that outputs are
  // current. On a CPU also returns any other persistent buffer (weights, states). Errors: kInternal for such a buffer on a
  // GPU.
  View tensor(const std::string& name);
  int64_t elements(const std::string& name) const;
  // Reads or writes part of any persistent buffer on any device, starting `offset` bytes after its begin. A weight that is stored as two
  // 16-bit halves is read and written as fp32, in whole elements. Waits for the device. If the ranks divide the buffer, `offset` and
  // `bytes` refer to the whole value. Every rank must read the same ranges in the same order, because the owners send them to the other
  // ranks. Every rank must write all ranges, of which it stores its own slice. The same applies to a weight or a state of another pipeline
  // stage, of which this rank stores nothing.
  void read(const std::string& name, int64_t offset, std::span<std::byte> bytes);
  void write(const std::string& name, int64_t offset, std::span<const std::byte> bytes);

  // The part of a persistent value that this rank stores, as the range [begin, end) of the bytes of the whole value.
  struct OwnBytes {
    int64_t begin = 0;
    int64_t end = 0;
  };
  // Returns the range of a persistent buffer that this rank stores, for a weight in two 16-bit halves as a range of its fp32 elements: the
  // whole buffer unless the ranks divide it. In a pipeline, the ranks of the first stage that stores the buffer get equal shares of it, and
  // all other ranks get an empty range. Requires: no tensor-parallel group divides it.
  OwnBytes own_bytes(const std::string& name) const;
  // Reads a part of the range that own_bytes() returns. Unlike read(), does not communicate with the other ranks. Requires: no
  // tensor-parallel group divides the buffer.
  void read_own(const std::string& name, int64_t offset, std::span<std::byte> bytes);

  // Prepares a batch for run(): copies it into the inputs of the program, by the rule that each input declares (InputRule), and chooses the
  // compiled batch size (bucket) into which it fits. `denominator` is the number by which the loss is divided, and `pass` is used only in a
  // pipeline. If another batch is staged between the forward and the backward pass of a batch, the earlier batch must be staged again
  // before its backward pass. Errors: kInternal for a batch that is larger than planned, that lacks a tensor which the program declares, or
  // that contains an index outside its table.
  void stage(std::string_view program, const TensorBatch& batch, double denominator,
             PassOfMicroBatch pass = {});
  // Sets the seed and the number of the micro-batch for every random draw of the next run.
  void set_random(uint64_t seed, int64_t micro_batch);
  void set_accumulate(bool add);
  // Sets the learning rate and the number of the next update. `step` counts from 1 and includes skipped steps;
  // the optimizer counts only executed updates, so `skipped` is subtracted, which is skipped_steps() by default.
  void set_update(double learning_rate, int64_t step) { set_update(learning_rate, step, skipped_steps()); }
  void set_update(double learning_rate, int64_t step, int64_t skipped);

  // Runs one segment (forward pass, backward pass or update) of a program for the staged batch. May return before the device has finished.
  void run(std::string_view program, Segment segment);

  // Runs the forward pass of a program other than training for the staged batch and enqueues a copy of all outputs to the host, as run()
  // and fetch() do. On a GPU, this is faster for short runs whose results are needed at once. A program must be run either always by this
  // function or always by run(), because the CUDA graph that is captured here includes the copies of inputs and outputs, and that of run()
  // does not.
  void run_and_fetch(std::string_view program);

  // Enqueues a copy of all outputs to the host, after all work that is already enqueued. Does not wait.
  void fetch() { backend_->fetch_outputs(); }
  // Returns an output with the value that the last fetch() copied. Waits until this copy has ended. If runs_ahead() is
  // false, it waits for all enqueued work.
  ConstView fetched(const std::string& name);
  // Returns true if the copy of the last fetch() has not arrived, so that fetched() would wait.
  bool is_fetching() const { return backend_->is_fetching(); }
  // Waits until the device has finished all enqueued work, and also runs the work that the last step left for the next one.
  void wait() {
    run_deferred_updates();
    backend_->wait();
  }
  // Returns the results of the last step from the last fetch(). Requires: that fetch() was called after the update (optimizer segment).
  StepOutputs fetched_step();
  // Returns true if no other program has run, and no caller has written weights or states, since the last training step. The results of
  // that step are then still in memory.
  bool is_train_undisturbed() const { return is_train_undisturbed_; }

  double loss() { return tensor("loss").load(0); }
  double grad_norm() { return tensor("grad_norm").load(0); }
  bool finite() { return tensor("finite").load(0) != 0.0; }
  // Returns the name of the first gradient that the last optimizer step found not finite, or "" if there was none. In a pipeline, each
  // stage knows the gradients of its own layers only.
  std::string first_bad_gradient();
  // Returns every parameter with its gradient and those of its states that have the parameter's shape, in the order of the update. The
  // gradients are valid after the backward segment and before the optimizer segment. Requires: a CPU, weights that are not stored in two
  // halves, and gradients that are still stored after the backward segment.
  std::vector<UpdatedParameter> updated_parameters();
  // Must be called after a caller has changed weights or states through the views of updated_parameters(), so that the next run first makes
  // the 16-bit copies of the weights again.
  void note_own_update() {
    copies_are_stale_ = true;
    updated_ = false;
  }
  // Finds the origin of a loss that is not finite. Runs the forward segment of the staged training batch again and describes the
  // first value, in the order of the program, that is not finite: "the weight 'x'" or "'y' in module z". Checks only values that
  // are kept for the backward pass, and returns "" if all of them are finite. Cost: a forward pass, and reading these values.
  std::string first_bad_value();

  const Bucket& current_bucket(std::string_view program) const { return program_of(program).bucket; }
  // Returns the end of the part of the arena that was used so far, in bytes, rounded up to the arena's alignment.
  // Bytes count as used if they were written, or if they are scratch memory of a kernel that ran, because a
  // kernel may leave the end of its scratch memory unwritten. Cost on a GPU: copies the arena to the host.
  int64_t high_water_bytes() { return std::max(written_bytes(), used_scratch_end_); }
  // Returns the end of the part of the arena that was written, found by its fill pattern and rounded up to the arena's alignment.
  int64_t written_bytes();
  const Plan& plan() const { return plan_; }

  // Return the loss scale of the last step, by which its gradients were multiplied, and the number of steps that were skipped
  // because of an overflow, including those before the checkpoint of a resumed run. Without loss scaling: 1 and 0.
  double used_loss_scale();
  int64_t skipped_steps();

  // Returns a hash of all data that callers have passed to write() for weights that are divided among the ranks. The
  // order of the calls does not matter. Ranks can compare their hashes to check that they have written the same data.
  uint64_t hash_of_divided_writes() const { return divided_writes_; }

  // Returns the file of the values on a disk; null if the plan has none.
  const ScratchFile* disk_file() const {
    return backend_->disk() == nullptr ? nullptr : &backend_->disk()->file();
  }

  // Sets optimizer states and persistent gradients to their values at the start of a new run: zero, except for the plan's
  // initial states.
  void zero_states();

  // Measures the highest rates of the device. Requires: no program has run yet.
  Ceilings measure_ceilings() { return backend_->measure_ceilings(); }

  void set_profiling(bool on) { profiling_ = on; }
  // Returns the times of each op of the program since profiling was switched on. first_times() has
  // those of the first run of each segment in each bucket (sizes of batches), which is slower:
  // libraries allocate memory, and pages are touched for the first time.
  const std::vector<OpTime>& times(std::string_view program) const { return program_of(program).times; }
  const std::vector<OpTime>& first_times(std::string_view program) const {
    return program_of(program).first_times;
  }

 private:
  struct Program {
    const ProgramPlan* plan = nullptr;
    std::vector<const PersistentBuffer*> inputs;
    // For each compiled batch size, the ops with their kernels and addresses. The key consists of the numbers of tokens and labels, the
    // slot for the activations, and the chunk of layers (for pipelines). Ops are bound to kernels when a key is used for the first time.
    std::map<std::tuple<int64_t, int64_t, int64_t, int64_t>, BoundProgram> by_size;
    // the element of by_size for the size of the staged batch
    BoundProgram* bound = nullptr;
    Bucket bucket;
    Bucket staged;  // sizes of the staged batch, which can be smaller than `bucket`
    std::vector<OpTime> times;
    std::vector<OpTime> first_times;
  };
  // Returns the program with this name. Errors: kInternal if the plan has no such program.
  Program& program_of(std::string_view name);
  const Program& program_of(std::string_view name) const;
  // Returns the name of the first gradient that is not finite. `first_bad`, an output of the optimizer segment, contains its number.
  // Returns "" if all gradients are finite.
  std::string bad_gradient(ConstView first_bad) const;
  BoundProgram& bound_for(Program& program, const Bucket& bucket, PassOfMicroBatch pass);
  void refresh_copies();
  void copy_weights_from_disk(const PersistentBuffer& weight, const PersistentBuffer& copy);
  void note_scratch(const ProgramPlan& program, Segment segment);
  // Executes the work that the last step deferred to the next one: updates of weights and copies to the host. Has to
  // be called before weights or states are read or written, and before another program reuses the memory.
  void run_deferred_updates();
  // Reads a weight or a state that is stored by the pipeline stage `owner`, which sends it to all other stages.
  void read_of_stage(int64_t owner, const std::string& name, int64_t offset, std::span<std::byte> bytes);
  void read_here(const std::string& name, int64_t offset, std::span<std::byte> bytes);
  OwnBytes share_of_stage(const std::string& name) const;
  // Returns own_bytes() of a weight of this pipeline stage that is stored in two halves.
  OwnBytes own_bytes_in_stage(const std::string& name, const SplitWeight& halves) const;
  // Returns the communicator of the ranks that divide the buffer along an axis of the mesh.
  Communicator& owners_of(const PersistentBuffer& buffer, MeshAxis axis) const;
  void read_slices(const PersistentBuffer& buffer, int64_t offset, std::span<std::byte> bytes);
  void write_slice(const PersistentBuffer& buffer, int64_t offset, std::span<const std::byte> bytes);
  void read_divided(const PersistentBuffer& buffer, int64_t offset, std::span<std::byte> bytes);
  // Returns the 16-bit copy of a weight, if every rank stores the whole copy but only its slice of the weight; null otherwise. Such a copy
  // cannot be made from the weight that this rank stores, so write() makes it from the bytes that it is given.
  const PersistentBuffer* whole_copy_of_slices(const PersistentBuffer& buffer) const;
  // Rounds bytes of an fp32 weight, beginning `offset` bytes after its start, and writes them into its 16-bit copy.
  void write_copy(const PersistentBuffer& copy, int64_t offset, std::span<const std::byte> weight);
  void write_divided(const PersistentBuffer& buffer, int64_t offset, std::span<const std::byte> bytes);
  using ReadFunction = void (Executor::*)(const std::string& name, int64_t offset,
                                          std::span<std::byte> bytes);
  // Reads both 16-bit halves of the weight with `read_half` and combines them into fp32 in `whole`.
  void read_split(const SplitWeight& parts, int64_t offset, std::span<std::byte> whole,
                  ReadFunction read_half);
  void write_split(const SplitWeight& parts, int64_t offset, std::span<const std::byte> whole);
  // Returns the input with this source, such as the learning rate, or null if no program has such an input.
  const PersistentBuffer* input_with(InputSource source) const;
  View input_view(const PersistentBuffer& input) {
    return {backend_->exchange(input.offset), input.type.dtype};
  }
  // Writes the batch's tensor that has the name of the input into the input, and fills the elements that the batch does not use.
  void fill_input(const PersistentBuffer& input, const TensorBatch& batch, const Bucket& bucket);
  void fill_own_starts(const PersistentBuffer& input, const TensorBatch& batch, const Bucket& bucket);

  const Plan& plan_;
  RankConnections connections_;
  std::unique_ptr<ExecutorBackend> backend_;
  bool runs_ahead_;
  bool copies_are_stale_ = true;  // true if the host has written weights since the 16-bit copies were made
  bool is_train_undisturbed_ = false;
  // Combined hash of the data of all write() calls to weights that are divided among ranks.
  uint64_t divided_writes_ = 0;
  bool updated_ = false;  // true if an update ran since the host last wrote optimizer states
  std::map<std::string, Program, std::less<>> programs_;
  int64_t used_scratch_end_ = 0;  // end of the scratch memory used so far, rounded up to the alignment
  // The program whose next run must do the updates or copies that the last step left for it, or null.
  BoundProgram* deferred_program_ = nullptr;
  bool profiling_ = false;
};

}  // namespace plimsoll
