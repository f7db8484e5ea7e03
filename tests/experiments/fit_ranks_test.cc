// Tests `plimsoll fit --gpus` and `plimsoll plan --links`: their results must equal the plans of single runs, and refusals state a remedy.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "plimsoll/experiments.h"
#include "plimsoll/fit.h"
#include "plimsoll/fit_ranks.h"
#include "plimsoll/plan.h"
#include "tests/bad_input/binary.h"
#include "tests/experiments/words.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {
namespace {

RankFitOptions options_of(const Words& words, int64_t gpus, const std::string& links) {
  RankFitOptions options{.arguments = arguments_of(words), .gpus = gpus};
  options.links = links;
  return options;
}

// Returns the words after "plimsoll train" in a command.
Words train_words(const std::string& command) {
  const std::string start = "plimsoll train ";
  std::istringstream stream(command.substr(command.find(start) + start.size()));
  Words words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

TEST(FitRanks, EveryRowIsThePlanOfItsCommand) {
  const Words model{"--config_name", "MiniLM-L6-H384-uncased", "--dataset_name", "dummy", "--device", "h100"};
  const RankFitReport report = fit_ranks(options_of(model, 64, "nvlink4,ib400"), {});
  ASSERT_GE(report.rows.size(), 4u);
  for (const RankFitRow& row : report.rows) {
    ASSERT_EQ(row.commands.size(), 2u);
    EXPECT_TRUE(row.commands[0].starts_with("torchrun --nnodes 8 --nproc_per_node 8 ")) << row.commands[0];
    EXPECT_TRUE(row.commands[1].starts_with("srun --nodes 8 --ntasks-per-node 8 ")) << row.commands[1];
    const PlanReport plan = plan_run_with_links(
        arguments_of(joined(train_words(row.commands[0]),
                            {"--nproc_per_node", "8", "--nnodes", "8", "--device", "h100"})),
        "nvlink4,ib400", {});
    EXPECT_EQ(row.samples_per_s, plan.speed.samples_per_s) << row.commands[0];
    // `plan` also plans an evaluation, which may need more memory than training.
    EXPECT_LE(row.bytes, plan.total_bytes) << row.commands[0];
    // The product of micro-batch, accumulation steps and data-parallel ranks must be the requested 512 sequences per step.
    EXPECT_EQ(row.micro_batch * row.accumulation * row.data_size, 512);
  }
  EXPECT_NE(report.links.find("nvlink4 inside 8 machines and ib400 between them, assumed (--links)"),
            std::string::npos)
      << report.links;
}

// With a slower network between the machines, the planned time of a step must be longer.
TEST(FitRanks, ASlowerNetworkIsWaitedFor) {
  const Words words{"--config_name",    "bert-base-uncased",
                    "--device",         "h100",
                    "--nproc_per_node", "8",
                    "--nnodes",         "8",
                    "--zero_stage",     "1"};
  const PlanReport fast = plan_run_with_links(arguments_of(words), "nvlink4,ib400", {});
  const PlanReport slow = plan_run_with_links(arguments_of(words), "nvlink4,eth10", {});
  EXPECT_LT(fast.speed.step_ms, slow.speed.step_ms);
  // The fp32 gradients of 109.5 M parameters have 438 MB. In an all-reduce over 64 ranks each rank sends 2 x 63
  // / 64 of them, which takes 945 ms at 73 % of a link's rate of 1.25 GB/s.
  EXPECT_GT(slow.speed.step_ms, 900);
  EXPECT_NE(slow.table.find("eth10 between"), std::string::npos) << slow.table;
}

TEST(FitRanks, RefusalsSayWhatToDo) {
  const TestFolder folder("fit_ranks");
  const auto refused = [&](const Words& words, const std::string& expected) {
    const ProcessResult result = run_plimsoll(words, folder.path("log"));
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_NE(result.output.find(expected), std::string::npos) << result.output;
  };
  const auto fit = [](const Words& more) {
    return joined({"fit", "--config_name", "MiniLM-L6-H384-uncased"}, more);
  };
  refused(fit({"--links", "nvlink4"}), "--links has no effect without --gpus");
  refused(fit({"--gpus", "0", "--device", "h100"}), "--gpus 0: expected an integer of at least 1");
  refused(fit({"--gpus", "12", "--device", "h100"}), "--gpus 12: the number must be a multiple of 8");
  refused(fit({"--gpus", "16", "--device", "h100,l4"}), "names several; give one");
  refused(fit({"--gpus", "16", "--device", "h100", "--links", "nvlink4"}),
          "--links nvlink4: this run is on 2 machines; also name the network between them");
  refused(fit({"--gpus", "16", "--device", "h100", "--links", "nvlink7,ib400"}),
          "the link 'nvlink7' is unknown");
  refused(fit({"--gpus", "16", "--device", "h100", "--prices", "x"}), "--prices has no effect with --gpus");
  refused(fit({"--gpus", "16", "--device", "h100", "--zero_stage", "0"}),
          "fit: --zero_stage: fit --gpus tries all values of it; omit it");
  refused(fit({"--gpus", "16", "--device", "h100", "--tp_size", "2"}), "fit: --tp_size: fit --gpus tries");
  refused(fit({"--gpus", "16", "--device", "h100", "--pp_size", "2"}), "fit: --pp_size: fit --gpus tries");
  refused(fit({"--gpus", "16", "--device", "h100", "--nnodes", "2"}),
          "fit: --nnodes: fit --gpus computes the number of machines from --gpus and --nproc_per_node");
  refused(fit({"--gpus", "16", "--device", "h100", "--recompute", "selective"}),
          "fit: --recompute selective: fit --gpus chooses what is recomputed");
  refused(fit({"--gpus", "16", "--device", "h100", "--deepspeed", R"({"zero_optimization": {"stage": 3}})"}),
          "fit: --zero_stage: fit --gpus tries all values of it");
  refused(fit({"--gpus", "8", "--device", "h100", "--per_device_train_batch_size", "2147483647",
               "--gradient_accumulation_steps", "2147483647"}),
          "--per_device_train_batch_size 2147483647 x --gradient_accumulation_steps 2147483647: "
          "these are 4611686014132420609 sequences per step on each GPU, but at most 65536 are possible");
  refused(fit({"--gpus", "2", "--device", "h100", "--effective_batch_size", "131073"}),
          "--effective_batch_size 131073: expected 1 to 131072 sequences for 2 GPUs");
  refused({"plan", "--config_name", "MiniLM-L6-H384-uncased", "--use_cpu", "--nproc_per_node", "2", "--links",
           "nvlink4"},
          "--links nvlink4: nvlink4 connects GPUs, but this run is on CPUs");
  refused({"plan", "--config_name", "MiniLM-L6-H384-uncased", "--phase", "generate", "--links", "nvlink4"},
          "--links applies only to one training run");
}

// An explicit --nproc_per_node 1 means machines with one GPU each, so `fit` must print commands for such
// machines, although 1 is also the default.
TEST(FitRanks, MachinesOfOneGpuAreCommandedAsSuch) {
  const TestFolder folder("fit_ranks_machines");
  const ProcessResult result =
      run_plimsoll({"fit", "--gpus", "4", "--nproc_per_node", "1", "--device", "h100", "--config_name",
                    "MiniLM-L6-H384-uncased", "--links", "nvlink4,ib400"},
                   folder.path("log"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(in_one_line(result.output).find("4 machines of 1 "), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("torchrun --nnodes 4 --nproc_per_node 1 "), std::string::npos)
      << result.output;
  EXPECT_EQ(result.output.find("--tp_size"), std::string::npos) << result.output;
}

// NCCL_P2P_DISABLE=1 must also keep the GPUs from mapping each other's memory, because mapped memory uses the same access. The plan must
// then contain NCCL's memory, and a note must state the reason.
TEST(FitRanks, NcclP2pDisableAlsoForbidsMappedMemory) {
  const TestFolder folder("fit_ranks_p2p");
  const Words words{"plan",
                    "--config_name",
                    "MiniLM-L6-H384-uncased",
                    "--dataset_name",
                    "dummy",
                    "--device",
                    "h100",
                    "--nproc_per_node",
                    "2"};
  for (const char* const value : {"1", "0"}) {
    setenv("NCCL_P2P_DISABLE", value, 1);
    const std::string output = in_one_line(run_plimsoll(words, folder.path("log")).output);
    unsetenv("NCCL_P2P_DISABLE");
    const bool is_disabled = std::string_view(value) == "1";
    EXPECT_EQ(output.find("NCCL of 2 GPUs") != std::string::npos, is_disabled) << output;
    EXPECT_EQ(output.find("NCCL_P2P_DISABLE is set") != std::string::npos, is_disabled) << output;
  }
}

// The report must repeat the notes of the program about the given arguments, for example that a link in --links has no effect, and state
// the sequence length that is planned.
TEST(FitRanks, RemarksAndLengthAreThoseOfTheRun) {
  const TestFolder folder("fit_ranks_remarks");
  const Words run{"--device",       "h100",      "--config_name", "gpt2",
                  "--problem_type", "causal_lm", "--block_size",  "2048"};
  const RankFitReport report = fit_ranks(options_of(run, 2, ""), {});
  const std::string idle = "--links: eth10 has no effect here: it connects machines, and this run is on one";
  EXPECT_EQ(fit_ranks(options_of(run, 2, "eth10"), {}).notes.back(), idle);
  const std::vector<std::string> notes =
      plan_run_with_links(arguments_of(joined(run, {"--nproc_per_node", "2"})), "nvlink4,eth10", {}).notes;
  EXPECT_EQ(std::count(notes.begin(), notes.end(), idle), 1);
  EXPECT_NE(in_one_line(report.table).find("gpt2, 1024 tokens,"), std::string::npos) << report.table;
  const FitReport one = fit_run({.arguments = arguments_of(run)}, {});
  EXPECT_EQ(report.warnings, one.warnings);
  EXPECT_EQ(report.notes, one.notes);
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_TRUE(report.warnings[0].starts_with("--block_size 2048 is more than the positions of the model"))
      << report.warnings[0];
}

TEST(FitRanks, PrintsATableAndJson) {
  const TestFolder folder("fit_ranks_print");
  const Words words{"fit",     "--gpus", "4", "--device", "h100", "--config_name", "MiniLM-L6-H384-uncased",
                    "--links", "pcie4"};
  const ProcessResult table = run_plimsoll(words, folder.path("log"));
  ASSERT_EQ(table.exit_code, 0) << table.output;
  EXPECT_NE(table.output.find("to train row\n  1  plimsoll train --nproc_per_node 4 "), std::string::npos)
      << table.output;
  const ProcessResult json = run_plimsoll(joined(words, {"--json"}), folder.path("log"));
  ASSERT_EQ(json.exit_code, 0) << json.output;
  const nlohmann::json object = nlohmann::json::parse(json.output);
  EXPECT_GE(object.at("rows").size(), 4u);
  EXPECT_GT(object.at("rows")[0].at("communication_bytes").get<int64_t>(), 0);
}

// `bench --parallel` compares DDP (distributed data parallelism) with the other methods on Hugging Face's page about
// training on several GPUs. DDP must be the first row, and each other row must differ from it in one setting.
TEST(ParallelExperiments, HaveTheRowsOfThePage) {
  const std::vector<Experiment> gpu = parallel_experiments(ExperimentDevice::kGpu, 2, {});
  ASSERT_EQ(gpu.size(), 7u);
  EXPECT_EQ(gpu[0].name, "2 x DDP");
  EXPECT_EQ(gpu[1].name, "2 x DataParallel");
  EXPECT_EQ(gpu[2].environment, Words{"NCCL_P2P_DISABLE=1"});
  for (const Experiment& row : gpu) {
    const Arguments arguments = arguments_of(row.words);
    EXPECT_EQ(arguments.nproc_per_node, 2) << row.name;
    EXPECT_EQ(arguments.config_name, "gpt2") << row.name;
    EXPECT_EQ(arguments.data_parallel_mode, row.name == "2 x DataParallel" ? "dp" : "ddp");
    EXPECT_EQ(arguments.ddp_backend,
              row.name.find("NVLink") != std::string::npos || row.name.find("NCCL") != std::string::npos
                  ? "nccl"
                  : "");
    // The runs on Hugging Face's page have 200 steps with 4 sequences per process.
    EXPECT_EQ(arguments.dummy_num_samples, 200 * 4 * 2);
    EXPECT_EQ(arguments.per_device_train_batch_size, 4);
  }
  EXPECT_EQ(arguments_of(gpu[6].words).zero_stage, 3);
  EXPECT_EQ(parallel_experiments(ExperimentDevice::kCpu, 4, {}).size(), 5u);
}

}  // namespace
}  // namespace plimsoll::testing
