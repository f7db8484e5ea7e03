// Tests data that a program passes in memory: data sets, batches, single texts. Results must equal those for the same
// data in files, and rows that the model cannot read end in one clear exception.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <sstream>

#include "plimsoll/trainer.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

// Fixture: a tiny model with 150 token ids, whose tokenizer uses the ids 0 to 30, and the same rows in a file
// and in memory.
class OwnData : public ::testing::Test {
 protected:
  OwnData() {
    model_ = testing::write_tiny_model(folder_, 0.0);
    file_ = testing::write_uneven_rows(folder_, 23);
    std::ifstream file(file_);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      const size_t comma = line.find(',');
      rows_.push_back({.text = line.substr(0, comma), .classes = {line.substr(comma + 1) == "even" ? 0 : 1}});
    }
  }

  Arguments arguments(const std::string& output) const {
    Arguments arguments;
    arguments.config_name = model_;
    arguments.tokenizer_name = model_;
    arguments.output_dir = folder_.path(output);
    arguments.per_device_train_batch_size = 4;
    arguments.per_device_eval_batch_size = 4;
    arguments.max_steps = 6;
    arguments.learning_rate = 1e-3;
    arguments.save_strategy = "no";
    arguments.num_threads = 1;
    arguments.use_cpu = true;
    return arguments;
  }

  MemoryData data() const {
    return {.train = rows_in_memory(rows_),
            .validation = rows_in_memory(rows_),
            .test = rows_in_memory(rows_),
            .label_names = {"even", "odd"}};
  }

  // Returns a Trainer without data sets.
  Trainer bare(Task task = Task::kTrain) const {
    Arguments bare = arguments("bare");
    bare.max_seq_length = 24;
    bare.num_labels = 2;
    if (task != Task::kTrain) {
      Trainer(bare, TrainerParts{.data = MemoryData{}}).save_model(folder_.path("trained"));
      bare.config_name.clear();
      bare.tokenizer_name.clear();
      bare.model_name_or_path = folder_.path("trained");
    }
    return Trainer(bare, TrainerParts{.data = MemoryData{}}, task);
  }

  static std::string weights(Trainer& trainer, const testing::TestFolder& folder) {
    trainer.save_model(folder.path("saved"));
    std::string text = testing::read_file(folder.path("saved") + "/model.safetensors");
    std::filesystem::remove_all(folder.path("saved"));
    return text;
  }

  const testing::TestFolder folder_{"own_data"};
  std::string model_;
  std::string file_;
  std::vector<DataRow> rows_;
};

// Returns the token ids of a text of single letters: [CLS], one id per letter, [SEP], numbered as in the
// tokenizer's vocabulary.
std::vector<int32_t> ids_of(const std::string& text) {
  std::vector<int32_t> ids{2};
  for (const char letter : text) {
    if (letter != ' ') ids.push_back(5 + letter - 'a');
  }
  ids.push_back(3);
  return ids;
}

TEST_F(OwnData, TrainsAndEvaluatesAsFromFiles) {
  Arguments from_file = arguments("file");
  from_file.train_file = file_;
  from_file.validation_file = file_;
  from_file.do_eval = true;
  Trainer files(from_file);
  Arguments from_memory = arguments("memory");
  from_memory.do_eval = true;
  Trainer memory(from_memory, TrainerParts{.data = data()});
  EXPECT_EQ(memory.plan().arena_bytes, files.plan().arena_bytes);
  EXPECT_EQ(memory.label_names(), files.label_names());
  EXPECT_EQ(memory.train().metrics.at("train_loss"), files.train().metrics.at("train_loss"));
  EXPECT_EQ(weights(memory, folder_), weights(files, folder_));
  const MetricMap of_memory = memory.evaluate();
  const MetricMap of_files = files.evaluate();
  EXPECT_EQ(of_memory.at("eval_loss"), of_files.at("eval_loss"));
  EXPECT_EQ(of_memory.at("eval_accuracy"), of_files.at("eval_accuracy"));
}

// Rows of token ids must give the same results as rows of the corresponding texts, in data sets and in batches from make_batch().
TEST_F(OwnData, BatchesOfIdsAreThoseOfTexts) {
  std::vector<DataRow> ids = rows_;
  for (DataRow& row : ids) {
    row.ids = ids_of(*row.text);
    row.text.reset();
  }
  const auto run = [&](const std::vector<DataRow>& rows) {
    Trainer trainer = bare();
    std::vector<double> losses;
    for (size_t begin = 0; begin + 4 <= rows.size(); begin += 4) {
      const Batch batch = trainer.make_batch({rows.begin() + static_cast<std::ptrdiff_t>(begin),
                                              rows.begin() + static_cast<std::ptrdiff_t>(begin + 4)});
      EXPECT_EQ(batch.num_sequences(), 4);
      EXPECT_TRUE(batch.has_labels());
      EXPECT_EQ(batch.num_cut_tokens(), 0);
      losses.push_back(trainer.forward_backward(batch));
      trainer.update(1e-3);
    }
    EXPECT_EQ(trainer.step(), 5);
    losses.push_back(*trainer.forward(trainer.make_batch({rows[0]})).loss);
    return losses;
  };
  const std::vector<double> of_texts = run(rows_);
  EXPECT_EQ(run(ids), of_texts);
  EXPECT_EQ(of_texts.size(), 6U);
}

// A loop that makes its batches with make_batch(), in the order of the data set, must have the same results as a loop with next_batch().
TEST_F(OwnData, OwnBatchesMakeTheStepsOfNextBatch) {
  Arguments given = arguments("sequential");
  given.train_sampling_strategy = "sequential";
  Trainer of_set(given, TrainerParts{.data = data()});
  Trainer of_batches = bare();
  for (size_t step = 0; step < 5; ++step) {
    const double expected = of_set.forward_backward(of_set.next_batch());
    const auto begin = rows_.begin() + static_cast<std::ptrdiff_t>(4 * step);
    EXPECT_EQ(of_batches.forward_backward(of_batches.make_batch({begin, begin + 4})), expected) << step;
    EXPECT_EQ(of_batches.update(1e-3), of_set.update(1e-3)) << step;
  }
}

TEST_F(OwnData, ForwardEqualsPredict) {
  Arguments given = arguments("forward");
  given.do_predict = true;
  Trainer trainer(given, TrainerParts{.data = data()});
  trainer.train();
  const std::vector<Prediction> predictions = trainer.predict();
  ASSERT_EQ(predictions.size(), rows_.size());
  const ForwardOutput output = trainer.forward(trainer.make_batch({rows_[0], rows_[1], rows_[2]}));
  EXPECT_EQ(output.num_rows, 3);
  EXPECT_EQ(output.num_labels, 2);
  ASSERT_TRUE(output.loss);
  double loss = 0;
  for (size_t i = 0; i < 3; ++i) {
    const double a = output.logits[2 * i];
    const double b = output.logits[2 * i + 1];
    EXPECT_NEAR(a, predictions[i].logits[0], 1e-6);
    EXPECT_NEAR(b, predictions[i].logits[1], 1e-6);
    loss += std::log(std::exp(a) + std::exp(b)) - (rows_[i].classes[0] == 0 ? a : b);
  }
  EXPECT_NEAR(*output.loss, loss / 3, 1e-6);
  const std::vector<Prediction> of_rows = trainer.predict(rows_);
  ASSERT_EQ(of_rows.size(), rows_.size());
  for (size_t i = 0; i < rows_.size(); ++i) {
    EXPECT_EQ(of_rows[i].label, predictions[i].label);
    EXPECT_NEAR(of_rows[i].logits[0], predictions[i].logits[0], 1e-6);
  }
  // Forward passes between the training steps must not change the results of these steps.
  Trainer other = bare();
  Trainer same = bare();
  for (int step = 0; step < 3; ++step) {
    other.forward(other.make_batch({rows_[9]}));
    EXPECT_EQ(other.forward_backward(other.make_batch({rows_[1]})),
              same.forward_backward(same.make_batch({rows_[1]})));
    EXPECT_EQ(other.update(1e-3), same.update(1e-3));
  }
}

TEST_F(OwnData, PredictsOneText) {
  Trainer trainer = bare(Task::kPredict);
  EXPECT_EQ(trainer.plan().memory.find_phase("train"), nullptr) << "prediction plans no training";
  const std::vector<Prediction> one = trainer.predict({{.text = "a b c"}});
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].logits.size(), 2U);
  const std::vector<Prediction> pair =
      trainer.predict({{.text = "a b", .text_pair = "c"}, {.text = "c", .text_pair = "d"}});
  EXPECT_EQ(pair.size(), 2U);
  EXPECT_TRUE(trainer.predict(std::vector<DataRow>{}).empty());
  // predict() must accept more rows than fit into one batch.
  EXPECT_EQ(trainer.predict(rows_).size(), rows_.size());
  const Batch cut = trainer.make_batch(
      {{.text = std::string(60, 'x') + " " + "a b c d e f g h i j k l m n o p q r s t u v w x y z"}});
  EXPECT_EQ(cut.num_tokens(), 24);
  EXPECT_GT(cut.num_cut_tokens(), 0);
  EXPECT_FALSE(cut.has_labels());
  EXPECT_FALSE(trainer.forward(cut).loss);
}

// Tests regression, multi-label classification, and labels per word and per id.
TEST_F(OwnData, OtherTasks) {
  struct TaskCase {
    const char* problem_type;
    std::vector<DataRow> rows;
    std::vector<std::string> names;
    const char* metric;
  };
  const std::vector<TaskCase> cases{
      {"", {{.text = "a b", .values = {0.5f}}, {.text = "c", .values = {-1.0f}}}, {}, "eval_mse"},
      {"",
       {{.text = "a", .values = {0, 1, 1}}, {.text = "b", .values = {1, 0, 0}}},
       {"x", "y", "z"},
       "eval_f1"},
      {"",
       {{.words = {"a", "b"}, .classes = {0, 1}}, {.words = {"c"}, .classes = {kNoLabel}}},
       {"O", "B-X"},
       "eval_f1"},
      {"", {{.ids = {2, 6, 7, 3}, .classes = {kNoLabel, 1, 0, kNoLabel}}}, {"O", "B-X"}, "eval_accuracy"},
  };
  for (const TaskCase& c : cases) {
    SCOPED_TRACE(c.metric);
    Arguments given = arguments("tasks");
    given.problem_type = c.problem_type;
    given.do_eval = true;
    given.max_steps = 2;
    Trainer trainer(given, TrainerParts{.data = MemoryData{.train = rows_in_memory(c.rows),
                                                           .validation = rows_in_memory(c.rows),
                                                           .label_names = c.names}});
    EXPECT_TRUE(std::isfinite(trainer.train().metrics.at("train_loss")));
    EXPECT_TRUE(trainer.evaluate().contains(c.metric));
    const std::vector<Prediction> predictions = trainer.predict(c.rows);
    EXPECT_EQ(predictions.size(), c.rows.size());
    const ForwardOutput output = trainer.forward(trainer.make_batch(c.rows));
    EXPECT_TRUE(std::isfinite(*output.loss));
  }
}

// Every kind of row that the model cannot read is refused, with a message that states the fault.
TEST_F(OwnData, RowsThatCannotBeReadAreNamed) {
  Trainer trainer = bare();
  struct Case {
    std::vector<DataRow> rows;
    const char* words;
  };
  const DataRow good{.ids = {2, 6, 3}, .classes = {1}};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Case> cases{
      {{}, "at least one row"},
      {{DataRow{}}, "has no input"},
      {{good, {.classes = {1}}}, "row 1 (from 0) of the batch rows: it has no input"},
      {{{.text = "a", .ids = {2}}}, "several inputs"},
      {{{.text_pair = "b", .ids = {2}}}, "text_pair needs text"},
      {{{.text = "a", .token_types = {0}}}, "token_types needs ids"},
      {{good, {.text = "a", .classes = {0}}}, "it has a text, but row 0 has token ids"},
      {{{.text = "a"}, {.text = "a", .text_pair = "b"}}, "it has a pair of texts, but row 0 has a text"},
      {{{.words = {"a"}, .classes = {0}}}, "only token classification reads"},
      {{{.ids = {2, 150, 3}}}, "ids[1] is 150, but the model's vocab_size is 150: an id is from 0 to 149"},
      {{{.ids = {-1}}}, "ids[0] is -1"},
      {{{.ids = {2, std::numeric_limits<int32_t>::max()}}}, "ids[1] is 2147483647"},
      {{{.ids = {2, 3}, .token_types = {0}}}, "it has 2 ids, but 1 value in token_types"},
      {{{.ids = {2, 3}, .token_types = {0, 2}}}, "token_types[1] is 2, but a type is from 0 to 1"},
      {{{.ids = {2, 3}, .token_types = {0, -1}}}, "token_types[1] is -1"},
      {{{.ids = std::vector<int32_t>(25, 5)}}, "it has 25 ids, but the plan was made for at most 24"},
      {{{.ids = {2}, .classes = {2}}}, "classes[0] is 2, but the model has 2 labels: a class is from 0 to 1"},
      {{{.ids = {2}, .classes = {-1}}}, "classes[0] is -1"},
      {{{.ids = {2}, .classes = {kNoLabel}}}, "classes[0] is -100"},
      {{{.ids = {2}, .classes = {0, 1}}}, "it has 2 labels in classes, but 1 is expected"},
      {{{.ids = {2}, .values = {0.5f}}}, "the label of the row is in values, but the task reads classes"},
      {{{.ids = {2}, .classes = {0}, .values = {nan}}}, "the label of the row is in values"},
      {{good, {.ids = {2}}},
       "row 1 (from 0) of the batch rows: the row has no label, but other rows have one"},
      {{{.text = "a\xff"}}, "row 0 (from 0) of the batch rows: byte 1 (from 0) of text is 0xFF"},
      {{{.text = "a", .text_pair = "\xc3("}}, "byte 0 (from 0) of text_pair is 0xC3"},
  };
  for (const Case& c : cases) {
    const std::string message = testing::refusal([&] { trainer.make_batch(c.rows); }, ErrorCode::kBadData);
    EXPECT_NE(message.find(c.words), std::string::npos) << c.words << "\n" << message;
  }
  EXPECT_EQ(trainer.make_batch({good}).num_tokens(), 3) << "no error is left behind";
}

TEST_F(OwnData, BatchesBeyondThePlanAreRefused) {
  Trainer trainer = bare();
  const DataRow row{.ids = {2, 6, 3}, .classes = {1}};
  const DataRow no_label{.ids = {2, 6, 3}};
  Batch five = trainer.make_batch({row, row, row, row, row});
  const auto expect = [&](const std::function<void()>& call, const char* words) {
    const std::string message = testing::refusal(call, ErrorCode::kUsage);
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  expect([&] { trainer.forward_backward(five); },
         "the batch has 15 tokens in 5 rows, the longest of 3, but the plan has room for 96 in 4");
  expect([&] { trainer.forward(five); }, "larger --per_device_eval_batch_size");
  Batch unlabelled = trainer.make_batch({no_label});
  expect([&] { trainer.forward_backward(unlabelled); }, "without labels: fill DataRow::classes");
  EXPECT_FALSE(trainer.forward(unlabelled).loss);
  Batch good = trainer.make_batch({row});
  trainer.forward_backward(good);
  expect([&] { trainer.forward(good); }, "call update() first");
  expect([&] { trainer.predict({row}); }, "call update() first");
  trainer.update(1e-3);
  Trainer other = bare();
  expect([&] { other.forward(good); }, "another Trainer made");
  expect([&] { other.forward(Batch()); }, "empty batch");
  expect([&] { trainer.next_batch(); }, "needs training rows");
  expect([&] { trainer.train(); }, "needs training rows");
  expect([&] { trainer.evaluate(); }, "nothing to evaluate");
  Trainer predicting = bare(Task::kPredict);
  expect([&] { predicting.forward_backward(predicting.make_batch({row})); }, "make it with Task::kTrain");
  EXPECT_EQ(predicting.forward(predicting.make_batch({row})).num_rows, 1);
  // A Trainer that has only training rows has no evaluation program in its plan, so forward() is refused.
  Trainer training(arguments("training"), TrainerParts{.data = MemoryData{.train = rows_in_memory(rows_)}});
  expect([&] { training.forward(training.make_batch({row})); }, "has no pass without gradients");
}

TEST_F(OwnData, DataSetsThatCannotBeReadAreRefused) {
  // A data set that computes its rows on demand, and throws for the row `bad`.
  class Computed : public DataRows {
   public:
    explicit Computed(int64_t rows, int64_t bad = -1) : rows_(rows), bad_(bad) {}
    int64_t num_rows() const override { return rows_; }
    DataRow row(int64_t index) const override {
      if (index == bad_) throw std::runtime_error("row of the program");
      return {.ids = {2, static_cast<int32_t>(5 + index % 26), 3},
              .classes = {static_cast<int32_t>(index % 2)}};
    }

   private:
    int64_t rows_;
    int64_t bad_;
  };
  const auto train = [&](Arguments given, std::shared_ptr<const DataRows> rows) {
    return Trainer(std::move(given), TrainerParts{.data = MemoryData{.train = std::move(rows)}});
  };
  Arguments given = arguments("computed");
  given.max_steps = 2;
  EXPECT_EQ(train(given, std::make_shared<Computed>(50)).train().step, 2);
  given.max_train_samples = 10;
  EXPECT_EQ(train(given, std::make_shared<Computed>(50, 20)).train().step, 2)
      << "only the first ten are read";
  given.max_train_samples.reset();
  EXPECT_THROW(train(given, std::make_shared<Computed>(50, 20)), std::runtime_error);
  const auto expect = [&](const std::function<void()>& call, ErrorCode code, const char* words) {
    const std::string message = testing::refusal(call, code);
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  expect([&] { train(given, std::make_shared<Computed>(0)); }, ErrorCode::kBadData,
         "there are no train rows");
  expect([&] { train(given, std::make_shared<Computed>(-3)); }, ErrorCode::kBadData, "num_rows() is -3");
  Arguments with_file = given;
  with_file.train_file = file_;
  expect([&] { train(with_file, std::make_shared<Computed>(5)); }, ErrorCode::kUsage, "--train_file");
  Arguments with_dummy = given;
  with_dummy.dataset_name = "dummy";
  expect([&] { train(with_dummy, std::make_shared<Computed>(5)); }, ErrorCode::kUsage,
         "--dataset_name dummy");
  Arguments evaluated = given;
  evaluated.do_eval = true;
  expect([&] { train(evaluated, std::make_shared<Computed>(5)); }, ErrorCode::kUsage,
         "needs validation rows");
  Arguments predicted = given;
  predicted.do_predict = true;
  expect([&] { train(predicted, std::make_shared<Computed>(5)); }, ErrorCode::kUsage, "needs test rows");
  Arguments three = given;
  three.num_labels = 1;
  expect([&] { train(three, std::make_shared<Computed>(5)); }, ErrorCode::kBadData, "classes[0] is 1");
  std::vector<DataRow> unlabelled{{.text = "a", .classes = {0}}, {.text = "b"}};
  expect([&] { train(given, rows_in_memory(unlabelled)); }, ErrorCode::kBadData,
         "row 1 (from 0) of the train rows: the row has no label: fill classes");
  Arguments no_tokenizer = given;
  no_tokenizer.tokenizer_name.clear();
  expect([&] { train(no_tokenizer, rows_in_memory(rows_)); }, ErrorCode::kUsage, "no tokenizer");
  EXPECT_EQ(train(no_tokenizer, std::make_shared<Computed>(5)).max_steps(), 2) << "ids need none";
}

}  // namespace
}  // namespace plimsoll
