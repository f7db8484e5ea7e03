// Tests runs of several processes that are the stages of a pipeline. They must train, evaluate and save like
// one process, and resume on any number of processes. The tests run on CPUs, or on two GPUs if
// PLIMSOLL_TEST_DEVICE is set (CMakeLists.txt).
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/bad_input/binary.h"
#include "tests/ranks/rank_processes.h"
#include "tests/support/places.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {
namespace {

using Words = std::vector<std::string>;

void expect_within(const std::vector<double>& found, const std::vector<double>& wanted, double relative) {
  ASSERT_EQ(found.size(), wanted.size());
  ASSERT_FALSE(wanted.empty());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], wanted[i], relative * std::abs(wanted[i])) << "record " << i;
}

int64_t num_lines(const std::string& path) {
  const std::string text = read_file(path);
  return std::ranges::count(text, '\n');
}

// The largest accepted relative difference of logged values. Stages add the terms of a sum in another order
// than one process, and later steps carry these rounding differences on through the weights.
constexpr double kRelative = 1e-5;

std::string fixture(const std::string& name) {
  return place("PLIMSOLL_SOURCE", PLIMSOLL_SOURCE_DIR) + "/src/io/data/fixtures/clm/" + name;
}

// Returns the arguments of a run with this number of pipeline stages and of processes. The processes together
// run `batches` micro-batches per step.
Words pipeline_words(Words words, const std::string& run, int stages, int processes, int batches, int steps,
                     const Words& more) {
  words.insert(words.begin(), "train");
  const int accumulation = batches / (processes / stages);
  words.insert(words.end(), {"--device",
                             on_gpus() ? "auto" : "cpu",
                             "--num_threads",
                             "1",
                             "--output_dir",
                             run,
                             "--nproc_per_node",
                             std::to_string(processes),
                             "--pp_size",
                             std::to_string(stages),
                             "--gradient_accumulation_steps",
                             std::to_string(accumulation),
                             "--max_steps",
                             std::to_string(steps),
                             "--logging_steps",
                             "1",
                             "--learning_rate",
                             "0.05",
                             "--lr_scheduler_type",
                             "constant",
                             "--per_device_train_batch_size",
                             "2"});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The number of pipeline stages and the number of processes of a run.
struct Shape {
  int stages, processes;
};

// Returns those of the given combinations that this test can run. On GPUs these have at most two processes.
std::vector<Shape> possible(std::vector<Shape> shapes) {
  if (on_gpus()) std::erase_if(shapes, [](const Shape& shape) { return shape.processes > 2; });
  return shapes;
}

// Return the arguments for the two models of these tests: a classifier with dropout on random data, and a
// language model whose head is tied to the word embeddings.
Words classifier_words(const TestFolder& folder) {
  std::filesystem::create_directories(folder.path("classifier"));
  std::ofstream(folder.path("classifier/config.json"))
      << R"({"model_type": "bert", "vocab_size": 150, "hidden_size": 16, "num_hidden_layers": 4,
    "num_attention_heads": 2, "intermediate_size": 48, "max_position_embeddings": 32, "num_labels": 3})";
  return {"--config_name",       folder.path("classifier"),
          "--dataset_name",      "dummy",
          "--dummy_num_samples", "22",
          "--dummy_seq_length",  "12"};
}
Words language_words() {
  return {"--config_name",      "gpt2",
          "--config_overrides", "n_layer=4,n_embd=16,n_head=2,vocab_size=420,n_positions=64",
          "--problem_type",     "causal_lm",
          "--train_file",       fixture("lines.txt"),
          "--tokenizer_name",   fixture("plain"),
          "--block_size",       "16"};
}

std::string run_or_fail(const Words& words, const TestFolder& folder) {
  const ProcessResult result = run_plimsoll(words, folder.path("log"));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return result.output;
}

void expect_same_file(const std::string& a, const std::string& b, const std::string& file) {
  const std::string bytes = read_file(a + file);
  EXPECT_FALSE(bytes.empty()) << a << file;
  EXPECT_TRUE(read_file(b + file) == bytes) << file << " of " << a << " and " << b;
}

// Every stage computes with the same kernels in the same order as one process, and without clipping the update does not read the norm,
// so that weights and states have the same bits. On a GPU a kernel may compute the end of a layer and the beginning of the next one
// together, so that the boundary of two stages changes the order of sums.
TEST(PipelineRuns, AClassifierHasTheBitsOfOneProcess) {
  if (on_gpus()) GTEST_SKIP() << "GPUs round differently at the boundary of two stages";
  const TestFolder folder("pipeline_bits");
  const Words model = classifier_words(folder);
  const Words more{"--optim",      "adamw_torch", "--max_grad_norm",   "0",
                   "--save_steps", "2",           "--save_only_model", "False"};
  const std::string one = folder.path("one");
  run_or_fail(pipeline_words(model, one, 1, 1, 4, 4, more), folder);
  for (const std::string schedule : {"gpipe", "1f1b", "interleaved"}) {
    for (const int stages : {2, 4}) {
      // Four stages of two chunks each (the interleaved schedule) need at least eight layers, but this model has four.
      if (schedule == "interleaved" && stages == 4) continue;
      SCOPED_TRACE(schedule + ", " + std::to_string(stages) + " stages");
      const std::string run = folder.path(schedule + std::to_string(stages));
      Words with_schedule = more;
      with_schedule.insert(with_schedule.end(), {"--pipeline_schedule", schedule});
      run_or_fail(pipeline_words(model, run, stages, stages, 4, 4, with_schedule), folder);
      EXPECT_EQ(logged_values(run, "loss"), logged_values(one, "loss"));
      expect_within(logged_values(run, "grad_norm"), logged_values(one, "grad_norm"), kRelative);
      EXPECT_EQ(logged_values(run, "epoch"), logged_values(one, "epoch"));
      for (const std::string checkpoint : {"/checkpoint-2", "/checkpoint-4"}) {
        for (const std::string file : {"/model.safetensors", "/optimizer.safetensors"})
          expect_same_file(run, one, checkpoint + file);
      }
      expect_same_file(run, one, "/model.safetensors");
    }
  }
}

TEST(PipelineRuns, ALanguageModelMakesTheStepsOfOneProcess) {
  const TestFolder folder("pipeline_language");
  const Words more{"--optim", "sgd", "--optim_args", "momentum=0.9", "--max_grad_norm", "0.5"};
  const std::string one = folder.path("one");
  run_or_fail(pipeline_words(language_words(), one, 1, 1, 4, 6, more), folder);
  for (const Shape& shape : possible({{2, 2}, {4, 4}, {2, 4}})) {
    SCOPED_TRACE(std::to_string(shape.stages) + " stages, " + std::to_string(shape.processes) + " processes");
    const std::string run = folder.path(std::to_string(shape.stages) + "_" + std::to_string(shape.processes));
    run_or_fail(pipeline_words(language_words(), run, shape.stages, shape.processes, 4, 6, more), folder);
    expect_within(logged_values(run, "loss"), logged_values(one, "loss"), kRelative);
    expect_within(logged_values(run, "grad_norm"), logged_values(one, "grad_norm"), kRelative);
  }
}

// Checkpoints contain whole weights and states, so a run can be resumed with another number of stages.
TEST(PipelineRuns, ResumeOnAnyNumberOfProcesses) {
  const TestFolder folder("pipeline_resume");
  const Words more{"--optim",
                   "sgd",
                   "--optim_args",
                   "momentum=0.9",
                   "--save_steps",
                   "1",
                   "--save_only_model",
                   "False",
                   "--resume_from_checkpoint",
                   "True"};
  const std::string one = folder.path("one"), several = folder.path("several");
  run_or_fail(pipeline_words(language_words(), one, 1, 1, 4, on_gpus() ? 4 : 8, more), folder);
  int steps = 2;
  for (const Shape& shape : possible({{1, 1}, {2, 2}, {2, 4}, {4, 4}})) {
    // The run is resumed with other numbers of stages and processes. With two stages on four processes, each stage also
    // has two chunks of layers.
    Words with_schedule = more;
    if (shape.processes == 4 && shape.stages == 2)
      with_schedule.insert(with_schedule.end(), {"--pipeline_schedule", "interleaved"});
    run_or_fail(
        pipeline_words(language_words(), several, shape.stages, shape.processes, 4, steps, with_schedule),
        folder);
    steps += 2;
  }
  expect_within(logged_values(several, "loss"), logged_values(one, "loss"), kRelative);
  expect_within(logged_values(several, "grad_norm"), logged_values(one, "grad_norm"), kRelative);
}

// If one stage is killed, the other one ends at once, and both are started again from the last checkpoint.
TEST(PipelineRuns, ContinueAfterAStageWasKilled) {
  const TestFolder folder("pipeline_killed");
  const Words more{"--optim",      "sgd", "--optim_args",      "momentum=0.9", "--max_restarts",     "1",
                   "--save_steps", "2",   "--save_only_model", "False",        "--save_total_limit", "2"};
  constexpr int kSteps = 60;
  const std::string whole = folder.path("whole"), killed = folder.path("killed");
  run_or_fail(pipeline_words(language_words(), whole, 2, 2, 4, kSteps, more), folder);
  Process process(pipeline_words(language_words(), killed, 2, 2, 4, kSteps, more), folder.path("log"));
  wait_for(process, killed + "/checkpoint-4");
  const std::vector<pid_t> ranks = ranks_of(process);
  ASSERT_EQ(ranks.size(), 2u) << process.output();
  kill(ranks[1], SIGKILL);
  const ProcessResult result = process.wait(60'000);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("warning: restart 1 of 1 after the failure of rank 1: resuming from "),
            std::string::npos)
      << result.output;
  expect_same_file(killed, whole, "/model.safetensors");
}

// In an evaluation the last stage computes the outputs, and rank 0 writes them. The results must be those of
// one process.
TEST(PipelineRuns, EvaluateLikeOneProcess) {
  const TestFolder folder("pipeline_evaluate");
  const std::string model = write_tiny_model(folder);
  const std::string rows = write_uneven_rows(folder, 23);
  const Words words{"--config_name",
                    model,
                    "--tokenizer_name",
                    model,
                    "--train_file",
                    rows,
                    "--validation_file",
                    rows,
                    "--test_file",
                    rows,
                    "--eval_strategy",
                    "steps",
                    "--eval_steps",
                    "1",
                    "--per_device_eval_batch_size",
                    "4"};
  const Words more{"--optim", "sgd", "--max_grad_norm", "0"};
  const std::string one = folder.path("one");
  run_or_fail(pipeline_words(words, one, 1, 1, 4, 3, more), folder);
  for (const Shape& shape : possible({{2, 2}, {2, 4}})) {
    const std::string run = folder.path(std::to_string(shape.processes));
    run_or_fail(pipeline_words(words, run, shape.stages, shape.processes, 4, 3, more), folder);
    expect_within(logged_values(run, "eval_loss"), logged_values(one, "eval_loss"), kRelative);
    EXPECT_EQ(logged_values(run, "eval_accuracy"), logged_values(one, "eval_accuracy"));
    EXPECT_EQ(num_lines(run + "/predict_results.txt"), num_lines(one + "/predict_results.txt"));
    if (!on_gpus()) expect_same_file(run, one, "/predict_results.txt");
  }
}

// Each refusal names the argument, the reason, and what to do.
TEST(PipelineRuns, RefuseWhatTheyCannotDo) {
  const TestFolder folder("pipeline_refused");
  struct Refusal {
    Words more;
    std::string text;
  };
  const std::vector<Refusal> refusals{
      {{"--nproc_per_node", "8", "--pp_size", "8"}, "--pp_size 8: the model has 4 layers"},
      {{"--nproc_per_node", "3", "--pp_size", "2"}, "--pp_size 2: 3 processes (--nproc_per_node x --nnodes)"},
      {{"--nproc_per_node", "2", "--pp_size", "2", "--zero_stage", "2"},
       "a stage of --pp_size 2 runs several"},
      {{"--nproc_per_node", "2", "--pp_size", "2", "--lora_r", "4", "--layers_to_transform", "1,2,3",
        "--lora_target_modules", "query"},
       "--pp_size 2: layer 0 has no adapter, but each stage needs weights that it trains"},
      {{"--nproc_per_node", "2", "--tp_size", "2", "--lora_r", "4", "--load_in_4bit"},
       "--tp_size 2: each process would have 16 columns of the matrices that read hidden states, but the "
       "matrices have 4 bits per number, in blocks of 64 numbers (--load_in_4bit); give --load_in_8bit"},
      {{"--nproc_per_node", "2", "--tp_size", "2", "--lora_r", "4", "--load_in_4bit",
        "--bnb_4bit_use_double_quant"},
       "--tp_size 2: the blocks in which scales are quantized (--bnb_4bit_use_double_quant)"},
      {{"--nproc_per_node", "2", "--pp_size", "2", "--freeze", "*embeddings*"},
       "--pp_size 2: this version cannot freeze weights (--freeze)"},
      {{"--nproc_per_node", "2", "--pp_size", "2", "--recompute", "selective"},
       "--pp_size 2: the stages would recompute different values"},
      {{"--nproc_per_node", "4", "--pp_size", "4", "--pipeline_schedule", "interleaved",
        "--gradient_accumulation_steps", "4"},
       "--pp_chunks 2: the model has 4 layers (num_hidden_layers in config.json), and each of the 8 chunks "
       "of "
       "4 stages (--pp_size) needs at least one; give --pipeline_schedule 1f1b"},
      {{"--nproc_per_node", "2", "--pp_size", "2", "--pipeline_schedule", "interleaved"},
       "--gradient_accumulation_steps 1: --pipeline_schedule interleaved runs micro-batches in groups of "
       "--pp_size 2"},
      {{"--nproc_per_node", "2", "--pp_size", "2", "--optimizer_in_backward", "--max_grad_norm", "0"},
       "--pp_size 2 needs the norm"}};
  for (const Refusal& refusal : refusals) {
    Words words = classifier_words(folder);
    words.insert(words.begin(), "plan");
    words.insert(words.end(), {"--use_cpu"});
    words.insert(words.end(), refusal.more.begin(), refusal.more.end());
    const ProcessResult result = run_plimsoll(words, folder.path("log"));
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_NE(result.output.find(refusal.text), std::string::npos) << result.output;
  }
}

// `plan` must list the memory of every stage, and each rank must allocate the arena that its stage's plan
// states.
TEST(PipelineRuns, ThePlanShowsEveryStage) {
  const TestFolder folder("pipeline_plan");
  Words words = classifier_words(folder);
  words.insert(words.begin(), "plan");
  words.insert(words.end(), {"--use_cpu", "--num_threads", "1", "--nproc_per_node", "4", "--pp_size", "4",
                             "--gradient_accumulation_steps", "8", "--json", folder.path("plan.json")});
  const std::string output = run_or_fail(words, folder);
  EXPECT_NE(output.find("stages of the pipeline, MiB"), std::string::npos) << output;
  EXPECT_NE(output.find("schedule 1f1b: a step of 8 micro-batches takes about"), std::string::npos) << output;
  const nlohmann::json plan = nlohmann::json::parse(read_file(folder.path("plan.json")));
  const nlohmann::json& stages = plan.at("pipeline").at("stages");
  ASSERT_EQ(stages.size(), 4u);
  int64_t layers = 0, most = 0;
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(stages[i].at("micro_batches_held"), 4 - static_cast<int64_t>(i));
    EXPECT_EQ(stages[i].at("first_layer"), layers);
    layers += stages[i].at("layers").get<int64_t>();
    most = std::max(most, stages[i].at("total_bytes").get<int64_t>());
  }
  EXPECT_EQ(layers, 4);
  // The summary shows the stage that needs the most memory.
  EXPECT_EQ(plan.at("total_bytes"), most);
}

// With interleaved stages, the table and the JSON file must list the chunks of layers of each stage, and the
// chunks together must contain all layers.
TEST(PipelineRuns, ThePlanShowsEveryChunk) {
  const TestFolder folder("pipeline_chunks");
  Words words = classifier_words(folder);
  words.insert(words.begin(), "plan");
  words.insert(words.end(), {"--use_cpu", "--num_threads", "1", "--nproc_per_node", "2", "--pp_size", "2",
                             "--pipeline_schedule", "interleaved", "--gradient_accumulation_steps", "8",
                             "--json", folder.path("plan.json")});
  const std::string output = run_or_fail(words, folder);
  EXPECT_NE(output.find("    chunk 1, 2 micro-batches"), std::string::npos) << output;
  EXPECT_NE(output.find("schedule interleaved: a step of 8 micro-batches takes about"), std::string::npos)
      << output;
  const nlohmann::json plan = nlohmann::json::parse(read_file(folder.path("plan.json")));
  const nlohmann::json& stages = plan.at("pipeline").at("stages");
  ASSERT_EQ(stages.size(), 2u);
  int64_t layers = 0;
  for (size_t chunk = 0; chunk < 2; ++chunk) {
    for (const nlohmann::json& stage : stages) {
      const nlohmann::json& found = stage.at("chunks").at(chunk);
      EXPECT_EQ(found.at("first_layer"), layers);
      layers += found.at("layers").get<int64_t>();
    }
  }
  EXPECT_EQ(layers, 4);
}

}  // namespace
}  // namespace plimsoll::testing
