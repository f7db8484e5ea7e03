// Tests runs of several processes that `train --nproc_per_node` starts. They must train like one process with
// more accumulation steps, resume on any number of processes, stop together, and end if one of them is killed.
// The tests run on CPUs, or on two GPUs if PLIMSOLL_TEST_DEVICE is set (CMakeLists.txt).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "plimsoll/free_port.h"
#include "tests/bad_input/binary.h"
#include "tests/ranks/rank_processes.h"
#include "tests/support/places.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {
namespace {

void expect_near(const std::vector<double>& found, const std::vector<double>& wanted, double relative) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], wanted[i], relative * std::abs(wanted[i])) << "record " << i;
}

// The gradients of one step differ by some roundings of fp32 sums, 2^-24 each. The later steps carry these
// differences on through the weights, so the accepted difference is larger.
constexpr double kRelative = 1e-5;

TEST(RunOfRanks, EqualsARunOfOneProcessThatAccumulates) {
  const TestFolder folder("ranks_equal");
  const std::string model = write_tiny_model(folder);
  for (const Layout& layout :
       {Layout{.ranks = 2}, Layout{.ranks = 3}, Layout{.ranks = 2, .accumulation = 2}}) {
    SCOPED_TRACE(std::to_string(layout.ranks) + " ranks, accumulation " +
                 std::to_string(layout.accumulation));
    const std::string name = std::to_string(layout.ranks) + "_" + std::to_string(layout.accumulation);
    const std::string one = folder.path("one" + name), several = folder.path("several" + name);
    const ProcessResult whole = run_plimsoll(
        words_of(model, one, {.accumulation = layout.ranks * layout.accumulation}, 9), folder.path("log"));
    ASSERT_EQ(whole.exit_code, 0) << whole.output;
    const ProcessResult ranks = run_plimsoll(words_of(model, several, layout, 9), folder.path("log"));
    ASSERT_EQ(ranks.exit_code, 0) << ranks.output;
    expect_near(logged_values(several, "loss"), logged_values(one, "loss"), kRelative);
    expect_near(logged_values(several, "grad_norm"), logged_values(one, "grad_norm"), kRelative);
    EXPECT_EQ(logged_values(several, "epoch"), logged_values(one, "epoch"));
    EXPECT_EQ(logged_values(several, "learning_rate"), logged_values(one, "learning_rate"));
  }
}

// If a run with several ranks is repeated, it must give the same bits: all ranks start with the weights of rank
// 0, and their random numbers depend only on the seed and the number of the micro-batch.
TEST(RunOfRanks, TwiceHasTheSameBits) {
  const TestFolder folder("ranks_twice");
  const std::string model = write_tiny_model(folder);
  for (const std::string run : {"a", "b"}) {
    const ProcessResult result = run_plimsoll(
        words_of(model, folder.path(run), {.ranks = 4}, 5, {"--optim", "adamw_torch"}), folder.path("log"));
    ASSERT_EQ(result.exit_code, 0) << result.output;
  }
  EXPECT_EQ(read_file(folder.path("a/model.safetensors")), read_file(folder.path("b/model.safetensors")));
}

TEST(RunOfRanks, ResumesOnAnyNumberOfRanks) {
  const TestFolder folder("ranks_resume");
  const std::string model = write_tiny_model(folder);
  const std::string one = folder.path("one"), several = folder.path("several");
  ASSERT_EQ(run_plimsoll(words_of(model, one, {.accumulation = 4}, 8), folder.path("log")).exit_code, 0);
  int steps = 2;
  for (const Layout& layout : {Layout{.accumulation = 4}, Layout{.ranks = 2, .accumulation = 2},
                               Layout{.ranks = 4}, Layout{.accumulation = 4}}) {
    const ProcessResult part = run_plimsoll(words_of(model, several, layout, steps,
                                                     {"--save_steps", "1", "--lr_scheduler_type", "constant",
                                                      "--resume_from_checkpoint", "True"}),
                                            folder.path("log"));
    ASSERT_EQ(part.exit_code, 0) << part.output;
    steps += 2;
  }
  const std::string constant = folder.path("constant");
  ASSERT_EQ(
      run_plimsoll(words_of(model, constant, {.accumulation = 4}, 8, {"--lr_scheduler_type", "constant"}),
                   folder.path("log"))
          .exit_code,
      0);
  expect_near(logged_values(several, "loss"), logged_values(constant, "loss"), kRelative);
}

// The gradients of this model are so small that all_reduce() adds them in the order of the ranks, as reduce_scatter() does. Without
// clipping, weights and saved states must therefore have the same bits whether the ranks divide the optimizer's states or not.
TEST(RunOfRanks, DividedStatesAreSavedAsAWhole) {
  const TestFolder folder("ranks_zero");
  const std::string model = write_tiny_model(folder);
  for (const int ranks : {2, 3}) {
    const std::string name = std::to_string(ranks);
    for (const std::string stage : {"0", "1", "2", "3"}) {
      const ProcessResult result =
          run_plimsoll(words_of(model, folder.path(stage + name), {.ranks = ranks}, 4,
                                {"--optim", "adamw_torch", "--max_grad_norm", "0", "--zero_stage", stage,
                                 "--stage3_param_persistence_threshold", "100", "--save_strategy", "steps",
                                 "--save_steps", "2"}),
                       folder.path("log"));
      ASSERT_EQ(result.exit_code, 0) << result.output;
      for (const std::string file :
           {"/checkpoint-2/model.safetensors", "/checkpoint-2/optimizer.safetensors", "/model.safetensors"}) {
        EXPECT_TRUE(read_file(folder.path("0" + name + file)) == read_file(folder.path(stage + name + file)))
            << file << " of stage " << stage;
      }
    }
  }
}

// Uses SGD with momentum, which has states and does not amplify the rounding of sums as AdamW does.
TEST(RunOfRanks, DividedStatesResumeOnAnyNumberOfRanks) {
  const TestFolder folder("ranks_zero_resume");
  const std::string model = write_tiny_model(folder);
  const std::vector<std::string> settings{"--optim_args", "momentum=0.9", "--lr_scheduler_type", "constant"};
  const std::string one = folder.path("one"), several = folder.path("several");
  ASSERT_EQ(
      run_plimsoll(words_of(model, one, {.accumulation = 4}, 18, settings), folder.path("log")).exit_code, 0);
  struct Part {
    Layout layout;
    std::string stage;
  };
  int steps = 2;
  for (const Part& part : {Part{{.accumulation = 4}, "0"}, Part{{.ranks = 2, .accumulation = 2}, "1"},
                           Part{{.ranks = 4}, "1"}, Part{{.ranks = 4}, "0"}, Part{{.ranks = 4}, "1"},
                           Part{{.ranks = 2, .accumulation = 2}, "2"}, Part{{.ranks = 4}, "3"},
                           Part{{.ranks = 2, .accumulation = 2}, "3"}, Part{{.accumulation = 4}, "0"}}) {
    std::vector<std::string> more = settings;
    more.insert(more.end(), {"--save_steps", "1", "--resume_from_checkpoint", "True", "--zero_stage",
                             part.stage, "--stage3_param_persistence_threshold", "100"});
    const ProcessResult result =
        run_plimsoll(words_of(model, several, part.layout, steps, more), folder.path("log"));
    ASSERT_EQ(result.exit_code, 0) << result.output;
    steps += 2;
  }
  expect_near(logged_values(several, "loss"), logged_values(one, "loss"), kRelative);
  expect_near(logged_values(several, "grad_norm"), logged_values(one, "grad_norm"), kRelative);
}

// Returns further arguments for a run with tensor parallelism: groups of ranks that divide the layers.
std::vector<std::string> tensor_settings(int tensor_ranks, std::vector<std::string> more = {}) {
  more.insert(more.end(), {"--tp_size", std::to_string(tensor_ranks)});
  return more;
}

// With tensor parallelism, a run may differ from one process only by the order in which sums are added.
TEST(RunOfRanks, DividesLayersLikeOneProcess) {
  const TestFolder folder("ranks_tensor");
  const std::string model = write_tiny_model(folder);
  const std::string one = folder.path("one"), tensor = folder.path("tensor"), mesh = folder.path("mesh");
  const std::string rows = folder.path("rows"), rows_of_mesh = folder.path("rows_of_mesh");
  const auto run = [&](const std::string& name, const Layout& layout, int size,
                       const std::string& divides_rows) {
    const ProcessResult result = run_plimsoll(
        words_of(
            model, name, layout, 6,
            tensor_settings(size, {"--optim_args", "momentum=0.9", "--sequence_parallel", divides_rows})),
        folder.path("log"));
    ASSERT_EQ(result.exit_code, 0) << result.output;
  };
  std::vector<std::string> runs{tensor, rows};
  run(one, {.accumulation = 2}, 1, "False");
  run(tensor, {.ranks = 2, .accumulation = 2}, 2, "False");
  run(rows, {.ranks = 2, .accumulation = 2}, 2, "True");
  if (!on_gpus()) {
    run(mesh, {.ranks = 4}, 2, "False");
    run(rows_of_mesh, {.ranks = 4}, 2, "True");
    runs.insert(runs.end(), {mesh, rows_of_mesh});
  }
  for (const std::string& several : runs) {
    expect_near(logged_values(several, "loss"), logged_values(one, "loss"), kRelative);
    expect_near(logged_values(several, "grad_norm"), logged_values(one, "grad_norm"), kRelative);
    EXPECT_EQ(logged_values(several, "epoch"), logged_values(one, "epoch"));
    EXPECT_EQ(logged_values(several, "learning_rate"), logged_values(one, "learning_rate"));
  }
}

// A run whose ranks divide the tokens of a batch must differ from a run of one process only by the order of sums, and one process must be
// able to resume from its checkpoint.
TEST(RunOfRanks, DividesTokensLikeOneProcess) {
  const TestFolder folder("ranks_context");
  const std::string model = write_tiny_model(folder);
  const std::string one = folder.path("one"), pair = folder.path("pair"), mesh = folder.path("mesh");
  const auto run = [&](const std::string& name, const Layout& layout, int size, int steps,
                       std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--cp_size", std::to_string(size), "--lr_scheduler_type", "constant",
                             "--save_steps", "1", "--resume_from_checkpoint", "True"});
    const ProcessResult result = run_plimsoll(words_of(model, name, layout, steps, more), folder.path("log"));
    ASSERT_EQ(result.exit_code, 0) << result.output;
  };
  run(one, {.accumulation = 2}, 1, 6);
  run(pair, {.ranks = 2, .accumulation = 2}, 2, 4);
  run(pair, {.accumulation = 2}, 1, 6);
  std::vector<std::string> runs{pair};
  if (!on_gpus()) {
    run(mesh, {.ranks = 4}, 2, 4, {"--zero_stage", "3", "--stage3_param_persistence_threshold", "100"});
    run(mesh, {.ranks = 4}, 2, 6, {"--parallelism_config", "{\"sp_size\": 2}"});
    runs.push_back(mesh);
  }
  for (const std::string& several : runs) {
    expect_near(logged_values(several, "loss"), logged_values(one, "loss"), kRelative);
    expect_near(logged_values(several, "grad_norm"), logged_values(one, "grad_norm"), kRelative);
    EXPECT_EQ(logged_values(several, "epoch"), logged_values(one, "epoch"));
  }
}

TEST(RunOfRanks, DividedLayersResumeOnAnyMesh) {
  const TestFolder folder("ranks_tensor_resume");
  const std::string model = write_tiny_model(folder);
  const std::vector<std::string> settings{"--optim_args", "momentum=0.9", "--lr_scheduler_type", "constant"};
  const std::string one = folder.path("one"), several = folder.path("several");
  ASSERT_EQ(run_plimsoll(words_of(model, one, {.accumulation = 2}, on_gpus() ? 6 : 12, settings),
                         folder.path("log"))
                .exit_code,
            0);
  struct Part {
    Layout layout;
    int tensor_ranks = 1;
    std::string zero_stage = "0";
  };
  std::vector<Part> parts{{{.accumulation = 2}}, {{.ranks = 2, .accumulation = 2}, 2}};
  if (!on_gpus())
    parts.insert(parts.end(), {{{.ranks = 4}, 2}, {{.ranks = 4}, 2, "1"}, {{.ranks = 4}, 2, "3"}});
  parts.push_back({{.ranks = 2}});
  int steps = 2;
  for (const Part& part : parts) {
    std::vector<std::string> more = tensor_settings(part.tensor_ranks, settings);
    more.insert(more.end(), {"--save_steps", "1", "--resume_from_checkpoint", "True", "--zero_stage",
                             part.zero_stage, "--stage3_param_persistence_threshold", "100"});
    const ProcessResult result =
        run_plimsoll(words_of(model, several, part.layout, steps, more), folder.path("log"));
    ASSERT_EQ(result.exit_code, 0) << result.output;
    steps += 2;
  }
  expect_near(logged_values(several, "loss"), logged_values(one, "loss"), kRelative);
  expect_near(logged_values(several, "grad_norm"), logged_values(one, "grad_norm"), kRelative);
}

// The content of the safetensors file of an adapter in fp32. Such a file consists of the length of the header, the header, and all numbers.
struct AdapterFile {
  explicit AdapterFile(const std::string& run) {
    const std::string bytes = read_file(run + "/adapter_model.safetensors");
    uint64_t length = 0;
    if (bytes.size() < sizeof length) return;
    std::memcpy(&length, bytes.data(), sizeof length);
    header = bytes.substr(sizeof length, length);
    values.resize((bytes.size() - sizeof length - header.size()) / sizeof(float));
    std::memcpy(values.data(), bytes.data() + sizeof length + header.size(), values.size() * sizeof(float));
  }
  std::string header;
  std::vector<float> values;
};

// Expects that two runs have equal losses, gradient norms and adapters, except for rounding. The numbers of the adapters may differ by
// at most kRelative of the largest number.
void expect_same_adapter(const std::string& found, const std::string& wanted) {
  expect_near(logged_values(found, "loss"), logged_values(wanted, "loss"), kRelative);
  expect_near(logged_values(found, "grad_norm"), logged_values(wanted, "grad_norm"), kRelative);
  EXPECT_EQ(read_file(found + "/adapter_config.json"), read_file(wanted + "/adapter_config.json"));
  const AdapterFile a(found), b(wanted);
  ASSERT_FALSE(b.values.empty());
  EXPECT_EQ(a.header, b.header);
  ASSERT_EQ(a.values.size(), b.values.size());
  float largest = 0, difference = 0;
  for (size_t i = 0; i < a.values.size(); ++i) {
    largest = std::max(largest, std::abs(b.values[i]));
    difference = std::max(difference, std::abs(a.values[i] - b.values[i]));
  }
  EXPECT_LE(difference, kRelative * largest);
}

// Ranks that divide layers or are pipeline stages must save complete adapters, so that a run can resume on another division of ranks.
TEST(RunOfRanks, TrainsAdaptersLikeOneProcess) {
  const TestFolder folder("ranks_adapters");
  const std::string base = write_tiny_base(folder);
  const auto run = [&](const std::string& name, const Layout& layout, int steps,
                       std::vector<std::string> more) {
    more.insert(more.end(),
                {"--lora_r", "4", "--lora_dropout", "0.1", "--lora_target_modules", "all-linear",
                 "--lr_scheduler_type", "constant", "--optim_args", "momentum=0.9", "--save_steps", "2"});
    std::vector<std::string> words = words_of(base, folder.path(name), layout, steps, more);
    std::ranges::replace(words, std::string("--config_name"), std::string("--model_name_or_path"));
    const ProcessResult result = run_plimsoll(words, folder.path("log"));
    ASSERT_EQ(result.exit_code, 0) << result.output;
  };
  struct Mesh {
    std::string name;
    Layout layout;
    std::vector<std::string> settings;
  };
  std::vector<Mesh> meshes{
      {"one", {.accumulation = 4}, {}},
      {"tensor", {.ranks = 2, .accumulation = 4}, tensor_settings(2)},
      {"rows", {.ranks = 2, .accumulation = 4}, tensor_settings(2, {"--sequence_parallel", "True"})},
      {"stages", {.ranks = 2, .accumulation = 4}, {"--pp_size", "2"}}};
  if (!on_gpus())
    meshes.push_back({"mesh", {.ranks = 4, .accumulation = 4}, tensor_settings(2, {"--pp_size", "2"})});
  const int steps = 2 * static_cast<int>(meshes.size());
  for (const Mesh& mesh : meshes) {
    run(mesh.name, mesh.layout, steps, mesh.settings);
    expect_same_adapter(folder.path(mesh.name), folder.path("one"));
  }
  // One run is continued with each division of the work among ranks in turn.
  for (size_t i = 0; i < meshes.size(); ++i) {
    std::vector<std::string> more = meshes[i].settings;
    if (i > 0) more.insert(more.end(), {"--resume_from_checkpoint", "True"});
    run("any", meshes[i].layout, 2 * static_cast<int>(i + 1), more);
  }
  expect_same_adapter(folder.path("any"), folder.path("one"));
  // The following runs store the weights of the base model in 8 bits, and each rank stores only a part of them.
  for (const Mesh& mesh : meshes) {
    std::vector<std::string> more = mesh.settings;
    more.emplace_back("--load_in_8bit");
    run(mesh.name + "_of_8_bits", mesh.layout, 3, more);
    expect_same_adapter(folder.path(mesh.name + "_of_8_bits"), folder.path("one_of_8_bits"));
  }
}

// A run with a configuration of DeepSpeed or FSDP equals a run with the settings that the configuration requests, and its
// checkpoints can be resumed without the configuration.
TEST(RunOfRanks, ConfigurationsOfDeepspeedAndFsdpAreSettings) {
  const TestFolder folder("ranks_deepspeed");
  const std::string model = write_tiny_model(folder);
  const std::string config = folder.path("ds.json");
  std::ofstream(config) << R"({"zero_optimization": {"stage": 2, "overlap_comm": true},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": [0.8, 0.99], "weight_decay": 0.01}},
    "gradient_accumulation_steps": "auto", "train_micro_batch_size_per_gpu": "auto",
    "train_batch_size": 12, "gradient_clipping": 0})";
  const std::vector<std::string> save{"--save_strategy", "steps", "--save_steps", "2"};
  const auto run = [&](const std::string& name, int steps, std::vector<std::string> more) {
    std::vector<std::string> words =
        words_of(model, folder.path(name), {.ranks = 2, .accumulation = 2}, steps, save);
    const auto optimizer = std::find(words.begin(), words.end(), "--optim");
    words.erase(optimizer, optimizer + 2);
    words.insert(words.end(), more.begin(), more.end());
    return run_plimsoll(words, folder.path("log"));
  };
  const std::vector<std::string> plain{"--adam_beta1",   "0.8",  "--adam_beta2",    "0.99",
                                       "--weight_decay", "0.01", "--max_grad_norm", "0"};
  std::vector<std::string> with_stage = plain;
  with_stage.insert(with_stage.end(), {"--zero_stage", "2"});
  const ProcessResult settings = run("settings", 4, with_stage);
  ASSERT_EQ(settings.exit_code, 0) << settings.output;
  const ProcessResult deepspeed = run("deepspeed", 4, {"--deepspeed", config});
  ASSERT_EQ(deepspeed.exit_code, 0) << deepspeed.output;
  EXPECT_NE(deepspeed.output.find("ds.json sets --zero_stage 2, --adam_beta1 0.8"), std::string::npos)
      << deepspeed.output;
  std::vector<std::string> with_option = plain;
  with_option.insert(with_option.end(), {"--fsdp", "shard_grad_op auto_wrap"});
  const ProcessResult fsdp = run("fsdp", 4, with_option);
  ASSERT_EQ(fsdp.exit_code, 0) << fsdp.output;
  for (const char* file : {"/model.safetensors", "/checkpoint-2/optimizer.safetensors"}) {
    const std::string wanted = read_file(folder.path("settings") + file);
    EXPECT_TRUE(read_file(folder.path("deepspeed") + file) == wanted) << file;
    EXPECT_TRUE(read_file(folder.path("fsdp") + file) == wanted) << file;
  }
  std::filesystem::remove(config);
  with_stage.insert(with_stage.end(), {"--resume_from_checkpoint", "True"});
  const ProcessResult resumed = run("deepspeed", 6, with_stage);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
  // DeepSpeed's train_batch_size must equal the product of batch size, accumulation steps and number of ranks. The run
  // can check that only when it knows the number of ranks.
  std::ofstream(config) << R"({"train_batch_size": 24})";
  const ProcessResult refused = run("refused", 4, {"--deepspeed", config});
  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_NE(refused.output.find("--train_batch_size 24: a step of this run has 3 x 2 x 2 sequences"),
            std::string::npos)
      << refused.output;
}

// Evaluations add up the outputs of all ranks in their order, so the metrics are those of one process.
TEST(RunOfRanks, EvaluatesLikeOneProcess) {
  const TestFolder folder("ranks_evaluate");
  const std::string model = write_tiny_model(folder);
  const std::string rows = write_uneven_rows(folder, 23);
  const std::vector<std::string> files{"--train_file",
                                       rows,
                                       "--validation_file",
                                       rows,
                                       "--eval_strategy",
                                       "steps",
                                       "--eval_steps",
                                       "1",
                                       "--learning_rate",
                                       "0",
                                       "--per_device_eval_batch_size",
                                       "4",
                                       "--test_file",
                                       rows,
                                       "--tokenizer_name",
                                       model};
  const auto words = [&](const std::string& run, const Layout& layout, const std::string& stage = "0") {
    std::vector<std::string> list = words_of(model, folder.path(run), layout, 2, files);
    list.insert(list.end(), {"--zero_stage", stage, "--stage3_param_persistence_threshold", "100"});
    const auto dummy = std::find(list.begin(), list.end(), "--dataset_name");
    list.erase(dummy, dummy + 6);
    return list;
  };
  const ProcessResult one = run_plimsoll(words("one", {}), folder.path("log"));
  ASSERT_EQ(one.exit_code, 0) << one.output;
  for (const std::string stage : {"0", "3"}) {
    const std::string run = "three" + stage;
    const ProcessResult three = run_plimsoll(words(run, {.ranks = 3}, stage), folder.path("log"));
    ASSERT_EQ(three.exit_code, 0) << three.output;
    EXPECT_EQ(logged_values(folder.path(run), "eval_loss"), logged_values(folder.path("one"), "eval_loss"));
    EXPECT_EQ(logged_values(folder.path(run), "eval_accuracy"),
              logged_values(folder.path("one"), "eval_accuracy"));
    EXPECT_EQ(read_file(folder.path(run + "/predict_results.txt")),
              read_file(folder.path("one/predict_results.txt")));
  }
  if (on_gpus()) return;
  // With tensor and context parallelism, the ranks of one group evaluate the same batches, and different groups evaluate
  // different ones.
  for (const std::vector<std::string>& groups :
       {std::vector<std::string>{"--tp_size", "2", "--sequence_parallel", "False"},
        std::vector<std::string>{"--tp_size", "2", "--sequence_parallel", "True"},
        std::vector<std::string>{"--cp_size", "2"}}) {
    const std::string run = "divided" + groups.front() + groups.back();
    std::vector<std::string> divided = words(run, {.ranks = 4});
    divided.insert(divided.end(), groups.begin(), groups.end());
    const ProcessResult result = run_plimsoll(divided, folder.path("log"));
    ASSERT_EQ(result.exit_code, 0) << result.output;
    expect_near(logged_values(folder.path(run), "eval_loss"), logged_values(folder.path("one"), "eval_loss"),
                kRelative);
    EXPECT_EQ(logged_values(folder.path(run), "eval_accuracy"),
              logged_values(folder.path("one"), "eval_accuracy"));
    EXPECT_EQ(read_file(folder.path(run + "/predict_results.txt")),
              read_file(folder.path("one/predict_results.txt")));
  }
}

TEST(RunOfRanks, StopsAfterOneStepWithOneCheckpoint) {
  const TestFolder folder("ranks_stop");
  const std::string model = write_tiny_model(folder);
  const std::string run = folder.path("run");
  Process process(
      words_of(model, run, {.ranks = 3}, 100'000, {"--save_steps", "1", "--save_total_limit", "2"}),
      folder.path("log"));
  wait_for(process, run + "/checkpoint-2");
  process.send(SIGTERM);
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 6) << result.output;
  const size_t at = result.output.find("interrupted at step ");
  ASSERT_NE(at, std::string::npos) << result.output;
  EXPECT_EQ(result.output.find("interrupted at step ", at + 1), std::string::npos) << result.output;
  const int64_t step = std::stoll(result.output.substr(at + 20));
  EXPECT_TRUE(std::filesystem::exists(run + "/checkpoint-" + std::to_string(step)));
}

TEST(RunOfRanks, ARankWhosePeerIsKilledSaysSoAndEndsSoon) {
  const TestFolder folder("ranks_killed");
  const std::string model = write_tiny_model(folder);
  const std::string run = folder.path("run");
  const int port = free_port();
  const auto words =
      words_of(model, run, {.ranks = 2}, 100'000, {"--save_steps", "1", "--save_total_limit", "2"});
  Process first(words, folder.path("log0"), variables_of(0, port));
  Process second(words, folder.path("log1"), variables_of(1, port));
  wait_for(first, run + "/checkpoint-3");
  second.send(SIGKILL);
  const ProcessResult result = first.wait(20'000);
  EXPECT_EQ(result.exit_code, 7) << result.output;
  EXPECT_NE(result.output.find("rank 1"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("--resume_from_checkpoint True"), std::string::npos) << result.output;
  // A single process must be able to resume from the last checkpoint of the run.
  std::vector<std::string> rest =
      words_of(model, run, {.accumulation = 2}, 0, {"--resume_from_checkpoint", "True"});
  const auto steps = std::find(rest.begin(), rest.end(), "--max_steps");
  *(steps + 1) = "100000";
  rest.insert(rest.end(), {"--dry_run"});
  const ProcessResult plan = run_plimsoll(rest, folder.path("log"));
  EXPECT_EQ(plan.exit_code, 0) << plan.output;
}

// A rank that is stopped (SIGSTOP) keeps its connections open, so the other ranks notice it only at the time
// limit.
TEST(RunOfRanks, AStoppedRankIsNoticedAfterTheTimeLimit) {
  const TestFolder folder("ranks_stopped");
  const std::string model = write_tiny_model(folder);
  const std::string run = folder.path("run");
  const int port = free_port();
  const auto words = words_of(model, run, {.ranks = 2}, 100'000,
                              {"--save_steps", "1", "--save_total_limit", "2", "--ddp_timeout", "6"});
  Process first(words, folder.path("log0"), variables_of(0, port));
  Process second(words, folder.path("log1"), variables_of(1, port));
  wait_for(first, run + "/checkpoint-3");
  second.send(SIGSTOP);
  const ProcessResult result = first.wait(40'000);
  second.send(SIGKILL);
  EXPECT_EQ(result.exit_code, 7) << result.output;
  EXPECT_NE(result.output.find("did not end within 6 s: rank 0 "), std::string::npos) << result.output;
  // The first columns of the table of ranks are as wide as the entry of rank 0, which names a step or a
  // checkpoint and therefore varies, so the spaces before "does not answer" are not compared.
  const size_t row = result.output.find("\n     1  not known ");
  ASSERT_NE(row, std::string::npos) << result.output;
  const std::string line = result.output.substr(row + 1, result.output.find('\n', row + 1) - row - 1);
  EXPECT_NE(line.find("  does not answer  "), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("--resume_from_checkpoint True"), std::string::npos) << result.output;
}

// Without --ddp_timeout the limit depends on the time of a step, and is at least 10 s.
TEST(RunOfRanks, AStoppedRankIsNamedKilledAndStartedAgain) {
  const TestFolder folder("ranks_stopped_again");
  const std::string model = write_tiny_model(folder);
  const std::string run = folder.path("run");
  Process process(words_of(model, run, {.ranks = 2}, 200,
                           {"--save_steps", "2", "--save_total_limit", "2", "--max_restarts", "1"}),
                  folder.path("log"));
  wait_for(process, run + "/checkpoint-12");
  const std::vector<pid_t> ranks = ranks_of(process);
  ASSERT_EQ(ranks.size(), 2u) << process.output();
  kill(ranks[1], SIGSTOP);
  const ProcessResult result = process.wait(120'000);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find(" did not end within 10 s: rank 0 "), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("\n     1  not known "), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("plimsoll: rank 1 (process " + std::to_string(ranks[1]) + " on "),
            std::string::npos)
      << result.output;
  EXPECT_NE(result.output.find(") is stopped (by SIGSTOP or a debugger)"), std::string::npos)
      << result.output;
  EXPECT_NE(result.output.find("warning: restart 1 of 1 after the failure of rank 1: resuming from " + run +
                               "/checkpoint-"),
            std::string::npos)
      << result.output;
}

// The output folder contains checkpoints of another run, which this run is permitted to replace. If a rank
// fails, the restarted run must not resume from those checkpoints.
TEST(RunOfRanks, ARestartDoesNotResumeFromAnotherRun) {
  const TestFolder folder("ranks_restart_other");
  const std::string model = write_tiny_model(folder);
  const auto words = [&](const std::string& run, const std::string& seed, int steps,
                         const std::vector<std::string>& more) {
    std::vector<std::string> list = words_of(model, run, {.ranks = 2}, steps, more);
    list.insert(list.end(), {"--seed", seed, "--save_steps", "5"});
    return list;
  };
  const std::string run = folder.path("run"), whole = folder.path("whole");
  ASSERT_EQ(run_plimsoll(words(run, "1", 40, {}), folder.path("log")).exit_code, 0);
  ASSERT_EQ(run_plimsoll(words(whole, "2", 30, {}), folder.path("log")).exit_code, 0);
  std::filesystem::remove(run + "/model.safetensors");
  Process process(words(run, "2", 30, {"--replace_checkpoints", "--max_restarts", "2"}), folder.path("log"));
  for (int i = 0; i < 60000 && ranks_of(process).size() < 2; ++i) sleep_us(1000);
  sleep_us(20'000);
  kill(ranks_of(process).back(), SIGKILL);
  const ProcessResult result = process.wait(120'000);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("restart 1 of 2"), std::string::npos) << result.output;
  EXPECT_EQ(result.output.find("resuming from " + run + "/checkpoint-40"), std::string::npos)
      << result.output;
  EXPECT_TRUE(read_file(run + "/model.safetensors") == read_file(whole + "/model.safetensors"))
      << result.output;
}

TEST(RunOfRanks, ARunThatIsStoppedBySigtermIsNotStartedAgain) {
  const TestFolder folder("ranks_sigterm");
  const std::string model = write_tiny_model(folder);
  const std::string run = folder.path("run");
  Process process(words_of(model, run, {.ranks = 2}, 100'000,
                           {"--save_steps", "1", "--save_total_limit", "2", "--max_restarts", "3"}),
                  folder.path("log"));
  wait_for(process, run + "/checkpoint-2");
  process.send(SIGTERM);
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 6) << result.output;
  EXPECT_EQ(result.output.find("restart"), std::string::npos) << result.output;
}

// --max_restarts must not restart a run after an error that would occur again. It must be refused under a
// launcher that restarts runs itself, and in a run whose checkpoints contain only the model.
TEST(RunOfRanks, RestartsThatDoNotHelpAreRefused) {
  const TestFolder folder("ranks_restart_refused");
  const std::string model = write_tiny_model(folder);
  const std::string run = folder.path("run");
  const ProcessResult bad = run_plimsoll(
      words_of(folder.path("no_model"), run, {.ranks = 2}, 3, {"--max_restarts", "3"}), folder.path("log"));
  EXPECT_NE(bad.exit_code, 0);
  EXPECT_NE(bad.exit_code, 7);
  EXPECT_EQ(bad.output.find("restart 1"), std::string::npos) << bad.output;
  const struct {
    std::vector<std::string> environment;
    const char* advice;
  } launchers[] = {{variables_of(0, free_port()), "give torchrun --max_restarts 3"},
                   {{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=0",
                     "OMPI_COMM_WORLD_LOCAL_SIZE=2"},
                    "start mpirun again"},
                   {{"SLURM_STEP_ID=0", "SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_LOCALID=0",
                     "SLURM_TASKS_PER_NODE=2", "SLURM_JOB_NODELIST=localhost"},
                    "submit the job with sbatch --requeue"}};
  for (const auto& launcher : launchers) {
    const ProcessResult result = run_plimsoll(words_of(model, run, {.ranks = 2}, 3, {"--max_restarts", "3"}),
                                              folder.path("log"), 60000, launcher.environment);
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_NE(result.output.find(launcher.advice), std::string::npos) << result.output;
  }
  const ProcessResult useless =
      run_plimsoll(words_of(model, run, {.ranks = 2}, 3, {"--max_restarts", "3", "--save_only_model"}),
                   folder.path("log"));
  EXPECT_EQ(useless.exit_code, 2) << useless.output;
}

// Ranks that torchrun's variables describe train with the same bits as ranks that the program starts itself.
TEST(RunOfRanks, ProcessesOfTorchrunTrainWithTheBitsOfOwnOnes) {
  const TestFolder folder("ranks_torchrun");
  const std::string model = write_tiny_model(folder);
  const auto words = [&](const std::string& run) {
    return words_of(model, folder.path(run), {.ranks = 2}, 6, {"--optim", "adamw_torch"});
  };
  const ProcessResult own = run_plimsoll(words("own"), folder.path("log"));
  ASSERT_EQ(own.exit_code, 0) << own.output;
  // torchrun uses MASTER_PORT for its own store, so the ranks use the port after it.
  const std::string port = std::to_string(free_port(2));
  const auto variables = [&](const std::string& rank) -> std::vector<std::string> {
    return {"LOCAL_RANK=" + rank,
            "RANK=" + rank,
            "GROUP_RANK=0",
            "ROLE_RANK=" + rank,
            "ROLE_NAME=default",
            "LOCAL_WORLD_SIZE=2",
            "WORLD_SIZE=2",
            "GROUP_WORLD_SIZE=1",
            "ROLE_WORLD_SIZE=2",
            "MASTER_ADDR=localhost",
            "MASTER_PORT=" + port,
            "TORCHELASTIC_RESTART_COUNT=0",
            "TORCHELASTIC_MAX_RESTARTS=0",
            "TORCHELASTIC_RUN_ID=none",
            "TORCHELASTIC_USE_AGENT_STORE=True",
            "TORCHELASTIC_ERROR_FILE=" + folder.path("error" + rank + ".json"),
            "TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
            "OMP_NUM_THREADS=1"};
  };
  Process second(words("torchrun"), folder.path("log1"), variables("1"));
  Process first(words("torchrun"), folder.path("log0"), variables("0"));
  for (Process* process : {&first, &second}) {
    const ProcessResult result = process->wait();
    EXPECT_EQ(result.exit_code, 0) << result.output;
  }
  EXPECT_TRUE(read_file(folder.path("own/model.safetensors")) ==
              read_file(folder.path("torchrun/model.safetensors")))
      << first.output();
}

// If a rank never connects, the error must name that rank after --ddp_timeout, here 2 s.
TEST(RunOfRanks, ARankThatNeverArrivesIsNamed) {
  const TestFolder folder("ranks_missing");
  const std::string model = write_tiny_model(folder);
  const auto words = words_of(model, folder.path("run"), {.ranks = 2}, 3, {"--ddp_timeout", "2"});
  for (const int here : {0, 1}) {
    const int port = free_port();
    const ProcessResult result = run_plimsoll(words, folder.path("log"), 30'000, variables_of(here, port));
    EXPECT_EQ(result.exit_code, 7) << result.output;
    const std::string missing = "Rank " + std::to_string(1 - here) +
                                " of 2 did not appear within 2 s at 127.0.0.1:" + std::to_string(port);
    EXPECT_NE(result.output.find(missing), std::string::npos) << result.output;
  }
}

TEST(RunOfRanks, MachinesWithDifferentNumbersOfRanksAreRefused) {
  const TestFolder folder("ranks_uneven");
  const std::string model = write_tiny_model(folder);
  const std::vector<std::string> words = words_of(model, folder.path("run"), {.ranks = 2}, 3);
  const ProcessResult result = run_plimsoll(words, folder.path("log"), 30'000,
                                            {"RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=3", "LOCAL_WORLD_SIZE=2",
                                             "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29999"});
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_NE(result.output.find(
                "the environment describes 3 ranks of which 2 run on this machine, but every machine of "
                "a run has the same number of ranks, and 3 is no multiple of 2"),
            std::string::npos)
      << result.output;
}

// Expects that each of these processes ends with the exit code of a wrong configuration and with these texts.
void expect_refusals(const std::vector<Process*>& processes, const std::vector<std::string>& texts) {
  for (Process* process : processes) {
    const ProcessResult result = process->wait(20'000);
    EXPECT_EQ(result.exit_code, 2) << result.output;
    for (const std::string& text : texts)
      EXPECT_NE(result.output.find(text), std::string::npos) << text << "\n" << result.output;
  }
}

// Ranks must run the same build of the program. One more byte at the end of a copy makes it a different build.
TEST(RunOfRanks, RanksWithDifferentProgramsAreRefused) {
  const TestFolder folder("ranks_programs");
  const std::string model = write_tiny_model(folder);
  const std::string other = folder.path("plimsoll");
  std::filesystem::copy_file(place("PLIMSOLL_PROGRAM", PLIMSOLL_BINARY_DIR "/plimsoll"), other);
  std::ofstream(other, std::ios::app) << 'x';
  const int port = free_port();
  const auto words = words_of(model, folder.path("run"), {.ranks = 2}, 3);
  Process first(words, folder.path("log0"), variables_of(0, port));
  const char* const before = std::getenv("PLIMSOLL_PROGRAM");
  const std::string kept = before == nullptr ? "" : before;
  setenv("PLIMSOLL_PROGRAM", other.c_str(), 1);
  Process second(words, folder.path("log1"), variables_of(1, port));
  setenv("PLIMSOLL_PROGRAM", kept.c_str(), 1);
  expect_refusals({&first, &second}, {"runs another build of the program than rank ", ": the hashes are "});
}

// If the settings of the ranks differ, the run ends with an error before the first step.
TEST(RunOfRanks, RanksWithDifferentSettingsAreRefused) {
  const TestFolder folder("ranks_differ");
  const std::string model = write_tiny_model(folder);
  const int port = free_port();
  Process first(words_of(model, folder.path("run"), {.ranks = 2}, 3), folder.path("log0"),
                variables_of(0, port));
  Process second(words_of(model, folder.path("run"), {.ranks = 2}, 3, {"--seed", "7"}), folder.path("log1"),
                 variables_of(1, port));
  expect_refusals({&first, &second}, {"rank 0 and rank 1 have different settings: --seed is 42 and 7"});
}

// The ranks have different output folders, as on machines without a shared file system, and only the folder of rank 0 has a checkpoint.
TEST(RunOfRanks, RanksThatReadDifferentCheckpointsAreRefused) {
  const TestFolder folder("ranks_resume_differ");
  const std::string model = write_tiny_model(folder);
  const std::string run = folder.path("run");
  ASSERT_EQ(run_plimsoll(words_of(model, run, {.ranks = 2}, 2), folder.path("log")).exit_code, 0);
  const int port = free_port();
  const std::vector<std::string> resume{"--resume_from_checkpoint", "True"};
  Process first(words_of(model, run, {.ranks = 2}, 4, resume), folder.path("log0"), variables_of(0, port));
  Process second(words_of(model, folder.path("other"), {.ranks = 2}, 4, resume), folder.path("log1"),
                 variables_of(1, port));
  expect_refusals({&first, &second}, {"rank 1 does not have the checkpoint of rank 0"});
}

// The measured time of an evaluation differs between ranks. Decisions that depend on it must be those of rank
// 0, so that all stop after the same step.
TEST(RunOfRanks, DecisionsFollowTheMetricsOfTheFirstRank) {
  const TestFolder folder("ranks_decide");
  const std::string model = write_tiny_model(folder);
  for (const char* run : {"a", "b", "c"}) {
    const ProcessResult result =
        run_plimsoll(words_of(model, folder.path(run), {.ranks = 3}, 12,
                              {"--eval_strategy", "steps", "--eval_steps", "1", "--save_strategy", "steps",
                               "--save_steps", "1", "--metric_for_best_model", "eval_runtime",
                               "--load_best_model_at_end", "--early_stopping_patience", "2"}),
                     folder.path("log"));
    EXPECT_EQ(result.exit_code, 0) << result.output;
  }
}

TEST(RunOfRanks, AskingForMoreRanksThanWereStartedIsRefused) {
  const TestFolder folder("ranks_number");
  const std::string model = write_tiny_model(folder);
  std::vector<std::string> words = words_of(model, folder.path("run"), {.ranks = 1}, 3, {"--nnodes", "2"});
  const ProcessResult result = run_plimsoll(words, folder.path("log"));
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_NE(result.output.find("asks for 2 ranks, but the environment describes 1"), std::string::npos)
      << result.output;
}

}  // namespace
}  // namespace plimsoll::testing
