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
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/arguments.h"
#include "plimsoll/plan.h"
#include "plimsoll/training.h"

namespace plimsoll {

class TrainLoop;
class Session;

// Determines the data that a Trainer reads when it is constructed.
enum class Task : uint8_t { kTrain, kEvaluate, kPredict };

// The test sets: the test data, and MNLI's second test set, with genres that the training data does not
// contain.
enum class TestSet : uint8_t { kTest, kMismatched };

// One micro-batch of training data, created by Trainer::next_batch. A Batch owns its data and can be moved,
// not copied. A default-constructed or moved-from Batch is empty.
class Batch {
 public:
  Batch();
  ~Batch();
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;
  int64_t num_sequences() const;
  int64_t num_tokens() const;
  // Returns the progress through the data after this batch, in epochs.
  double epoch() const;
  // Returns true if this is the last batch of the epoch. Trainer::train() then updates even if the
  // accumulation is incomplete.
  bool last_in_epoch() const;

 private:
  friend class Trainer;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A parameter as a custom update rule sees it. The spans refer to planned memory and are valid during the
// call.
struct OwnParameter {
  // Name of the parameter in checkpoints. Queries, keys and values form one matrix here, named
  // "...query_key_value...".
  std::string_view name;
  std::span<float> weights;  // may be changed
  std::span<const float> gradients;
  // The state tensors that --optim allocates for this weight, each in the shape of the weight. They are
  // initially zero (--optim_args can change that) and are saved in checkpoints. AdamW has two, Lion has one,
  // SGD has one with momentum and none without. The rule may use them freely.
  std::span<const std::span<float>> states;
};
using UpdateRule = std::function<void(const OwnParameter& parameter)>;

// Called before long work with a line for people ("device cpu: ...", "loading ...").
using Announce = std::function<void(const std::string& line)>;

class Trainer {
 public:
  // Reads the model, the tokenizer and the data, tokenizes, and plans. Errors: kUsage, kBadData.
  // `texts`, if there are any, are predicted instead of a --test_file.
  explicit Trainer(Arguments arguments, Task task = Task::kTrain, const Environment& environment = {},
                   const TestTexts& texts = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  const PlanReport& plan() const;
  // Describes the device and its capabilities: "device cpu: Some CPU, 2 threads, AVX-512".
  std::string device_line() const;
  // Describes the model, weights, data and tokens that were read, as lines for people.
  std::vector<std::string> description() const;
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
  bool has_test_set(TestSet set) const;
  // Returns the names of the labels in the order of their ids; empty for regression.
  std::vector<std::string> label_names() const;

  // Writes the model as a Hugging Face folder: config.json, model.safetensors, the tokenizer's files.
  void save_model(const std::string& folder);
  // Merges metrics into FOLDER/<split>_results.json and all_results.json, as Hugging Face's Trainer does.
  void save_metrics(const std::string& split, const MetricMap& metrics);
  // Writes reports into output_dir: plan.json, memory.json, memory.svg, loss.svg and metrics.svg (if something was logged); profile.json with
  // --profile; and the model card README.md if the run was not interrupted. A README.md that Plimsoll did not
  // write is kept. Writes nothing if the resumed run had already finished and its reports exist. Returns the
  // names of the files that were written.
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
  // Errors: kUsage if the Trainer was not constructed with Task::kTrain, and for a batch of a later epoch
  // that is larger than all planned ones.
  Batch next_batch();
  // Adds the gradients of the batch to those of this step. Returns the mean loss of this batch. May be called
  // up to --gradient_accumulation_steps times per update. Errors: kUsage for more calls than that, for a
  // batch of another Trainer, and for an empty batch.
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
  // Returns the number of updates since the start of the last train(), including custom ones.
  int64_t step() const;

  MemoryFigures memory() const;
  // Returns the time per group of operations as a table for people, if --profile is set.
  std::string profile_table() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll
