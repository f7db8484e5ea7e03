// A run without its loop: plan, memory, weights, batches, and single steps. The training loop (train_loop.h) and the
// public Trainer (include/plimsoll/trainer.h), which evaluates, predicts and serves callers' own loops, use it. It owns
// everything that the run holds. One thread drives it.
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

// The outcome of an update.
enum class UpdateOutcome : uint8_t {
  kUpdated,
  kSkipped,  // no weight was updated, since gradients overflowed; the next loss scale is smaller
};

// The outputs of a forward pass. R rows: the sequences, or the tokens if tokens have labels.
struct BatchOutputs {
  double loss = 0;            // mean over the labels; meaningless without labels
  std::vector<float> logits;  // [R, num_labels]
};

// Returns the logits of sequence i of a batch: those of the sequence, or, if tokens have labels, those of the first token
// of each word, or of each token if the rows are not words. `logits`: of all rows of the batch, `width` per row.
std::vector<float> logits_of_sequence(const Dataset& data, const MicroBatch& batch, size_t i,
                                      std::span<const float> logits, LabelKind labels, int64_t width);

class Session {
 public:
  // Makes the plan, and allocates no memory of the run. Ignores the GPU in `options` and uses that of the setup.
  Session(RunSetup setup, FileSystem& files, const ExecutorOptions& options = {});
  ~Session();

  const RunSetup& setup() const { return setup_; }
  const Plan& plan() const { return plan_; }
  FileSystem& files() const { return files_; }

  // Takes the arena, measures matrix products if the plan requests it, and fills weights, from the folder or with initial
  // values. Errors: kWillNotFit before anything is allocated; kBadData, kDevice. If it throws, nothing is held and
  // is_allocated() is false, so that it may be called again. Returns lines for people about what was measured, and what
  // was loaded in Hugging Face's words; "" for neither.
  std::string allocate();
  bool is_allocated() const { return executor_ != nullptr; }
  // Frees the arena after a failure that left a mixture of old and new weights or states in it. allocate() then takes a
  // new one.
  void release() { executor_.reset(); }
  Executor& executor() { return *executor_; }
  const Executor& executor() const { return *executor_; }

  // Starts to load batches of the training data from a position on, to the end of epoch `num_epochs` - 1 (-1: without
  // end). Workers load batches in advance; the plan has room only for the batches in the epochs of the planned run.
  void start_batches(DataPosition position, int64_t num_epochs = -1);
  // Loads the next micro-batch; returns false at the end. Requires: start_batches(). Cost: with workers, it may wait for
  // one.
  bool next_batch(MicroBatch& batch);
  MicroBatch make_batch() const;

  // Computes the gradients of one micro-batch and returns its loss, divided by `denominator`. A batch that is not this
  // rank's own (BatchInfo::contributes) gets zeros. `first` overwrites
  // gradients; otherwise they are added to if the plan accumulates.
  double forward_backward(const MicroBatch& batch, double denominator, bool first);
  // Updates the weights, or skips the step if the loss scale was too large. Errors: kNotFinite, naming the first tensor
  // that is not finite, if no smaller scale would help; then no weight is updated.
  UpdateOutcome update(double learning_rate, int64_t step);

  // Like forward_backward() and update(), but without waiting: these functions may return before the device has
  // finished, and Executor::fetched() returns their results. `skipped`: number of earlier steps that were skipped.
  void start_forward_backward(const MicroBatch& batch, double denominator, bool first);
  // Runs one segment for one micro-batch of a step of a pipeline, as the step schedule says. `number`: micro_batches_done() before the
  // micro-batch. The caller counts it.
  void run_micro_batch(const ScheduledRun& run, const MicroBatch& batch, double denominator, int64_t number);
  // Returns true if this rank computes losses and outputs: of a pipeline, only the last stage does.
  bool has_loss() const { return !plan_.is_pipelined() || plan_.request.ranks.is_last_stage(); }
  void start_update(double learning_rate, int64_t step, int64_t skipped);
  // Returns the outcome of start_update(). Errors: as update(). Requires: the loss is finite.
  UpdateOutcome outcome_of(const StepOutputs& outputs, int64_t step) const;
  // Returns Executor::first_bad_value() for a micro-batch whose loss was not finite. `number`: micro_batches_done() before
  // it. Requires: its step has not changed any weight.
  std::string first_bad_value(const MicroBatch& batch, double denominator, int64_t number);

  // Returns rows that the program passes as a data set. Errors: kBadData, naming the row, for rows that the model cannot
  // read; see make_dataset().
  Dataset read_rows(const std::vector<DataRow>& rows, LongIds long_ids) const;
  // Returns a batch of some rows of a data set, whatever the plan has room for.
  MicroBatch batch_of(const Dataset& data, std::span<const int32_t> rows) const;
  // Checks that the plan has this program, with room for the batch. Errors: kUsage if it does not; the message states both sizes.
  // `action`: the name of the call for the message, such as "forward_backward()".
  void require_room(std::string_view program, const MicroBatch& batch, std::string_view action) const;
  // Computes the logits of a batch without dropout, and its mean loss if it has labels. Requires: require_room() of the
  // evaluation program.
  BatchOutputs forward(const MicroBatch& batch);

  // Evaluates a data set in order and without dropout. Returns its mean loss and the metrics of the run, and the speed:
  // <split>_loss, <split>_accuracy, ..., <split>_runtime and the rates of train/speed.h. Stores the logits if `logits` is
  // not null. Calls `progress` with the rows done and all rows.
  MetricMap evaluate(const Dataset& data, const std::string& split, std::vector<std::vector<float>>* logits,
                     const std::function<void(int64_t, int64_t)>& progress);

  // The place of this process among the ranks of the run.
  const RankPlace& place() const { return setup_.place; }
  // Returns the ranks as a mesh.
  RankMesh mesh() const {
    return {.size = setup_.place.size,
            .tensor_size = static_cast<int>(plan_.request.ranks.tensor_size),
            .pipeline_size = static_cast<int>(plan_.request.ranks.pipeline_size)};
  }
  // sum_over_ranks() replaces each number by its sum over all ranks, and sum_over_data_ranks() by its sum over the ranks that
  // read different batches; is_true_on_any_rank() returns true if the flag of any rank is true. Every rank calls the same
  // functions in the same order. Cost: none for one rank. Errors: kDevice if a rank has failed.
  void sum_over_ranks(std::span<double> numbers);
  void sum_over_data_ranks(std::span<double> numbers);
  bool is_true_on_any_rank(bool flag);
  // Replaces the values by those of the first rank. Requires: the keys are the same on every rank.
  void take_values_of_first_rank(MetricMap& metrics);
  // Errors: as require_equal_facts().
  void require_equal_on_ranks(std::span<const RankFact> facts);
  // Returns the texts of all ranks, in the order of the ranks.
  std::vector<std::string> gather_texts(const std::string& own);
  // Returns when every rank has called it.
  void wait_for_ranks();
  // Tells the connection to the other ranks which part of the run begins; see RankProgress::begin().
  void begin_phase(RankPhase phase, int64_t step,
                   std::optional<std::chrono::milliseconds> longest_wait = std::nullopt);

  // Sets optimizer states and random numbers to those of a new run; the weights keep their values. Costs nothing if they
  // are in that state already.
  void begin_anew();
  // Records that the states are about to be read from a checkpoint, so that they are not those of a new run.
  void note_states_read() { is_new_ = false; }

  // Returns the number of micro-batches of the run so far, summed over all ranks.
  int64_t micro_batches_done() const { return micro_batches_; }
  void set_micro_batches_done(int64_t n) { micro_batches_ = n; }

  // Returns the contents of a saved model or adapter. Valid while the session lives.
  ModelContents model_contents() const;

  // Returns the buffer from which checkpoints are written in the background; an empty one if the plan has none, or if the system
  // refused the memory to any rank.
  std::span<std::byte> checkpoint_buffer() const { return checkpoint_buffer_.bytes(); }

  MemoryFigures memory() const;
  // The peak rates of the device, measured before the run if it is profiled.
  const Ceilings& ceilings() const { return ceilings_; }

 private:
  // Returns metrics without the prefix of a split.
  MetricMap loss_and_metrics(const Dataset& data, std::vector<std::vector<float>>* logits,
                             const std::function<void(int64_t, int64_t)>& progress);
  // Runs the entries of a schedule whose `repeat` has this value, in order, for the staged batch.
  void run_entries(const std::vector<ScheduleEntry>& schedule, Repeat repeat);
  // Connects the ranks, and checks that they do the same work. Errors: kDevice, kUsage.
  void connect();
  // Connects the ranks along each axis of the mesh, if it has several.
  void connect_axes();
  // Replaces the metrics by those of the last stage of a pipeline.
  void take_metrics_of_last_stage(MetricMap& metrics);
  void connect_gpus_along(AxisConnections& axis, bool maps_peers);
  // Connects the stages of a pipeline for messages through NCCL, unless they map each other's memory.
  void connect_messages_of_stages();
  // Stages a micro-batch of the training program. `number`: micro_batches_done() before it.
  void stage(const MicroBatch& batch, double denominator, int64_t number, PassOfMicroBatch pass = {});
  // Measures the matrix products, if that is necessary, and returns a text about it. The first rank measures for all, so that
  // all compute with the same kernels.
  std::string measure_products(Executor& executor);
  std::string measure_products_here(Executor& executor);
  // Returns a text about what was loaded, in Hugging Face's words.
  std::string fill_weights(Executor& executor) const;
  // Returns a note if the states on a disk are read and written through the page cache of Linux; "" otherwise.
  std::string describe_states_file() const;
  // Returns the tokenizer's files, which are copied byte for byte into every saved model.
  std::vector<CopiedFile> tokenizer_files() const;

  RunSetup setup_;
  FileSystem& files_;
  ExecutorOptions options_;
  Plan plan_;
  std::unique_ptr<Communicator> communicator_;  // null if the run has one rank
  // The connections to the ranks along the axes of the mesh; null for an axis with one rank.
  std::unique_ptr<Communicator> data_ranks_;
  std::unique_ptr<Communicator> tensor_ranks_;
  std::unique_ptr<Communicator> stages_;
  std::unique_ptr<Communicator> end_stages_;
  // On GPUs, one of these two members has the connection along each axis with several ranks.
  std::vector<std::unique_ptr<GpuCommunicator>> gpu_communicators_;
  std::vector<std::unique_ptr<PeerMemory>> peers_;
  // Sends the messages between the stages of a pipeline if they go through NCCL.
  std::unique_ptr<Communicator> message_ranks_;
  std::unique_ptr<GpuMessages> messages_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Loader> loader_;
  CheckpointBuffer checkpoint_buffer_;
  bool is_new_ = true;         // states and micro_batches_ are those of a new run
  int64_t micro_batches_ = 0;  // micro_batches_done(); random numbers depend on it
  // Number of batches that batch_of() made, each with masks of its own.
  mutable int64_t num_batches_of_rows_ = 0;
  int64_t gpu_used_before_ = 0;  // bytes that other processes used when the arena was allocated
  Ceilings ceilings_;
};

}  // namespace plimsoll
