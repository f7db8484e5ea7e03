#include "tests/truth/random_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <stdexcept>
#include <utility>

#include "base/file.h"
#include "base/units.h"
#include "plan/compile/plan.h"
#include "plimsoll/arguments.h"
#include "plimsoll/trainer.h"
#include "run/run_setup.h"
#include "tests/bad_input/binary.h"

namespace plimsoll::testing {
namespace {

struct Shape {
  bool is_bert = true;
  int64_t heads = 1;
  int64_t hidden = 0;
  int64_t layers = 1;
  int64_t intermediate = 0;
  int64_t vocabulary = 0;
};

Shape draw_shape(Draw& draw) {
  Shape shape;
  shape.heads = draw.between(1, 4);
  shape.hidden = shape.heads * 8 * draw.between(1, 6);
  shape.layers = draw.between(1, 4);
  shape.intermediate = 8 * draw.between(2, 50);
  shape.is_bert = draw.coin();
  shape.vocabulary = draw.between(150, 3000);
  return shape;
}

// Draws a deep model, whose captured CUDA graphs need considerable memory. Models of the size of BERT-base and larger
// are excluded, because creating and saving their weights takes too long.
Shape draw_deep_shape(Draw& draw) {
  constexpr int64_t kMostParameters = 160'000'000;
  Shape shape;
  do {
    shape.layers = draw.between(12, 24);
    shape.hidden = 128 * draw.between(2, 8);
  } while (12 * shape.layers * shape.hidden * shape.hidden > kMostParameters);
  shape.heads = shape.hidden / 64;
  shape.intermediate = 4 * shape.hidden;
  shape.is_bert = draw.coin();
  shape.vocabulary = draw.between(1000, 8000);
  return shape;
}

std::string config_of(const Shape& shape) {
  if (shape.is_bert) {
    return fmt::format(
        R"({{"model_type": "bert", "vocab_size": {}, "hidden_size": {}, "num_hidden_layers": {}, )"
        R"("num_attention_heads": {}, "intermediate_size": {}, "max_position_embeddings": 128}})",
        shape.vocabulary, shape.hidden, shape.layers, shape.heads, shape.intermediate);
  }
  return fmt::format(
      R"({{"model_type": "distilbert", "vocab_size": {}, "dim": {}, "n_layers": {}, "n_heads": {}, )"
      R"("hidden_dim": {}, "max_position_embeddings": 128}})",
      shape.vocabulary, shape.hidden, shape.layers, shape.heads, shape.intermediate);
}

void write_vocabulary(const TestFolder& folder) {
  std::ofstream vocabulary(folder.path("model") + "/vocab.txt");
  vocabulary << "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (char letter = 'a'; letter <= 'z'; ++letter) vocabulary << letter << "\n";
}

// Writes rows of 1 to `longest` words, so that batches have several padded sizes (buckets). Returns the data file.
std::string write_texts(const std::string& path, Draw& draw, int64_t num_rows, int64_t longest,
                        int64_t num_labels) {
  std::ofstream rows(path);
  rows << "sentence\tlabel\n";
  for (int64_t row = 0; row < num_rows; ++row) {
    const int64_t words = draw.between(1, longest);
    for (int64_t i = 0; i < words; ++i) rows << static_cast<char>('a' + draw.between(0, 25)) << ' ';
    rows << "\tLABEL_" << row % num_labels << "\n";
  }
  return path;
}

Words dummy_arguments(int64_t num_rows, int64_t length, int64_t num_labels) {
  Words words{"--dataset_name", "dummy"};
  append(words, "dummy_num_samples", num_rows);
  append(words, "dummy_seq_length", length);
  append(words, "num_labels", num_labels);
  return words;
}

// Adds one of three settings at random: evaluations during training, whose memory is included in memory.json;
// an evaluation at the end of the run; or no evaluation.
void append_evaluation(Words& words, Draw& draw, const Words& strategy) {
  if (draw.coin()) {
    append(words, strategy);
  } else if (draw.coin()) {
    words.emplace_back("--do_eval");
  }
}

// Draws the training data, the number of steps or epochs, and the batch sizes.
Words draw_training(const TestFolder& folder, Draw& draw) {
  const int64_t num_rows = draw.between(20, 60);
  const int64_t length = draw.between(3, 100);
  const int64_t num_labels = draw.between(2, 5);
  Words words;
  if (draw.coin()) {
    words = dummy_arguments(num_rows, length, num_labels);
    const int64_t max_steps = draw.between(1, 4);
    append(words, "max_steps", max_steps);
    append_evaluation(words, draw, {"--eval_strategy", "steps", "--eval_steps", std::to_string(max_steps)});
  } else {
    // The run must have a complete epoch, so that it reaches its largest batch.
    append(words, "num_train_epochs", 1);
    const int64_t num_other_rows = draw.between(num_labels, 20);
    const int64_t other_length = draw.between(3, 120);
    write_vocabulary(folder);
    append(words,
           {"--tokenizer_name", folder.path("model"), "--train_file",
            write_texts(folder.path("texts.tsv"), draw, num_rows, length, num_labels), "--validation_file",
            write_texts(folder.path("others.tsv"), draw, num_other_rows, other_length, num_labels)});
    if (draw.coin()) append(words, {"--train_sampling_strategy", "group_by_length"});
    append_evaluation(words, draw, {"--eval_strategy", "epoch"});
  }
  append(words, "per_device_train_batch_size", draw.between(1, 9));
  append(words, "per_device_eval_batch_size", draw.between(1, 12));
  if (draw.coin()) append(words, {"--save_strategy", "no"});
  return words;
}

// Draws a run whose batches all have the same size, with enough steps for forward, backward and update to
// be captured and replayed as CUDA graphs.
Words draw_deep_training(Draw& draw) {
  const int64_t length = draw.between(16, 128);
  Words words = dummy_arguments(24, length, draw.between(2, 5));
  append(words, "max_steps", draw.between(3, 4));
  append(words, "per_device_train_batch_size", draw.between(1, 4));
  append(words, "per_device_eval_batch_size", draw.between(1, 4));
  append(words, {"--save_strategy", "no"});
  append_evaluation(words, draw, {"--eval_strategy", "steps", "--eval_steps", "2"});
  return words;
}

Words draw_evaluation(const TestFolder& folder, Draw& draw) {
  const int64_t num_rows = draw.between(20, 60);
  const int64_t length = draw.between(3, 120);
  constexpr int64_t num_labels = 2;  // the default labels of a model whose config.json defines none
  write_vocabulary(folder);
  Words words{"--tokenizer_name", folder.path("model"), "--validation_file",
              write_texts(folder.path("texts.tsv"), draw, num_rows, length, num_labels)};
  append(words, "per_device_eval_batch_size", draw.between(1, 32));
  return words;
}

// Writes weights for the configuration in the folder of the model, because only a model with weights can be evaluated.
void write_weights(const TestFolder& folder) {
  const Words words{"--device",
                    "cpu",
                    "--config_name",
                    folder.path("model"),
                    "--dataset_name",
                    "dummy",
                    "--dummy_num_samples",
                    "1",
                    "--dummy_seq_length",
                    "8",
                    "--num_labels",
                    "2",
                    "--max_steps",
                    "1",
                    "--save_strategy",
                    "no",
                    "--output_dir",
                    folder.path("trained")};
  Trainer trainer(parse_arguments(words).arguments);
  trainer.train();
  trainer.save_model(folder.path("model"));
}

RunPurpose purpose_of(const Words& words) {
  return words.front() == "eval" ? RunPurpose::kEvaluate : RunPurpose::kTrain;
}

Plan plan_of(const Words& words) {
  const Arguments arguments = parse_arguments({words.begin() + 1, words.end()}).arguments;
  return build_plan(prepare_run(arguments, purpose_of(words), {}, posix_file_system()).request);
}

// Plans a run with these arguments. Returns the error message if the program refuses them, otherwise an empty string.
std::string refusal_of(const Words& words) {
  try {
    plan_of(words);
    return {};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUsage) throw;
    return error.what();
  }
}

}  // namespace

RunsOn device_of_tests() {
  return std::getenv("PLIMSOLL_TEST_DEVICE") != nullptr ? RunsOn::kGpu : RunsOn::kCpu;
}

RandomRun random_run(const TestFolder& folder, uint64_t seed, uint64_t number, RunsOn device) {
  constexpr int kMostDraws = 40;
  Draw draw(seed, number);
  const bool on_gpu = device == RunsOn::kGpu;
  const bool only_evaluates = on_gpu && number % 8 == 5;
  // On a GPU, a quarter of the training runs have deep models. The precision of a run is determined by number %
  // 6; the formula selects runs with each of the six precisions.
  const bool is_deep = on_gpu && !only_evaluates && (number % 6 + number / 6) % 4 == 0;
  std::filesystem::create_directories(folder.path("model"));
  const Shape shape = is_deep ? draw_deep_shape(draw) : draw_shape(draw);
  std::ofstream(folder.path("model") + "/config.json") << config_of(shape);
  if (only_evaluates) write_weights(folder);
  Words words{only_evaluates ? "eval" : "train",
              "--device",
              on_gpu ? "cuda:0" : "cpu",
              only_evaluates ? "--model_name_or_path" : "--config_name",
              folder.path("model"),
              "--output_dir",
              folder.path("out")};
  append(words, only_evaluates ? draw_evaluation(folder, draw)
                : is_deep      ? draw_deep_training(draw)
                               : draw_training(folder, draw));
  append(words, "num_threads", draw.between(1, 2));
  append(words, "seed", draw.between(0, 1000));
  if (!only_evaluates) {
    append(words, {"--logging_steps", "1"});
    append(words, "dataloader_num_workers", draw.between(0, 2));
  }
  RandomRun run;
  for (;;) {
    Words methods = only_evaluates ? evaluation_words_of(number / 8) : method_words_of(device, number);
    if (!only_evaluates) append(methods, draw_method_arguments(device, draw));
    ++run.num_draws;
    run.words = words;
    append(run.words, methods);
    run.summary = fmt::format("{} {} {} x {}, {}", words.front(), shape.is_bert ? "bert" : "distilbert",
                              shape.layers, shape.hidden, fmt::join(methods, " "));
    const std::string why = refusal_of(run.words);
    if (why.empty()) return run;
    if (run.num_draws == kMostDraws) {
      throw std::runtime_error(
          fmt::format("{} draws of methods for run {} of seed {} were refused, the last: {}", kMostDraws,
                      number, seed, why));
    }
  }
}

namespace {

// Plans the run in this process from the same arguments and stores the planned sizes in `truth`. Returns the
// UUID of the GPU, or an empty string for a CPU.
std::string add_plan(const Words& words, MemoryTruth& truth) {
  const Arguments arguments = parse_arguments({words.begin() + 1, words.end()}).arguments;
  const Plan plan = plan_of(words);
  truth.is_on_gpu = plan.is_on_gpu();
  truth.has_memory_file = purpose_of(words) == RunPurpose::kTrain;
  truth.evaluates_last = truth.has_memory_file && arguments.do_eval;
  truth.planned_arena_bytes = plan.arena_bytes;
  truth.planned_total_bytes = plan.total_bytes();
  truth.planned_graph_bytes = plan.gpu_constant.graph_bytes();
  truth.tensors_end = truth.ran_end = plan.persistent_bytes;
  const bool evaluates_before = !truth.has_memory_file || arguments.eval_strategy != "no";
  for (const ProgramPlan& program : plan.programs) {
    if (program.name == kEvaluateProgram && !evaluates_before) continue;
    truth.ran_end = std::max(truth.ran_end, plan.persistent_bytes + program.transient_bytes);
    for (const TransientBuffer& buffer : program.buffers) {
      if (buffer.root == kNoValue) continue;
      truth.tensors_end = std::max(truth.tensors_end, buffer.offset + buffer.bytes);
    }
  }
  return plan.request.device.gpu.uuid;
}

double mib(int64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(kMiB);
}

// The driver allocates GPU memory in units of two MiB.
constexpr int64_t kPiece = 2 * kMiB;

void expect_held(const MemoryTruth& truth) {
  ASSERT_TRUE(truth.held.has_value());
  const GpuHeld& held = *truth.held;
  ASSERT_GT(held.num_readings, 0) << "NVML was not read while the run was on";
  const int64_t others = std::abs(held.after_bytes - held.before_bytes);
  ASSERT_LE(others, kPiece) << fmt::format(
      "others held {:.1f} MiB of the card before the run and {:.1f} after it: NVML counts the whole card, so "
      "the "
      "comparison needs one where nobody else takes or gives back memory",
      mib(held.before_bytes), mib(held.after_bytes));
  const int64_t planned = truth.planned_total_bytes;
  const std::string figures = fmt::format(
      "{} ({} readings, {:.1f} ms apart at most); of the plan {:.1f} MiB are the arena and {:.1f} captured "
      "programs",
      describe_held(truth), held.num_readings, held.longest_gap_ms, mib(truth.planned_arena_bytes),
      mib(truth.planned_graph_bytes));
  EXPECT_LE(held.most_bytes, planned) << "the card held more than was planned: " << figures;
  EXPECT_GE(held.most_bytes, planned - std::max<int64_t>(planned / 100, 64 * kMiB))
      << "the card held less than was planned by more than 1 % and 64 MiB: " << figures;
  if (!truth.has_memory_file) return;
  EXPECT_GE(held.most_bytes + kPiece, truth.measured_bytes)
      << "the run says that it held more than was seen from outside: " << figures;
  // An evaluation at the end of the run loads further kernels, and the run has already measured its memory.
  // The maximum is therefore not compared with that measurement.
  if (truth.evaluates_last) return;
  EXPECT_LE(held.most_bytes, truth.measured_bytes + truth.planned_graph_bytes + kPiece)
      << "what the run held at its end is not the most that it held: " << figures;
}

}  // namespace

MemoryTruth memory_of(const TestFolder& folder, const Words& words) {
  constexpr int kLimitMs = 600000;
  std::filesystem::remove_all(folder.path("out"));
  MemoryTruth truth;
  const std::string uuid = add_plan(words, truth);
  std::optional<GpuGauge> gauge;
  if (truth.is_on_gpu) gauge.emplace(uuid);
  const ProcessResult result = run_plimsoll(words, folder.path("log"), kLimitMs);
  if (gauge) truth.held = gauge->stop();
  EXPECT_EQ(result.exit_code, 0) << result.output;
  if (!truth.has_memory_file) return truth;
  const std::string text = read_file(folder.path("out") + "/memory.json");
  truth.arena_bytes = json_integer(text, "arena_bytes");
  truth.high_water_bytes = json_integer(text, "arena_high_water_bytes");
  truth.written_bytes = json_integer(text, "arena_written_bytes");
  truth.constant_bytes = json_integer(text, "constant_bytes");
  truth.predicted_bytes = json_integer(text, "predicted_total_bytes");
  truth.measured_bytes = json_integer(text, "measured_peak_bytes");
  return truth;
}

void expect_truth(const MemoryTruth& truth) {
  if (truth.is_on_gpu) expect_held(truth);
  if (!truth.has_memory_file) return;
  ASSERT_TRUE(truth.ok()) << "memory.json is missing or incomplete";
  EXPECT_EQ(truth.predicted_bytes, truth.arena_bytes + truth.constant_bytes);
  EXPECT_EQ(truth.arena_bytes, truth.planned_arena_bytes);
  EXPECT_EQ(truth.high_water_bytes, truth.ran_end);
  EXPECT_GE(truth.written_bytes, truth.tensors_end);
  EXPECT_LE(truth.measured_bytes, truth.predicted_bytes);
  if (!truth.is_on_gpu) return;
  EXPECT_EQ(truth.predicted_bytes, truth.planned_total_bytes);
  // The measured memory may be less than the predicted memory by at most 1 % or 64 MiB, whichever is larger.
  const int64_t slack = std::max<int64_t>(truth.predicted_bytes / 100, 64 * kMiB);
  EXPECT_GE(truth.measured_bytes, truth.predicted_bytes - slack);
}

std::string describe_held(const MemoryTruth& truth) {
  std::string text = fmt::format("planned {:.1f} MiB, held {:.1f} at most", mib(truth.planned_total_bytes),
                                 mib(truth.held ? truth.held->most_bytes : truth.measured_bytes));
  if (truth.has_memory_file) text += fmt::format(", {:.1f} at the end", mib(truth.measured_bytes));
  return text;
}

}  // namespace plimsoll::testing
