// Session contains everything of a run except the training loop: plan, memory, weights, batches, and functions for single steps. It is
// used by the training loop (train_loop.h) and by the public Trainer (include/plimsoll/trainer.h), which evaluates, predicts, and
// supports training loops of the calling program. It owns all memory of the run. A session is used by one thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/comm/gpu_communicator.h"
#include "exec/executor.h"
#include "io/data/loader.h"
#include "io/data/memory_rows.h"
#include "metrics/metrics.h"
#include "plan/compile/plan.h"
#include "plimsoll/data.h"
#include "plimsoll/training.h"
#include "run/run_setup.h"
#include "train/checkpoint_buffer.h"

namespace plimsoll {

struct RankFact;  // defined in train/rank_agreement.h

// The result of an update.
enum class UpdateOutcome : uint8_t {
  kUpdated,
  kSkipped,  // No weight was updated because gradients overflowed; the next loss scale is smaller.
};

// The outputs of a forward pass. R is the number of rows of the logits: one per sequence or, for tasks that label tokens, one per token.
struct BatchOutputs {
  double loss = 0;            // mean over the labels; undefined without labels
  std::vector<float> logits;  // shape [R, num_labels]
};

// Returns the logits of sequence i of a batch. For tasks that label tokens, these are the logits of the first token of each word, or of
// each token if the data is not divided into words. `logits` contains all rows of the batch, with `width` numbers per row.
std::vector<float> logits_of_sequence(const Dataset& data, const MicroBatch& batch, size_t i,
                                      std::span<const float> logits, LabelKind labels, int64_t width);

class Session {
 public:
  // Makes the plan but allocates no memory for it. The run uses the GPU of `setup`; the GPU in `options` is ignored.
  Session(RunSetup setup, FileSystem& files, const ExecutorOptions& options = {});
  ~Session();

  const RunSetup& setup() const { return setup_; }
  const Plan& plan() const { return plan_; }
  FileSystem& files() const { return files_; }

  // Allocates the arena, measures matrix products if the plan requests it, and fills the weights, from the folder or with initial values.
  // Errors: kWillNotFit before anything is allocated; kBadData, kDevice. After an error nothing stays allocated and is_allocated() is
  // false, so that the function may be called again. Returns lines for the user about the measurements, and about loaded weights in
  // Hugging Face's words; "" if there are none.
  std::string allocate();
  bool is_allocated() const { return executor_ != nullptr; }
  // Frees the arena. Needed after a failure that left some weights or states replaced and others not. allocate() may then be called
  // again.
  void release() { executor_.reset(); }
  Executor& executor() { return *executor_; }
  const Executor& executor() const { return *executor_; }

  // Starts to load batches of the training data from a position on, to the end of epoch `num_epochs` - 1 (-1: without end). Worker
  // threads load batches in advance. Batches must not be larger than those of the epochs for which the plan was made.
  void start_batches(DataPosition position, int64_t num_epochs = -1);
  // Loads the next micro-batch. Returns false after the last one. Requires: start_batches(). Cost: it loads the batch or, with worker
  // threads, may have to wait until one of them has loaded it.
  bool next_batch(MicroBatch& batch);
  MicroBatch make_batch() const;

  // Computes the gradients of one micro-batch and returns its loss; both are divided by `denominator`. A batch that only repeats
  // another rank's batch (BatchInfo::contributes is false) has a loss and gradients of zero. If `first`, the gradients overwrite those
  // in memory; otherwise they are added to them if the plan accumulates gradients.
  double forward_backward(const MicroBatch& batch, double denominator, bool first);
  // Updates the weights. If gradients overflowed because the loss scale was too large, skips the step. Errors: kNotFinite if a smaller
  // scale would not help, naming the first tensor that is not finite; then no weight is updated.
  UpdateOutcome update(double learning_rate, int64_t step);

  // start_forward_backward() and start_update() do the same as forward_backward() and update(), but may return before the device has
  // finished. Executor::fetched() returns the results later. `skipped` is the number of earlier steps that were skipped.
  void start_forward_backward(const MicroBatch& batch, double denominator, bool first);
  // Runs one entry of a pipeline's schedule: a segment (forward or backward) of a chunk of layers for one micro-batch. `number` is the
  // value of micro_batches_done() before the micro-batch. The caller increments that counter.
  void run_micro_batch(const ScheduledRun& run, const MicroBatch& batch, double denominator, int64_t number);
  // Returns true if this rank computes losses and outputs. In a pipeline, only the ranks of the last stage do.
  bool has_loss() const { return !plan_.is_pipelined() || plan_.request.ranks.is_last_stage(); }
  void start_update(double learning_rate, int64_t step, int64_t skipped);
  // Returns the result of the update that start_update() enqueued. Errors: as update(). Requires: the loss is finite.
  UpdateOutcome outcome_of(const StepOutputs& outputs, int64_t step) const;
  // Returns a description of the first value of the forward pass that is not finite, for a micro-batch whose loss is not finite. `number`
  // is the value of micro_batches_done() before the micro-batch. Requires: no weight has been changed since.
  std::string first_bad_value(const MicroBatch& batch, double denominator, int64_t number);

  // Returns the data set of rows that the calling program passes. Errors: kBadData, naming the row, for rows that the model cannot read;
  // see make_dataset().
  Dataset read_rows(const std::vector<DataRow>& rows, LongIds long_ids) const;
  // Returns a batch of some rows of a data set. Does not check that the plan has room for it.
  MicroBatch batch_of(const Dataset& data, std::span<const int32_t> rows) const;
  // Checks that the plan has this program, with room for the batch. Errors: kUsage if it does not; the message states both sizes.
  // `action` is the name of the call for the message, such as "forward_backward()".
  void require_room(std::string_view program, const MicroBatch& batch, std::string_view action) const;
  // Computes the logits of a batch without dropout, and its mean loss if it has labels. Requires: require_room()
  // accepts the batch for the evaluation program.
  BatchOutputs forward(const MicroBatch& batch);

  // Evaluates a data set in order and without dropout. Returns its mean loss and the metrics of the run, and the speed: <split>_loss,
  // <split>_accuracy, ..., <split>_runtime and the rates of train/speed.h. Stores the logits if `logits` is not null. Calls `progress`
  // with the number of rows that are done and the total number of rows.
  MetricMap evaluate(const Dataset& data, const std::string& split, std::vector<std::vector<float>>* logits,
                     const std::function<void(int64_t, int64_t)>& progress);

  // Returns the number of this process among the ranks of the run, and the number of ranks.
  const RankPlace& place() const { return setup_.place; }
  // Returns the ranks of the run arranged as a mesh.
  RankMesh mesh() const {
    return {.size = setup_.place.size,
            .tensor_size = static_cast<int>(plan_.request.ranks.tensor_size),
            .pipeline_size = static_cast<int>(plan_.request.ranks.pipeline_size)};
  }
  // Combine values of several ranks: sum_over_ranks() replaces each number by its sum over all ranks, and sum_over_data_ranks() by its
  // sum over the ranks that read different batches; is_true_on_any_rank() returns true if the flag of any rank is true. Every rank calls
  // the same functions in the same order. Cost: none for one rank. Errors: kDevice if a rank has failed.
  void sum_over_ranks(std::span<double> numbers);
  void sum_over_data_ranks(std::span<double> numbers);
  bool is_true_on_any_rank(bool flag);
  // Replaces the values of the metrics by those of the first rank. Requires: the keys are the same on every rank.
  void take_values_of_first_rank(MetricMap& metrics);
  // Compares facts, which are hashes of things that must be equal on all ranks, between the ranks. Errors: as require_equal_facts().
  void require_equal_on_ranks(std::span<const RankFact> facts);
  // Gathers one text per rank and returns them in the order of the ranks.
  std::vector<std::string> gather_texts(const std::string& own);
  // Returns when every rank has called this function.
  void wait_for_ranks();
  // Tells the other ranks what this rank does next (for example a step or a save), for their error messages; see RankProgress::begin().
  void begin_phase(RankPhase phase, int64_t step,
                   std::optional<std::chrono::milliseconds> longest_wait = std::nullopt);

  // Sets optimizer states and random numbers to those of a new run; the weights keep their values. Does nothing if they are in that state
  // already.
  void begin_anew();
  // Must be called before states are read from a checkpoint: the states are then no longer those of a new run.
  void note_states_read() { is_new_ = false; }

  // Returns the number of micro-batches that all ranks together have processed since the beginning of the run.
  int64_t micro_batches_done() const { return micro_batches_; }
  void set_micro_batches_done(int64_t n) { micro_batches_ = n; }

  // Returns the contents of a saved model or adapter. Valid while the session exists.
  ModelContents model_contents() const;

  // Returns the buffer from which checkpoints are written in the background. It is empty if the plan has none, or if the system refused
  // the memory on any rank.
  std::span<std::byte> checkpoint_buffer() const { return checkpoint_buffer_.bytes(); }

  MemoryFigures memory() const;
  // Peak rates of the device, which are measured before the run if it is profiled.
  const Ceilings& ceilings() const { return ceilings_; }

 private:
  // Evaluates a data set as evaluate() does, but returns no speed, and names without the prefix of a split, such as "loss" instead of
  // "eval_loss".
  MetricMap loss_and_metrics(const Dataset& data, std::vector<std::vector<float>>* logits,
                             const std::function<void(int64_t, int64_t)>& progress);
  // Runs, in order and on the batch in the input buffers, those entries of the schedule whose repetition is `repeat`, such as once per
  // micro-batch. An entry names a segment (forward, backward or update) of a program.
  void run_entries(const std::vector<ScheduleEntry>& schedule, Repeat repeat);
  // Connects this rank with the others, and checks that all do the same work. Errors: kDevice, kUsage.
  void connect();
  // Connects the ranks along each axis of the mesh that has several ranks.
  void connect_axes();
  // On every pipeline stage, replaces the metrics by those of the last stage, the only one that computes outputs.
  void take_metrics_of_last_stage(MetricMap& metrics);
  void connect_gpus_along(AxisConnections& axis, bool maps_peers);
  // Connects the pipeline stages through NCCL, unless they map each other's memory.
  void connect_messages_of_stages();
  // Copies a micro-batch of the training program to the input buffers. `number` is the value of micro_batches_done() before this
  // micro-batch.
  void stage(const MicroBatch& batch, double denominator, int64_t number, PassOfMicroBatch pass = {});
  // Measures the algorithms of matrix products, if that is necessary, and returns a text about it. The first rank measures for all, so
  // that all compute with the same kernels.
  std::string measure_products(Executor& executor);
  std::string measure_products_here(Executor& executor);
  // Returns a text about which weights were loaded, in Hugging Face's words.
  std::string fill_weights(Executor& executor) const;
  // Returns a note for the user if the states on a disk are read and written through the page cache of Linux; "" otherwise.
  std::string describe_states_file() const;
  // Returns the tokenizer's files, which are copied unchanged into every saved model.
  std::vector<CopiedFile> tokenizer_files() const;

  RunSetup setup_;
  FileSystem& files_;
  ExecutorOptions options_;
  Plan plan_;
  // The connection between all ranks; null if the run has one rank.
  std::unique_ptr<Communicator> communicator_;
  // Connections to the ranks along each axis of the mesh, and (end_stages_) between the first and the last pipeline stage. A connection
  // that this rank does not need is null.
  std::unique_ptr<Communicator> data_ranks_;
  std::unique_ptr<Communicator> tensor_ranks_;
  std::unique_ptr<Communicator> stages_;
  std::unique_ptr<Communicator> end_stages_;
  // On GPUs, one of these two members has the connection along each axis with several ranks: NCCL or mapped memory.
  std::vector<std::unique_ptr<GpuCommunicator>> gpu_communicators_;
  std::vector<std::unique_ptr<PeerMemory>> peers_;
  // Sends values between pipeline stages if they are sent through NCCL.
  std::unique_ptr<Communicator> message_ranks_;
  std::unique_ptr<GpuMessages> messages_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Loader> loader_;
  CheckpointBuffer checkpoint_buffer_;
  bool is_new_ = true;         // true if states and micro_batches_ are those of a new run
  int64_t micro_batches_ = 0;  // value of micro_batches_done(), which also determines the random numbers
  // Number of calls of batch_of(). It makes the random masks of each batch different.
  mutable int64_t num_batches_of_rows_ = 0;
  // bytes that other processes used on the device when the arena was allocated
  int64_t gpu_used_before_ = 0;
  Ceilings ceilings_;
};

}  // namespace plimsoll
