// Tests runs of masked language models: masks and losses must not depend on how a step is divided, the model
// must work with all training methods, the data must determine the task, and programs may mask tokens
// themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "device/cpu/cpu_features.h"
#include "io/ckpt/safetensors.h"
#include "plimsoll/data.h"
#include "plimsoll/trainer.h"
#include "tests/training/stable_log.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

using testing::read_file;
using testing::stable_log;
using testing::TestFolder;

const std::string& parity() {
  static const std::string path = PLIMSOLL_SOURCE_DIR "/tests/parity";
  return path;
}

// Returns the arguments of a run without dropout: eight steps, which is more than one epoch, on lines of
// different lengths.
Arguments arguments_of(const std::string& output, const std::string& model = "bert_mlm") {
  Arguments arguments;
  arguments.model_name_or_path = parity() + "/models/" + model;
  arguments.train_file = parity() + "/data/text.txt";
  arguments.validation_file = parity() + "/data/text.txt";
  arguments.max_train_samples = 40;
  arguments.max_eval_samples = 24;
  arguments.line_by_line = true;
  arguments.max_seq_length = 24;
  arguments.per_device_train_batch_size = 8;
  arguments.max_steps = 8;
  arguments.output_dir = output;
  arguments.learning_rate = 1e-3;
  arguments.lr_scheduler_type = "constant";
  arguments.logging_steps = 1;
  arguments.eval_strategy = "steps";
  arguments.eval_steps = 4;
  arguments.save_strategy = "no";
  arguments.num_threads = 2;
  if (const char* device = std::getenv("PLIMSOLL_TEST_DEVICE")) arguments.device = device;
  return arguments;
}

std::vector<double> values_of(const LogHistory& log, const std::string& key) {
  std::vector<double> values;
  for (const LogRecord& record : log) {
    if (const auto found = record.values.find(key); found != record.values.end())
      values.push_back(found->second);
  }
  return values;
}

void expect_near(const std::vector<double>& some, const std::vector<double>& others, double tolerance) {
  ASSERT_EQ(some.size(), others.size());
  for (size_t i = 0; i < some.size(); ++i) EXPECT_NEAR(some[i], others[i], tolerance * others[i]) << i;
}

// A step must use the same rows however they are divided into micro-batches, and its loss must be the mean over the hidden
// tokens of all rows. The results of an evaluation must not depend on its batch size.
TEST(MaskedRuns, LossesDoNotDependOnHowAStepIsDivided) {
  const TestFolder folder("masked_division");
  const LogHistory expected = Trainer(arguments_of(folder.path("whole"))).train().log_history;
  for (const int64_t accumulation : {2, 4, 8}) {
    SCOPED_TRACE(accumulation);
    Arguments arguments = arguments_of(folder.path("run"));
    arguments.per_device_train_batch_size = 8 / accumulation;
    arguments.gradient_accumulation_steps = accumulation;
    arguments.per_device_eval_batch_size = 8 / accumulation;
    const LogHistory log = Trainer(arguments).train().log_history;
    // Another division adds fp32 sums in another order, and AdamW's updates amplify the difference.
    expect_near(values_of(log, "loss"), values_of(expected, "loss"), 1e-5);
    expect_near(values_of(log, "eval_loss"), values_of(expected, "eval_loss"), 1e-5);
    EXPECT_EQ(values_of(log, "eval_accuracy"), values_of(expected, "eval_accuracy"));
  }
}

TEST(MaskedRuns, ResumingAndWorkersKeepEveryBit) {
  const TestFolder folder("masked_resume");
  Arguments whole = arguments_of(folder.path("whole"));
  whole.save_strategy = "steps";
  whole.save_steps = 1;
  whole.save_only_model = false;
  const TrainOutput expected = Trainer(whole).train();
  for (const int step : {2, 5, 7}) {
    SCOPED_TRACE(step);
    Arguments rest = whole;
    rest.output_dir = folder.path("rest" + std::to_string(step));
    rest.dataloader_num_workers = step % 3;
    rest.resume_from_checkpoint = whole.output_dir + "/checkpoint-" + std::to_string(step);
    EXPECT_EQ(stable_log(Trainer(rest).train().log_history), stable_log(expected.log_history));
    const std::string wanted = read_file(whole.output_dir + "/checkpoint-8/model.safetensors");
    ASSERT_FALSE(wanted.empty());
    EXPECT_TRUE(read_file(rest.output_dir + "/checkpoint-8/model.safetensors") == wanted);
  }
}

// Each training method must stay within its planned memory. Methods that do not change the mathematical result
// (such as recomputation) must give the same losses.
TEST(MaskedRuns, MethodsCombine) {
  struct Method {
    const char* name;
    std::function<void(Arguments&)> set;
    double tolerance;  // largest accepted difference of a loss; 0 if losses are not compared
  };
  const std::vector<Method> methods{
      {"chunked loss", [](Arguments& a) { a.chunked_loss = "always"; }, 1e-5},
      {"recomputation", [](Arguments& a) { a.recompute = "full"; }, 1e-5},
      {"update in the backward pass",
       [](Arguments& a) {
         a.optimizer_in_backward = true;
         a.max_grad_norm = 0;
       },
       0},
      {"bf16", [](Arguments& a) { a.bf16 = true; }, 0.03},
      {"8-bit AdamW", [](Arguments& a) { a.optim = "adamw_8bit"; }, 0.03},
      {"LoRA", [](Arguments& a) { a.lora_r = 4; }, 0},
      {"LoRA on all layers, bf16, accumulation",
       [](Arguments& a) {
         a.lora_r = 4;
         a.lora_target_modules = {"all-linear"};
         a.bf16 = true;
         a.gradient_accumulation_steps = 2;
       },
       0},
      {"label smoothing, accumulation, chunked loss, 8-bit AdamW, bf16",
       [](Arguments& a) {
         a.label_smoothing_factor = 0.1;
         a.gradient_accumulation_steps = 2;
         a.chunked_loss = "always";
         a.optim = "adamw_8bit";
         a.bf16 = true;
       },
       0},
      {"blocks, packed",
       [](Arguments& a) {
         a.line_by_line = false;
         a.packing = true;
       },
       0},
      {"freezing", [](Arguments& a) { a.freeze = {"bert.embeddings.*"}; }, 0},
  };
  const TestFolder folder("masked_methods");
  const LogHistory expected = Trainer(arguments_of(folder.path("none"))).train().log_history;
  for (const Method& method : methods) {
    SCOPED_TRACE(method.name);
    Arguments arguments = arguments_of(folder.path("run"));
    method.set(arguments);
    // A CPU without instructions for bf16 products refuses --bf16.
    if (arguments.bf16 && !arguments.device.starts_with("cuda") && !has_bf16_products(cpu_isa())) continue;
    Trainer trainer(arguments);
    const LogHistory log = trainer.train().log_history;
    const std::vector<double> losses = values_of(log, "loss");
    ASSERT_EQ(losses.size(), 8u);
    EXPECT_TRUE(std::ranges::all_of(losses, [](double loss) { return std::isfinite(loss) && loss > 1.0; }));
    if (method.tolerance > 0) expect_near(losses, values_of(expected, "loss"), method.tolerance);
    const MemoryFigures figures = trainer.memory();
    // The arena has memory for a label at every token, but the batches of this run have fewer labels, so the
    // end of the arena may stay unused. gradient_test.cc tests a batch with as many labels as possible.
    EXPECT_LE(figures.arena_high_water_bytes, figures.arena_bytes);
    EXPECT_LE(figures.arena_written_bytes, figures.arena_bytes);
  }
}

// The encoder of a masked language model can be trained as a classifier. With labelled rows a classifier is
// trained, whatever class the checkpoint names. Only with plain text does this class determine the task.
TEST(MaskedRuns, TheDataChoosesTheTaskOfACheckpoint) {
  const TestFolder folder("masked_choice");
  const auto write = [&](const char* name, const char* text) {
    std::ofstream(folder.path(name)) << text;
    return folder.path(name);
  };
  const auto task_of = [&](const std::string& file, const std::string& task_name = "") {
    Arguments arguments = arguments_of(folder.path("run"));
    arguments.line_by_line = false;
    arguments.train_file = file;
    arguments.validation_file.clear();
    arguments.eval_strategy = "no";
    arguments.task_name = task_name;
    return Trainer(arguments).plan().run.task;
  };
  EXPECT_EQ(task_of(parity() + "/data/text.txt"), "masked language modelling");
  EXPECT_EQ(task_of(write("a.csv", "text,label\na b,0\nc d,1\n")), "sequence classification");
  EXPECT_EQ(task_of(write("tags.txt", "the DT\nkernel NN\n\na DT\nmodule NN\n")), "token classification");
  EXPECT_EQ(task_of(write("words.txt", "the\nkernel\n")), "masked language modelling");
  EXPECT_EQ(task_of(parity() + "/data/tokens.jsonl"), "token classification");

  Arguments arguments = arguments_of(folder.path("trained"));
  Trainer trainer(arguments);
  trainer.train();
  trainer.save_model(folder.path("trained"));
  Arguments evaluation = arguments_of(folder.path("evaluated"));
  evaluation.model_name_or_path = folder.path("trained");
  evaluation.train_file.clear();
  const MetricMap metrics = Trainer(evaluation, Task::kEvaluate).evaluate();
  EXPECT_TRUE(metrics.contains("eval_perplexity"));
  evaluation.validation_file = write("rows.jsonl", "{\"text\": \"the kernel module\"}\n");
  EXPECT_TRUE(Trainer(evaluation, Task::kEvaluate).evaluate().contains("eval_perplexity"));
}

// Copies a model and renames its tensors. `names` returns the new names of a tensor: none removes it, and several store it several times.
using Names = std::function<std::vector<std::string>(const std::string& name)>;
std::string renamed(const TestFolder& folder, const std::string& model, const std::string& to,
                    const Names& names) {
  namespace fs = std::filesystem;
  fs::create_directories(folder.path(to));
  fs::copy(parity() + "/models/" + model, folder.path(to), fs::copy_options::recursive);
  FileSystem& files = posix_file_system();
  const SafetensorsFile file =
      SafetensorsFile::open(files, parity() + "/models/" + model + "/model.safetensors");
  std::vector<std::vector<float>> values;
  std::vector<TensorSource> tensors;
  for (const StoredTensor& tensor : file.tensors()) {
    values.emplace_back(static_cast<size_t>(tensor.num_elements()));
    file.read(tensor, {values.back().data(), DType::kF32});
    for (const std::string& name : names(tensor.name))
      tensors.push_back({.name = name, .shape = tensor.shape, .data = values.back().data()});
  }
  write_safetensors(files, folder.path(to) + "/model.safetensors", tensors);
  return folder.path(to);
}

// Versions of transformers and conversions from TensorFlow name the tensors of a head differently, and store tied ones or
// leave them out.
TEST(MaskedRuns, FilesOfOtherVersionsGiveTheSameLoss) {
  const TestFolder folder("masked_files");
  const auto loss_of = [&](const std::string& model) {
    Arguments arguments = arguments_of(folder.path("run"));
    arguments.model_name_or_path = model;
    arguments.train_file.clear();
    return Trainer(arguments, Task::kEvaluate).evaluate().at("eval_loss");
  };
  const auto replaced = [](std::string name, const std::string& what, const std::string& by) {
    const size_t at = name.find(what);
    return at == std::string::npos ? name : name.replace(at, what.size(), by);
  };
  const std::string bias = "cls.predictions.bias";
  const std::string decoder_bias = "cls.predictions.decoder.bias";
  const std::string decoder = "cls.predictions.decoder.weight";
  const double tied = loss_of(parity() + "/models/bert_mlm");
  const std::vector<Names> of_tied{[&](const std::string& name) -> std::vector<std::string> {
                                     if (name == bias) return {bias, decoder_bias};
                                     if (name.ends_with("word_embeddings.weight")) return {name, decoder};
                                     return {name};
                                   },
                                   [&](const std::string& name) -> std::vector<std::string> {
                                     return {name == bias ? decoder_bias : name};
                                   },
                                   [&](const std::string& name) -> std::vector<std::string> {
                                     return {replaced(replaced(name, "LayerNorm.weight", "LayerNorm.gamma"),
                                                      "LayerNorm.bias", "LayerNorm.beta")};
                                   },
                                   [&](const std::string& name) -> std::vector<std::string> {
                                     return {name.starts_with("bert.") ? name.substr(5) : name};
                                   },
                                   [&](const std::string& name) -> std::vector<std::string> {
                                     if (name == bias) return {bias, "cls.seq_relationship.bias"};
                                     return {name};
                                   }};
  for (size_t i = 0; i < of_tied.size(); ++i)
    EXPECT_EQ(loss_of(renamed(folder, "bert_mlm", "tied" + std::to_string(i), of_tied[i])), tied) << i;
  const double untied = loss_of(parity() + "/models/bert_untied_mlm");
  EXPECT_EQ(loss_of(renamed(folder, "bert_untied_mlm", "untied",
                            [&](const std::string& name) -> std::vector<std::string> {
                              if (name == bias) return {};
                              return {name};
                            })),
            untied);
  EXPECT_EQ(loss_of(renamed(folder, "bert_untied_mlm", "untied4",
                            [&](const std::string& name) -> std::vector<std::string> {
                              if (name == bias) return {};
                              return {name == decoder_bias ? bias : name};
                            })),
            untied);
}

// A program may mask tokens itself: the classes of its rows are the original ids of the masked tokens.
TEST(MaskedRuns, RowsMaskedByTheProgram) {
  const TestFolder folder("masked_rows");
  Arguments arguments = arguments_of(folder.path("run"));
  arguments.train_file.clear();
  arguments.validation_file.clear();
  arguments.eval_strategy = "no";
  arguments.line_by_line = false;
  arguments.problem_type = "masked_lm";
  arguments.do_eval = true;
  Trainer trainer(arguments, TrainerParts{.data = MemoryData{}});
  const std::vector<int32_t> ids{2, 90, 4, 92, 3};
  const auto loss_of = [&](std::vector<int32_t> classes) {
    DataRow row{.ids = ids};
    row.classes = std::move(classes);
    return trainer.forward(trainer.make_batch({row})).loss;
  };
  const std::optional<double> loss = loss_of({kNoLabel, kNoLabel, 91, kNoLabel, kNoLabel});
  ASSERT_TRUE(loss.has_value());
  EXPECT_GT(*loss, 0.0);
  EXPECT_NE(*loss, *loss_of({kNoLabel, kNoLabel, 95, kNoLabel, kNoLabel}));
  const std::string message = testing::refusal(
      [&] {
        loss_of({kNoLabel, kNoLabel, 179, kNoLabel, kNoLabel});
      },
      ErrorCode::kBadData);
  EXPECT_NE(message.find("179"), std::string::npos) << message;
  // A row without labels gets random masks, so the losses of two batches with the same rows differ.
  DataRow plain{.text = "the kernel module is a small library for the secure shell of the system"};
  EXPECT_NE(*trainer.forward(trainer.make_batch({plain, plain, plain})).loss,
            *trainer.forward(trainer.make_batch({plain, plain, plain})).loss);
}

}  // namespace
}  // namespace plimsoll
