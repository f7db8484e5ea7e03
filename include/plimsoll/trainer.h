// Training with Hugging Face's Trainer's arguments and result files, evaluation and prediction; and, for
// programs with a loop of their own, the same engine step by step. Not thread-safe, but while the object
// lives request_stop may be called from anywhere.
//
//   // Reads model and data, plans; allocates nothing of the run.
//   plimsoll::Trainer trainer(arguments);
//   std::cout << trainer.plan().table;
//   // Takes the planned memory and trains.
//   plimsoll::TrainOutput output = trainer.train();
//   plimsoll::MetricMap metrics = trainer.evaluate();
//
// A loop of one's own:
//
//   arguments.max_steps = 100;  // what the plan has room for
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

// What a Trainer reads at its construction.
enum class Task : uint8_t { kTrain, kEvaluate, kPredict };

// What there is to predict: the test data, and MNLI's second, of other genres than the training data's.
enum class TestSet : uint8_t { kTest, kMismatched };

// One micro-batch of training data, which it owns; it can be moved, not copied. Trainer::next_batch makes it.
// A default-constructed or moved-from Batch is empty.
class Batch {
 public:
  Batch();
  ~Batch();
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;
  int64_t num_sequences() const;
  int64_t num_tokens() const;
  // Fraction of the data seen when this batch is done, counted in epochs.
  double epoch() const;
  // Whether the epoch ends with this batch: the Trainer's own loop updates then, whatever is added up.
  bool last_in_epoch() const;

 private:
  friend class Trainer;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A parameter as a rule of one's own sees it: where it lies in the planned memory, valid during the call.
struct OwnParameter {
  // As checkpoints name it; queries, keys and values, which are one matrix here, as "...query_key_value...".
  std::string_view name;
  std::span<float> weights;  // to be changed
  std::span<const float> gradients;
  // The state tensors that --optim keeps for this weight, in its shape; initially zero unless --optim_args
  // say otherwise, and saved in checkpoints. AdamW has two, Lion one, SGD one with momentum and none without.
  // The rule may keep in them what it likes.
  std::span<const std::span<float>> states;
};
using UpdateRule = std::function<void(const OwnParameter& parameter)>;

// Called before long work with a line for people ("device cpu: ...", "loading ...").
using Announce = std::function<void(const std::string& line)>;

class Trainer {
 public:
  // Reads model, tokenizer and data, tokenizes, plans. Errors: kUsage, kBadData.
  explicit Trainer(Arguments arguments, Task task = Task::kTrain, const Environment& environment = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  const PlanReport& plan() const;
  // The device and what it can do: "device cpu: Some CPU, 2 threads, AVX-512".
  std::string device_line() const;
  // What was read: model, weights, data, tokens; lines for people.
  std::vector<std::string> description() const;
  int64_t max_steps() const;
  int64_t num_parameters() const;

  void add_callback(std::shared_ptr<Callback> callback);

  // Takes the planned memory and fills the weights; train, evaluate and predict do it by themselves. Returns
  // which weights were not used and which are newly initialised, in Hugging Face's words, or "". Errors:
  // kWillNotFit, before anything is taken; kBadData, kDevice. Nothing is held then: whatever is called next
  // starts from the beginning.
  std::string start();

  // Trains to the end with everything that the arguments ask for; writes checkpoints, logs, results and plots
  // into output_dir: plan.json before the first step, memory.json also where a loss that is not finite ends
  // it. Lines about a resumed checkpoint go to `announce`. Errors: kUsage unless the Trainer was made with
  // Task::kTrain, and where another run trains into output_dir or left checkpoints there; kWillNotFit,
  // kNotFinite, kBadData, kDevice; and what a callback throws.
  //
  // Called once more, or after updates of one's own, it begins anew at step 0, unless it resumes: with the
  // weights as they are, the optimizer's states zero, random draws and batches from the first. So it does
  // after a train() that threw in the middle: the weights are those of the last update. It is another run:
  // checkpoints that the one before saved into output_dir are kUsage to it as those of any other, unless it
  // resumes or --replace_checkpoints is given. What is refused before the first step leaves weights, states
  // and a loop of one's own as they were; but where tensors of a checkpoint cannot be read or do not fit,
  // weights and states are those of start() again. output_dir is free for others when it returns or throws.
  TrainOutput train(const Announce& announce = {});
  // Mean loss and metrics over the validation data, keys with the prefix "eval_". Errors: kUsage where there
  // is no such data, and between forward_backward() and update().
  MetricMap evaluate();
  // Scores for every row of the test data, in order, handed over batch by batch: nothing of them is kept.
  // Returns how fast it was and, where the rows have labels, mean loss and metrics; keys with the prefix
  // "predict_". Labels in a --test_file are not read. Errors: kUsage where there is no such data.
  MetricMap predict(const std::function<void(Prediction prediction)>& take, TestSet set = TestSet::kTest);
  // All of them at once, in memory that is the caller's and stands in no plan.
  std::vector<Prediction> predict(TestSet set = TestSet::kTest);
  bool has_test_set(TestSet set) const;
  // The names of the labels by id; empty for regression.
  std::vector<std::string> label_names() const;

  // Writes the model as a Hugging Face folder: config.json, model.safetensors, the tokenizer's files.
  void save_model(const std::string& folder);
  // Merges metrics into FOLDER/<split>_results.json and all_results.json as Trainer does.
  void save_metrics(const std::string& split, const MetricMap& metrics);
  // Writes reports into output_dir: plan.json, memory.json, loss.svg, memory.svg; profile.json with
  // --profile; the model card README.md unless the run was interrupted. A README.md that somebody else wrote
  // is kept. Writes nothing if the resumed run had already finished and left its reports. Returns the names
  // of the files that were written.
  std::vector<std::string> save_reports(const TrainOutput& output);

  // The step in hand is finished and saved; train() then returns with `interrupted`. Where none is under way
  // it holds for the next one; it ends with the train() that it holds for, however that ends. Safe in a
  // signal handler.
  void request_stop();

  // A loop of one's own. Its order of calls: forward_backward once or more, then update; next_batch at any
  // time; evaluate, predict and train not between forward_backward and update. Everything else is kUsage, and
  // the message says what to call first.
  //
  // The next batch of the training data, over epochs without end. The plan has room for every batch of the
  // epochs that --num_train_epochs or --max_steps ask for, so set them to what the loop will do. Errors:
  // kUsage unless the Trainer was made with Task::kTrain, and for a batch of a later epoch that is larger
  // than all that were planned for.
  Batch next_batch();
  // Adds the batch's gradients to those of this step. Returns the mean loss of this batch. Call it up to
  // --gradient_accumulation_steps times per update. Errors: kUsage beyond that, for a batch of another
  // Trainer and for one that holds nothing.
  double forward_backward(const Batch& batch);
  // Clips, updates the weights, returns the gradient's norm before clipping. The step's loss is the mean over
  // the real samples of all its batches, however many there were and however short: a loop that updates after
  // --gradient_accumulation_steps batches and at the end of each epoch makes the same steps, bit for bit, as
  // train(). With fp16 a norm that is not finite says that the gradients overflowed: the step changed no
  // weight, and the loss scale is smaller from here on. Errors: kUsage before forward_backward(); kNotFinite,
  // the step is then dropped and nothing is updated.
  double update(double learning_rate);
  // The same by a rule of one's own, called for one parameter after the other, in the memory of the plan:
  // nothing is clipped, no gradient is looked at. Errors: as above; kUsage on a GPU, whose memory the rule
  // cannot reach, with --optimizer_in_backward, and where --optim or --dtype keep anything else than fp32.
  void update_by(const UpdateRule& rule);
  // Updates done: by the last train(), and of one's own since.
  int64_t step() const;

  MemoryFigures memory() const;
  // Time of the operations, when --profile was given: a table for people.
  std::string profile_table() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll
