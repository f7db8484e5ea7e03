// Tests custom training loops: the example program own_loop works, its steps equal those of the Trainer bit for
// bit, and calls in the wrong order report the missing call.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>

#include "plimsoll/trainer.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

struct ExampleRun {
  int exit_code = -1;
  std::string output;
  int64_t number_after(const std::string& words) const {
    const size_t at = output.find(words);
    return at == std::string::npos ? -1 : std::atoll(output.c_str() + at + words.size());
  }
};

ExampleRun run_example(const std::string& words) {
  const std::string command = std::string(PLIMSOLL_BINARY_DIR) + "/examples/own_loop " + words + " 2>&1";
  ExampleRun run;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return run;
  char buffer[512];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) run.output += buffer;
  const int status = pclose(pipe);
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return run;
}

// Returns the arguments that the example program own_loop and `plimsoll train` both get.
std::string dummy_arguments(const std::string& model, const std::string& output_dir, int steps,
                            const std::vector<std::string>& more) {
  std::string words = "--config_name " + model +
                      " --dataset_name dummy --dummy_num_samples 64 --dummy_seq_length 16 --max_steps " +
                      std::to_string(steps) + " --output_dir " + output_dir;
  for (const std::string& some : more) words.append(" ").append(some);
  return words;
}

int64_t planned_by_train(const std::string& words) {
  std::istringstream stream(words + " --dry_run");
  const std::vector<std::string> train{std::istream_iterator<std::string>(stream), {}};
  return Trainer(parse_arguments(train).arguments).plan().arena_bytes;
}

TEST(OwnLoop, RunsAndLearns) {
  const testing::TestFolder folder("own_loop");
  const std::string model = testing::write_tiny_model(folder, 0.0);
  const ExampleRun run = run_example(dummy_arguments(
      model, folder.path("out"), 40, {"--learning_rate 1e-3 --gradient_accumulation_steps 2"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  double first = 0;
  double last = 0;
  const std::string& output = run.output;
  ASSERT_EQ(std::sscanf(output.c_str() + output.find("step 1 "), "step 1  loss %lf", &first), 1) << output;
  ASSERT_EQ(std::sscanf(output.c_str() + output.find("step 40 "), "step 40  loss %lf", &last), 1) << output;
  EXPECT_GT(first, 0.0);
  EXPECT_LT(last, 2.0 * first);
  EXPECT_TRUE(std::filesystem::exists(folder.path("out") + "/model.safetensors"));
}

// The memory that the example program own_loop plans and allocates must equal the Trainer's plan for the same
// arguments to the byte, and all of it except less than one KiB must be used.
TEST(OwnLoop, HoldsWhatTrainPlansWithEveryMethod) {
  const testing::TestFolder folder("own_loop_methods");
  const std::string model = testing::write_tiny_model(folder);
  const std::string common =
      "--per_device_train_batch_size 4 --gradient_accumulation_steps 2 --use_cpu --num_threads 1 ";
  int checked = 0;
  for (const std::string methods :
       {"", "--gradient_accumulation_steps 1", "--gradient_checkpointing True", "--optim adamw_8bit",
        "--bf16 --gradient_checkpointing True --optim adamw_8bit"}) {
    SCOPED_TRACE(methods);
    const ExampleRun run = run_example(dummy_arguments(model, folder.path("out"), 3, {common, methods}));
    // Skips bf16 if the program reports that this CPU does not support it.
    if (run.exit_code == 2 && methods.starts_with("--bf16")) {
      EXPECT_NE(run.output.find("this CPU cannot multiply bf16"), std::string::npos) << run.output;
      continue;
    }
    ASSERT_EQ(run.exit_code, 0) << run.output;
    const int64_t planned =
        planned_by_train(dummy_arguments(model, folder.path("dry"), 3, {common, methods}));
    ASSERT_GT(planned, 0);
    EXPECT_EQ(run.number_after("planned: "), planned) << run.output;
    EXPECT_EQ(run.number_after("held: "), planned) << run.output;
    const int64_t used = run.number_after("used to ");
    EXPECT_LE(used, planned);
    EXPECT_GT(used, planned - 1024);
    ++checked;
  }
  EXPECT_GE(checked, 4);
}

TEST(OwnLoop, AnOptimizerOfOnesOwnHoldsWhatTrainPlans) {
  const testing::TestFolder folder("own_optimizer");
  const std::string model = testing::write_tiny_model(folder, 0.0);
  const std::string common = "--use_cpu --learning_rate 1e-2 --optim sgd --optim_args momentum=0.9 ";
  std::vector<double> losses;
  for (const std::string more : {"", "--gradient_checkpointing True"}) {
    const ExampleRun run = run_example(dummy_arguments(model, folder.path("out"), 20, {common, more}));
    ASSERT_EQ(run.exit_code, 0) << run.output;
    const int64_t planned = planned_by_train(dummy_arguments(model, folder.path("dry"), 20, {common, more}));
    ASSERT_GT(planned, 0);
    EXPECT_EQ(run.number_after("planned: "), planned) << run.output;
    EXPECT_EQ(run.number_after("held: "), planned) << run.output;
    const size_t last = run.output.find("step 20  loss ");
    ASSERT_NE(last, std::string::npos) << run.output;
    losses.push_back(std::atof(run.output.c_str() + last + 14));
  }
  EXPECT_EQ(losses[0], losses[1]) << "computing again changes nothing";
}

// Returns the arguments of a run with rows of many lengths and an incomplete last batch. With `dropout` 0 there
// is no dropout.
Arguments uneven_arguments(const testing::TestFolder& folder, double dropout = 0.1) {
  Arguments arguments;
  arguments.config_name = testing::write_tiny_model(folder, dropout);
  arguments.tokenizer_name = arguments.config_name;
  arguments.train_file = testing::write_uneven_rows(folder, 23);
  arguments.output_dir = folder.path("out");
  arguments.per_device_train_batch_size = 4;
  arguments.learning_rate = 1e-3;
  arguments.lr_scheduler_type = "constant";
  arguments.save_strategy = "no";
  arguments.num_threads = 1;
  return arguments;
}

std::string weights_of(Trainer& trainer, const testing::TestFolder& folder) {
  trainer.save_model(folder.path("saved"));
  std::string text = testing::read_file(folder.path("saved") + "/model.safetensors");
  std::filesystem::remove_all(folder.path("saved"));
  return text;
}

// A custom loop must make the same steps as train(). The data has 23 rows, so the sixth batch of up to 4 rows
// has 3, and with two batches per step every third step ends an epoch.
TEST(OwnLoop, MakesTheTrainersStepsBitForBit) {
  for (const int64_t accumulation : {1, 2, 4}) {
    SCOPED_TRACE(accumulation);
    const testing::TestFolder folder("own_loop_same");
    Arguments arguments = uneven_arguments(folder);
    arguments.gradient_accumulation_steps = accumulation;
    arguments.max_steps = accumulation == 1 ? 14 : 8;
    Trainer whole(arguments);
    whole.train();
    const std::string expected = weights_of(whole, folder);
    ASSERT_FALSE(expected.empty());

    Trainer own(arguments);
    while (own.step() < arguments.max_steps) {
      bool ends = false;
      for (int64_t micro = 0; micro < accumulation && !ends; ++micro) {
        const Batch batch = own.next_batch();
        own.forward_backward(batch);
        ends = batch.last_in_epoch();
        EXPECT_EQ(ends, batch.epoch() == std::floor(batch.epoch()));
      }
      own.update(arguments.learning_rate);
    }
    EXPECT_TRUE(weights_of(own, folder) == expected);
  }
}

// Makes one step from `num_batches` batches, while gradient_accumulation_steps permits up to `accumulation`
// batches per step. Returns the norm of the gradient and the weights after the step.
std::pair<double, std::string> one_step(const testing::TestFolder& folder, int64_t accumulation,
                                        int num_batches) {
  Arguments arguments = uneven_arguments(folder, 0.0);
  arguments.gradient_accumulation_steps = accumulation;
  arguments.optim = "sgd";
  arguments.max_grad_norm = 0;
  Trainer trainer(arguments);
  for (int i = 0; i < num_batches; ++i) trainer.forward_backward(trainer.next_batch());
  const double norm = trainer.update(0.1);
  return {norm, weights_of(trainer, folder)};
}

// A step must be the mean over the samples that it really has, even if gradient_accumulation_steps permits more
// batches.
TEST(OwnLoop, FewerBatchesThanTheSettingWeighTheSame) {
  const testing::TestFolder folder("own_loop_weight");
  const auto [norm, weights] = one_step(folder, 2, 2);
  ASSERT_GT(norm, 0.0);
  // With half of the permitted samples, the gradient is scaled by a power of two, which rounds nothing, so the
  // bits must be equal.
  const auto [norm_of_4, weights_of_4] = one_step(folder, 4, 2);
  EXPECT_EQ(norm_of_4, norm);
  EXPECT_TRUE(weights_of_4 == weights);
  // With 8 of 12 permitted samples, the scaling rounds each gradient and the norm by at most 2^-24 of itself.
  EXPECT_NEAR(one_step(folder, 3, 2).first, norm, 4.0 * std::ldexp(norm, -24));
}

// A custom loop may ignore the end of an epoch. A step may then use the last 3 samples of one epoch and the
// first 4 of the next one, and must equal a step with one batch of these 7 samples.
TEST(OwnLoop, AStepOverTheEndOfAnEpochIsTheMeanOfItsSamples) {
  const testing::TestFolder folder("own_loop_over");
  Arguments arguments = uneven_arguments(folder, 0.0);
  arguments.train_sampling_strategy = "sequential";
  arguments.gradient_accumulation_steps = 2;
  arguments.max_grad_norm = 0;
  Trainer over(arguments);
  for (int i = 0; i < 5; ++i) over.next_batch();
  over.forward_backward(over.next_batch());
  over.forward_backward(over.next_batch());

  std::vector<std::string> lines;
  std::ifstream file(arguments.train_file);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 24u);
  arguments.train_file = folder.path("seven.csv");
  std::ofstream seven(arguments.train_file);
  for (const size_t line : {0, 21, 22, 23, 1, 2, 3, 4}) seven << lines[line] << "\n";
  seven.close();
  arguments.per_device_train_batch_size = 7;
  arguments.gradient_accumulation_steps = 1;
  Trainer at_once(arguments);
  at_once.forward_backward(at_once.next_batch());
  const double expected = at_once.update(0.0);
  ASSERT_GT(expected, 0.0);
  // The two steps add terms in another order. The norm of each may differ from exact arithmetic by 32 x 2^-24
  // of itself, which is what the test LargerBucket.ChangesRoundingOnly permits for fp32 gradients.
  EXPECT_NEAR(over.update(0.0), expected, 2 * 32 * 0x1p-24 * expected);
}

void expect_usage(const std::function<void()>& call, const std::string& words) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown; expected: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(OwnLoop, CallsInTheWrongOrderSayWhatToCallFirst) {
  const testing::TestFolder folder("own_loop_misuse");
  Arguments arguments = uneven_arguments(folder);
  arguments.gradient_accumulation_steps = 2;
  arguments.validation_file = arguments.train_file;
  Trainer trainer(arguments);
  EXPECT_EQ(trainer.profile_table(), "");
  expect_usage([&] { trainer.update(1e-3); }, "call forward_backward(batch) before each update()");
  expect_usage([&] { trainer.forward_backward(Batch()); }, "use a batch from next_batch()");
  Batch batch = trainer.next_batch();
  const Batch moved = std::move(batch);
  expect_usage([&] { trainer.forward_backward(batch); }, "moved from");
  Trainer other(arguments);
  expect_usage([&] { other.forward_backward(moved); }, "another Trainer");
  trainer.forward_backward(moved);
  expect_usage([&] { trainer.evaluate(); }, "call update() first");
  expect_usage([&] { trainer.predict(); }, "call update() first");
  expect_usage([&] { trainer.train(); }, "call update() first");
  expect_usage([&] { trainer.update(NAN); }, "the learning rate must be");
  trainer.forward_backward(moved);
  expect_usage([&] { trainer.forward_backward(moved); }, "--gradient_accumulation_steps is 2: call update()");
  trainer.update(1e-3);
  expect_usage([&] { trainer.update(1e-3); }, "call forward_backward(batch)");
  expect_usage([&] { trainer.predict(); }, "--do_predict");
  trainer.evaluate();
  trainer.forward_backward(trainer.next_batch());
  trainer.update(1e-3);
  EXPECT_EQ(trainer.step(), 2);
  trainer.save_model(folder.path("saved"));
  for (const Task task : {Task::kEvaluate, Task::kPredict}) {
    Arguments to_read = arguments;
    to_read.config_name.clear();
    to_read.test_file = arguments.train_file;
    to_read.model_name_or_path = folder.path("saved");
    Trainer reader(to_read, task);
    for (const auto& call : std::vector<std::function<void()>>{
             [&] { reader.next_batch(); }, [&] { reader.forward_backward(moved); },
             [&] { reader.update(1e-3); }, [&] { reader.train(); }}) {
      expect_usage(call, "Task::kTrain");
    }
  }
}

// The test implements the library's SGD as an update rule of its own. The weights must be almost equal: the
// library's kernel and the rule compute the same formula, but may round a product and a sum together or one after
// the other, which adds up to a few units in the last place over six steps.
TEST(OwnLoop, ARuleOfOnesOwnSeesGradientsWeightsAndStates) {
  for (const int64_t accumulation : {1, 2}) {
    SCOPED_TRACE(accumulation);
    const testing::TestFolder folder("own_rule");
    Arguments arguments = uneven_arguments(folder, 0.0);
    arguments.gradient_accumulation_steps = accumulation;
    arguments.optim = "sgd";
    arguments.optim_args = {{"momentum", "0.9"}};
    arguments.max_grad_norm = 0;
    arguments.max_steps = 6;
    Trainer theirs(arguments);
    Trainer ours(arguments);
    std::vector<std::vector<float>> weights[2];
    int64_t elements = 0;
    for (int step = 0; step < 6; ++step) {
      for (int64_t micro = 0; micro < accumulation; ++micro) {
        theirs.forward_backward(theirs.next_batch());
        ours.forward_backward(ours.next_batch());
      }
      theirs.update(1e-2);
      ours.update_by([&](const OwnParameter& parameter) {
        ASSERT_EQ(parameter.states.size(), 1u);
        ASSERT_EQ(parameter.gradients.size(), parameter.weights.size());
        for (size_t i = 0; i < parameter.weights.size(); ++i) {
          float& momentum = parameter.states[0][i];
          if (step == 0) {
            ASSERT_EQ(momentum, 0.0f) << parameter.name;
            ++elements;
          }
          momentum = 0.9f * momentum + parameter.gradients[i];
          parameter.weights[i] -= 1e-2f * momentum;
        }
      });
    }
    EXPECT_EQ(elements, ours.num_parameters());
    // An update rule can read the weights. This one changes nothing and copies the weights of both trainers.
    for (Trainer* trainer : {&theirs, &ours}) {
      trainer->forward_backward(trainer->next_batch());
      trainer->update_by([&](const OwnParameter& parameter) {
        weights[trainer == &ours].emplace_back(parameter.weights.begin(), parameter.weights.end());
      });
    }
    ASSERT_EQ(weights[0].size(), weights[1].size());
    ASSERT_FALSE(weights[0].empty());
    // In each of six steps on either side, a weight below 2 is rounded by at most 2^-24: 12 x 2^-24 = 7.2e-7.
    // Rounding of the momentum adds less than 1e-8, because it is multiplied by the learning rate of 1e-2.
    for (size_t k = 0; k < weights[0].size(); ++k) {
      for (size_t i = 0; i < weights[0][k].size(); ++i)
        ASSERT_NEAR(weights[1][k][i], weights[0][k][i], 1e-6) << k << " " << i;
    }
  }
}

TEST(OwnLoop, ARuleIsRefusedWhereItCannotWork) {
  const testing::TestFolder folder("own_rule_refused");
  Arguments arguments = uneven_arguments(folder);
  const UpdateRule rule = [](const OwnParameter&) { FAIL() << "it must not be called"; };
  Trainer early(arguments);
  expect_usage([&] { early.update_by(rule); }, "call forward_backward(batch) before each update_by()");
  arguments.optimizer_in_backward = true;
  arguments.max_grad_norm = 0;
  Trainer in_backward(arguments);
  in_backward.forward_backward(in_backward.next_batch());
  expect_usage([&] { in_backward.update_by(rule); }, "--optimizer_in_backward updates before");
  // A model whose tensors have at least 4096 elements, so that its optimizer states are stored in 8 bits.
  arguments = Arguments{};
  arguments.config_name = "MiniLM-L6-H384-uncased";
  arguments.dataset_name = "dummy";
  arguments.dummy_num_samples = 4;
  arguments.dummy_seq_length = 8;
  arguments.per_device_train_batch_size = 1;
  arguments.max_steps = 2;
  arguments.num_threads = 1;
  arguments.output_dir = folder.path("out");
  arguments.optim = "adamw_8bit";
  Trainer eight_bit(arguments);
  eight_bit.forward_backward(eight_bit.next_batch());
  expect_usage([&] { eight_bit.update_by(rule); }, "not stored in fp32: give --optim sgd");
}

// A run after a custom loop, and one after another run, start with empty optimizer states.
TEST(OwnLoop, TrainBeginsAnewAfterOtherSteps) {
  const testing::TestFolder folder("own_loop_anew");
  Arguments arguments = uneven_arguments(folder);
  arguments.max_steps = 3;
  Trainer first(arguments);
  first.train();
  EXPECT_EQ(first.step(), 3);
  first.save_model(folder.path("between"));
  EXPECT_EQ(first.train().step, 3);
  const std::string twice = weights_of(first, folder);
  Arguments second = arguments;
  second.config_name.clear();
  second.model_name_or_path = folder.path("between");
  Trainer fresh(second);
  fresh.train();
  EXPECT_TRUE(weights_of(fresh, folder) == twice);
}

// The plan has room for the batches of the planned epochs. If a custom loop continues longer, a batch may be
// larger than all of these. It must then be refused with a message that names a remedy.
TEST(OwnLoop, BatchesBeyondThePlanAreRefusedAtTheirTurn) {
  const testing::TestFolder folder("own_loop_beyond");
  Arguments arguments = uneven_arguments(folder);
  std::vector<int> turns;
  for (const int64_t workers : {0, 2}) {
    SCOPED_TRACE(workers);
    arguments.max_steps = 6;
    arguments.dataloader_num_workers = workers;
    Trainer trainer(arguments);
    int done = 0;
    expect_usage(
        [&] {
          for (; done < 3000; ++done) trainer.forward_backward(trainer.next_batch()), trainer.update(1e-4);
        },
        "--num_train_epochs or --max_steps");
    EXPECT_GE(done, 6);
    turns.push_back(done);
    // If max_steps includes this batch, the plan covers it, and the loop continues.
    arguments.max_steps = done + 1;
    Trainer planned(arguments);
    for (int i = 0; i <= done; ++i) planned.next_batch();
  }
  EXPECT_EQ(turns[0], turns[1]);
}

}  // namespace
}  // namespace plimsoll
