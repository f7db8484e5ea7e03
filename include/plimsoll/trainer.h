// Trains, evaluates and predicts with the arguments and result files of Hugging Face's Trainer. Programs with
// their own training loop can use the same engine step by step. Not thread-safe, except that any thread may
// call request_stop() during the lifetime of the object.
//
//   // Reads the model and the data and plans the run; does not allocate its memory.
//   plimsoll::Trainer trainer(arguments);
//   std::cout << trainer.plan().table;
//   // Allocates the planned memory and trains.
//   plimsoll::TrainOutput output = trainer.train();
//   plimsoll::MetricMap metrics = trainer.evaluate();
//
// A custom training loop:
//
//   arguments.max_steps = 100;  // the plan covers this number of steps
//   while (trainer.step() < 100) {
//     double loss = trainer.forward_backward(trainer.next_batch());
//     trainer.update(1e-4);
//   }
//
// Data from memory instead of files, own metrics, and single texts to predict: data.h. examples/ has a program for each.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/arguments.h"
#include "plimsoll/data.h"
#include "plimsoll/plan.h"
#include "plimsoll/training.h"

namespace plimsoll {

// The purpose of a Trainer, which determines the data that it reads when it is constructed.
enum class Task : uint8_t { kTrain, kEvaluate, kPredict };

// The two test sets that predict() can read: the test data, and the second test set of the GLUE task MNLI, whose genres of
// text do not occur in the training data ("mismatched").
enum class TestSet : uint8_t { kTest, kMismatched };

// One micro-batch, created by Trainer::next_batch or Trainer::make_batch. A Batch owns its data and can be moved, not
// copied. A default-constructed or moved-from Batch is empty.
class Batch {
 public:
  Batch();
  ~Batch();
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;
  int64_t num_sequences() const;
  int64_t num_tokens() const;
  // Returns true if the rows of the batch have labels.
  bool has_labels() const;
  // Returns the number of tokens that were cut off texts that are longer than max_seq_length. It is 0 for a batch from
  // next_batch(), because those rows were cut when the data was read.
  int64_t num_cut_tokens() const;
  // Returns the position in the training data after this batch, counted in epochs; 0 for a batch from make_batch().
  double epoch() const;
  // Returns true if this is the last batch of the epoch. Trainer::train() then updates even if the
  // accumulation is incomplete.
  bool last_in_epoch() const;

 private:
  friend class Trainer;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The outputs of a forward pass for R rows. A row is a row of the batch, or for token classification a token.
struct ForwardOutput {
  int64_t num_rows = 0;             // R, the number of rows
  int64_t num_labels = 0;           // K, the number of labels of the model
  std::vector<float> logits = {};   // logits, [R, K]: the outputs before softmax or sigmoid
  std::optional<double> loss = {};  // mean loss over the labels; not set if the batch has no labels
};

// A weight of the model, under its name in a checkpoint. Weights of an adapter have the names of the adapter's file.
struct WeightInfo {
  std::string name;
  std::vector<int64_t> shape;
  std::string stored_as;    // data type in which the weight is stored: "fp32", "bf16", "int8", "nf4" or "fp4"
  bool is_trained = false;  // true if this run trains the weight
  // factor by which --learning_rate_factors multiplies the learning rate of this weight
  double rate_factor = 1;
};

// A parameter as it is passed to a custom update rule. The spans refer to the memory of the run, and are valid only during
// the call of the rule.
struct OwnParameter {
  // Name of the parameter in checkpoints. Queries, keys and values form one matrix here, named
  // "...query_key_value...".
  std::string_view name;
  std::span<float> weights;  // the values of the parameter, which the rule may change
  std::span<const float> gradients;
  // The state tensors that --optim allocates for this weight, each in the shape of the weight. They are
  // initially zero (--optim_args can change that) and are saved in checkpoints. AdamW has two, Lion has one,
  // SGD has one with momentum and none without. The rule may use them freely.
  std::span<const std::span<float>> states;
};
using UpdateRule = std::function<void(const OwnParameter& parameter)>;

// A function that is called before work that takes long, with a line for people ("device cpu: ...", "loading ...").
using Announce = std::function<void(const std::string& line)>;

class Trainer {
 public:
  // Reads the model, the tokenizer and the data, tokenizes the data, and plans the run. Errors: kUsage, kBadData.
  explicit Trainer(Arguments arguments, Task task = Task::kTrain,
                   const Environment& environment = process_environment());
  // Constructs a Trainer as above, but for data and metrics that the program provides. Errors: those of the
  // constructor above, and exceptions of the functions of DataRows and Metric; kBadData for a row that the model
  // cannot read; kUsage for an invalid name of a metric, and if the arguments name data files as well.
  Trainer(Arguments arguments, const TrainerParts& parts, Task task = Task::kTrain,
          const Environment& environment = process_environment());
  ~Trainer();
  // Moves the complete state, including the memory of the run. Batches that this Trainer made remain valid. A Trainer
  // that was moved from can only be assigned to or destroyed; every other call throws kUsage. Requires: no call is
  // running, also not request_stop().
  Trainer(Trainer&& other) noexcept;
  Trainer& operator=(Trainer&& other) noexcept;

  const PlanReport& plan() const;
  // Describes the device and its capabilities: "device cpu: Some CPU, 2 threads, AVX-512".
  std::string device_line() const;
  // Describes the model, weights, data and tokens that were read, as lines for people.
  std::vector<std::string> description() const;
  // Returns the number of optimizer steps of train(); 0 without training data.
  int64_t max_steps() const;
  int64_t num_parameters() const;

  void add_callback(std::shared_ptr<Callback> callback);

  // Allocates the planned memory and loads the weights. train(), evaluate() and predict() call it if
  // necessary. Returns Hugging Face's message about weights that were not used or are newly initialized, or
  // an empty string. Errors: kWillNotFit, before anything is allocated; kBadData, kDevice. After an error
  // nothing is allocated, and the next call starts from the beginning.
  std::string start();

  // Trains to the end of the run. Writes checkpoints, logs, results and plots into output_dir: plan.json
  // before the first step, and memory.json even if a loss that is not finite ends the run. Lines about a
  // resumed checkpoint are passed to `announce`. Errors: kUsage if the Trainer was not constructed with
  // Task::kTrain, and if another run trains into output_dir or left checkpoints there; kWillNotFit,
  // kNotFinite, kBadData, kDevice; and exceptions of callbacks.
  //
  // A second call, or a call after custom updates, starts again at step 0 if it does not resume: it keeps the
  // current weights, zeroes the optimizer states, and restarts the random numbers and the order of the
  // batches. The same holds after a train() that threw during a step; the weights are then those of the last
  // update. Such a call counts as another run: if the previous run saved checkpoints into output_dir, it
  // throws kUsage, except if it resumes or --replace_checkpoints is set. An error before the first step
  // leaves the weights, the states and a custom loop unchanged, with one exception: if tensors of a
  // checkpoint cannot be read or do not fit, weights and states return to those after start(). output_dir is
  // unlocked when the call returns or throws.
  TrainOutput train(const Announce& announce = {});
  // Returns the mean loss and the metrics over the validation data, with keys that begin with "eval_".
  // Errors: kUsage if there is no validation data, and between forward_backward() and update().
  MetricMap evaluate();
  // Computes the scores of every row of the test data and passes them to `take` in order, batch by batch,
  // without storing them. Returns the speed and, if the rows have labels, the mean loss and the metrics, with
  // keys that begin with "predict_". Labels in a --test_file are not read. Errors: kUsage if there is no test
  // data.
  MetricMap predict(const std::function<void(Prediction prediction)>& take, TestSet set = TestSet::kTest);
  // Returns all predictions at once. Their memory is allocated on the heap and is not part of the plan.
  std::vector<Prediction> predict(TestSet set = TestSet::kTest);
  // Predicts rows that the program passes, in order and in batches that the plan has room for. Labels of the rows are not read.
  // Errors: as make_batch() and forward().
  std::vector<Prediction> predict(const std::vector<DataRow>& rows);
  bool has_test_set(TestSet set) const;
  // Returns the names of the labels in the order of their ids; empty for regression.
  std::vector<std::string> label_names() const;

  // Writes the model as a Hugging Face folder: config.json, model.safetensors, the tokenizer's files.
  void save_model(const std::string& folder);
  // Merges metrics into FOLDER/<split>_results.json and all_results.json, as Hugging Face's Trainer does.
  void save_metrics(const std::string& split, const MetricMap& metrics);
  // Writes reports into output_dir: plan.json, memory.json, report.json, memory.svg, loss.svg and metrics.svg (if something was logged);
  // profile.json with --profile; and the model card README.md if the run was not interrupted. A README.md that Plimsoll did not write is
  // kept. Writes nothing if the resumed run had already finished and its reports exist. Returns the names of the files that were written.
  std::vector<std::string> save_reports(const TrainOutput& output);

  // Requests that the current step is finished and saved and that train() then returns with `interrupted`
  // set. If no step is running, the request applies to the next one. It expires with the train() call that it
  // applies to. Safe to call in a signal handler.
  void request_stop();

  // Functions for a custom training loop. Call forward_backward once or more, then update. next_batch may be
  // called at any time; evaluate, predict and train may not be called between forward_backward and update.
  // Any other order throws kUsage, and the message names the call that is missing.
  //
  // Returns the next batch of the training data. The epochs repeat without end. The plan covers every batch
  // of the epochs that --num_train_epochs or --max_steps request, so set them to the length of the loop.
  // Errors: kUsage if the Trainer was not constructed with Task::kTrain or has no training data, and for a batch of a
  // later epoch that is larger than all planned ones.
  Batch next_batch();
  // Returns a batch of these rows, for this Trainer. All rows have labels, or none has. Texts are encoded by the model's
  // tokenizer on this thread and cut to max_seq_length tokens. Errors: kBadData, naming the row, for an input or a label
  // that the model cannot read: no input or several, ids outside the vocabulary, token types outside the table, ids
  // beyond max_seq_length, classes that the model does not have, lists of different lengths.
  Batch make_batch(const std::vector<DataRow>& rows) const;
  // Computes the logits of a batch without dropout and without gradients, and its mean loss if it has labels. The plan has room for such a
  // pass if the Trainer evaluates or predicts, or has no training data. Errors: kUsage between forward_backward() and update(), for a batch
  // that is larger than planned, an empty batch and one of another Trainer, and if the plan has no pass without gradients.
  ForwardOutput forward(const Batch& batch);
  // Adds the gradients of the batch to those of this step. Returns the mean loss of this batch. May be called
  // up to --gradient_accumulation_steps times per update. Errors: kUsage for more calls than that, for a batch of another
  // Trainer, an empty batch, one that is larger than planned, and one without labels.
  double forward_backward(const Batch& batch);
  // Clips the gradients, updates the weights, and returns the norm of the gradients before clipping. The loss
  // of the step is the mean over the real samples of all its batches, whatever their number and sizes: a loop
  // that updates after --gradient_accumulation_steps batches and at the end of each epoch makes bit for bit
  // the same steps as train(). With fp16, a norm that is not finite means that the gradients overflowed: the
  // step changed no weight, and the loss scale is reduced. Errors: kUsage before forward_backward();
  // kNotFinite, in which case the step is discarded without an update.
  double update(double learning_rate);
  // Updates the weights with a custom rule, which is called for one parameter at a time and works in planned
  // memory. The gradients are neither clipped nor checked. Errors: as update(); kUsage on a GPU, with
  // --optimizer_in_backward, and if --optim or --dtype store anything other than fp32.
  void update_by(const UpdateRule& rule);
  // Returns the number of updates since the start of the last train() or of the run that load_checkpoint() resumed,
  // including custom ones.
  int64_t step() const;

  // Saves the state of a custom loop as output_dir/checkpoint-STEP, as train() does: the weights, the optimizer's states,
  // the random numbers and the position in the training data after the last batch of next_batch() that was used. Keeps
  // save_total_limit checkpoints. Returns the path. Errors: kUsage between forward_backward() and update(), and if
  // another run has checkpoints in output_dir that this one could write over (--replace_checkpoints); kDevice for a full
  // disk. After an error, the checkpoints that existed before are unchanged.
  std::string save_checkpoint();
  // Continues from a checkpoint of save_checkpoint() or train() with the same model and optimizer: afterwards the loop
  // makes bit for bit the steps that it would have made without the interruption. Batches that were made before stay
  // valid. Returns lines for people about differences between this run and the one that saved the checkpoint. Errors:
  // kUsage between forward_backward() and update(); kBadData for a folder that is not a checkpoint, is damaged, or
  // belongs to another model or optimizer. If the fault is found while tensors are read, weights and states return to
  // those after start().
  std::vector<std::string> load_checkpoint(const std::string& folder);

  // The functions below read and write weights by name, on every device. They allocate the memory of the run if
  // necessary, as start() does.
  //
  // Returns all weights in the order of the model.
  std::vector<WeightInfo> weights() const;
  // Returns the values of a weight as fp32 numbers, row by row. Errors: kUsage for an unknown name; the message
  // suggests the nearest names.
  std::vector<float> read_weight(std::string_view name);
  // Sets all values of a weight, rounded to the type that it is stored in. The optimizer's states stay as they are.
  // Errors: kUsage for an unknown name, another number of values than the shape has, and a value that is not finite; then
  // nothing was written.
  void write_weight(std::string_view name, std::span<const float> values);

  MemoryFigures memory() const;
  // Returns the time per group of operations as a table for people, if --profile is set.
  std::string profile_table() const;
  // Returns the measured times of the training program as a trace for Perfetto, if --profile is set; "" if none was measured.
  std::string profile_trace() const;

 private:
  struct Impl;
  // Returns the state of the Trainer. Errors: kUsage if this Trainer was moved from.
  Impl& impl() const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll
