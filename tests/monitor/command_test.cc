// Tests `plimsoll monitor` as a separate process, with machines that a fake driver simulates.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/bad_input/binary.h"
#include "tests/monitor/fake_driver.h"

namespace plimsoll::testing {
namespace {

std::string log_file() {
  return ::testing::TempDir() + "/plimsoll_monitor_" + std::to_string(getpid());
}

class MonitorCommand : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(log_file()); }
};

std::vector<std::string> environment(const std::string& machine, const std::string& kind = "driver") {
  return {"LD_LIBRARY_PATH=" + driver_folder(kind), "PLIMSOLL_FAKE_GPUS=" + machine};
}

std::vector<std::string> monitor_arguments(std::vector<std::string> words) {
  words.insert(words.begin(), "monitor");
  return words;
}

ProcessResult monitor(const std::string& machine, const std::vector<std::string>& words,
                      const std::string& kind = "driver") {
  return run_plimsoll(monitor_arguments(words), log_file(), 60000, environment(machine, kind));
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(MonitorCommand, ShowsEveryGpu) {
  const ProcessResult result = monitor("several", {});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(result.output.starts_with("driver 580.65.06, CUDA up to 13.0, 2 GPUs\n")) << result.output;
  EXPECT_TRUE(holds(result.output, "\nGPU 1  NVIDIA GeForce RTX 3090")) << result.output;
  EXPECT_TRUE(holds(result.output, "\nall 2 GPUs\n")) << result.output;
}

TEST_F(MonitorCommand, OneOfThem) {
  const ProcessResult result = monitor("several", {"--device", "1", "--capabilities"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_FALSE(holds(result.output, "GPU 0")) << result.output;
  EXPECT_FALSE(holds(result.output, "all ")) << result.output;
  EXPECT_TRUE(holds(result.output, "  bf16          yes  ")) << result.output;
  EXPECT_TRUE(holds(result.output, "  fp8           no   ")) << result.output;
}

TEST_F(MonitorCommand, WithoutAGpuTheHostIsShown) {
  for (const auto& [machine, kind] :
       {std::pair("none", "driver"), {"not_loaded", "driver"}, {"one", "old_driver"}}) {
    const ProcessResult result = monitor(machine, {}, kind);
    EXPECT_EQ(result.exit_code, 0) << machine;
    EXPECT_TRUE(result.output.starts_with("No GPU to show: ")) << result.output;
    EXPECT_TRUE(holds(result.output, "\nhost\n")) << result.output;
  }
  const ProcessResult result = monitor("none", {"--json"});
  const auto json = nlohmann::json::parse(result.output);
  EXPECT_TRUE(json["gpus"].empty());
  EXPECT_EQ(json["why_no_gpu"], "the NVIDIA driver lists none");
  EXPECT_GT(json["host"]["memory_total_mib"], 0);
}

TEST_F(MonitorCommand, WithoutAGpuWhatWasAskedOfItIsNamed) {
  const auto first_line = [](const std::string& machine, const std::vector<std::string>& words) {
    const ProcessResult result = monitor(machine, words);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return result.output.substr(0, result.output.find('\n'));
  };
  EXPECT_EQ(first_line("none", {"--capabilities"}),
            "No GPU to show: the NVIDIA driver lists none; the figures are those of the host.");
  EXPECT_TRUE(holds(monitor("none", {"--capabilities"}).output, "\n  bf16          "))
      << "the CPU has capabilities";
  EXPECT_EQ(
      first_line("not_loaded", {"--context", "--capabilities"}),
      "No GPU to show, and none whose CUDA context --context could measure: NVIDIA's management library "
      "(NVML) does not start: the NVIDIA driver is not loaded; the figures are those of the host.");
  EXPECT_EQ(first_line("none", {"--context"}),
            "No GPU to show, and none whose CUDA context --context could measure: the NVIDIA driver lists "
            "none; the figures are those of the host.");
}

TEST_F(MonitorCommand, AGpuThatIsAskedForAndAbsentIsAnError) {
  for (const char* machine : {"several", "none", "not_loaded"}) {
    const ProcessResult result = monitor(machine, {"--device", "2"});
    EXPECT_EQ(result.exit_code, 7) << result.output;
    EXPECT_TRUE(holds(result.output, "--device 2: ")) << result.output;
  }
  EXPECT_TRUE(holds(monitor("several", {"--device", "2"}).output, "the driver lists 2 GPUs"));
  // CUDA sees no GPU here: the environment hides the real ones, and the simulated ones exist only for NVML.
  // The device cuda:0 therefore does not exist.
  EXPECT_EQ(monitor("several", {"--device", "cuda:0"}).exit_code, 7);
}

TEST_F(MonitorCommand, WordsThatItDoesNotKnow) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--loud"}, "unknown option '--loud'"},       {{"extra"}, "unknown argument 'extra'"},
      {{"--device"}, "--device needs a value"},      {{"--device", "first"}, "--device first: expected"},
      {{"--device", "-1"}, "--device -1: expected"}, {{"--watch", "soon"}, "--watch soon: expected seconds"},
      {{"--watch", "0"}, "--watch 0: expected"},     {{"--watch=nan"}, "--watch nan: expected"}};
  for (const auto& [words, message] : cases) {
    const ProcessResult result = monitor("one", words);
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_TRUE(holds(result.output, message)) << result.output;
  }
  const ProcessResult help = monitor("one", {"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_TRUE(holds(help.output, "--capabilities")) << help.output;
}

TEST_F(MonitorCommand, TopologyShowsTheLinks) {
  const ProcessResult result = monitor("bridges", {"--topology"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(holds(result.output, "\nGPU0     X      NV12    SYS     SYS")) << result.output;
  EXPECT_TRUE(holds(result.output, "\nNV12: GPU 0 and 1, 2 and 3\n")) << result.output;
  const auto json = nlohmann::json::parse(monitor("hgx", {"--topology", "--json"}).output);
  ASSERT_EQ(json["links"].size(), 28u);
  for (const auto& link : json["links"]) {
    EXPECT_EQ(link["link"], "NV18");
    EXPECT_EQ(link["gb_per_s"], 450);
    EXPECT_EQ(link["through_nvswitch"], true);
  }
}

TEST_F(MonitorCommand, TopologyWithoutAGpuShowsTheNodes) {
  const ProcessResult result = monitor("none", {"--topology"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(result.output.starts_with("No GPU to show: the NVIDIA driver lists none; ")) << result.output;
  EXPECT_TRUE(holds(result.output, "\nWhat ranks on CPUs use\n")) << result.output;
  const auto json = nlohmann::json::parse(monitor("not_loaded", {"--topology", "--json"}).output);
  EXPECT_TRUE(json["gpus"].empty());
  EXPECT_FALSE(json["usable_cpus"].empty());
}

TEST_F(MonitorCommand, TopologyIsOfAllGpusAndOfNow) {
  for (const char* option : {"--watch", "--capabilities", "--context"}) {
    const ProcessResult result = monitor("hgx", {"--topology", option});
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_TRUE(holds(result.output, std::string("omit ") + option)) << result.output;
  }
}

// CUDA cannot create a context on a simulated card. The monitor must report that the context was not measured,
// and must not fail.
TEST_F(MonitorCommand, AContextThatCannotBeMadeIsNoError) {
  const ProcessResult result = monitor("one", {"--context"});
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_TRUE(holds(result.output, "  context       not measured: ")) << result.output;
}

// Runs `plimsoll monitor` until it has printed this number of lines, and then sends it the signal.
ProcessResult watch(const std::vector<std::string>& words, int64_t num_lines, int signal) {
  Process process(monitor_arguments(words), log_file(), environment("several"));
  const auto lines = [&] { return std::ranges::count(process.output(), '\n'); };
  for (int i = 0; i < 20000 && process.is_running() && lines() < num_lines; ++i) sleep_us(1000);
  EXPECT_GE(lines(), num_lines);
  process.send(signal);
  return process.wait(10000);
}

TEST_F(MonitorCommand, WatchingAppendsLinesUntilASignal) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const ProcessResult result = watch({"--watch", "0.05"}, 6, signal);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    std::istringstream lines(result.output);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_TRUE(holds(line, "Z  GPU ")) << line;
      EXPECT_FALSE(holds(line, "\033")) << line;
    }
  }
}

TEST_F(MonitorCommand, WatchingInJsonIsAnObjectALine) {
  const ProcessResult result = watch({"--json", "--watch=0.05"}, 3, SIGINT);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  std::istringstream lines(result.output);
  int samples = 0;
  for (std::string line; std::getline(lines, line); ++samples)
    EXPECT_EQ(nlohmann::json::parse(line)["gpus"].size(), 2u);
  EXPECT_GE(samples, 3);
}

// The default interval of one second must not delay Ctrl-C by more than that.
TEST_F(MonitorCommand, WatchingEndsWithinItsWait) {
  const ProcessResult result = watch({"--watch"}, 2, SIGINT);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_FALSE(result.timed_out);
}

// A run on a CPU must not open the driver, which takes memory that the plan of such a run does not include.
TEST_F(MonitorCommand, ARunOnACpuLeavesTheDriverClosed) {
  const std::string folder = ::testing::TempDir() + "/plimsoll_cpu_run_" + std::to_string(getpid());
  std::vector<std::string> with = environment("one");
  with.emplace_back("LD_DEBUG=files");
  const auto is_opened_by = [&](const std::vector<std::string>& words) {
    const ProcessResult result = run_plimsoll(words, log_file(), 60000, with);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return holds(result.output, "file=libnvidia-ml.so.1");
  };
  EXPECT_TRUE(is_opened_by({"monitor"}));
  const std::string sizes =
      "num_hidden_layers=1,hidden_size=32,num_attention_heads=2,intermediate_size=32,vocab_size=256";
  EXPECT_FALSE(
      is_opened_by({"train", "--config_name", "bert-base-uncased", "--config_overrides", sizes,
                    "--dataset_name", "dummy", "--dummy_num_samples", "8", "--dummy_seq_length", "8",
                    "--max_steps", "1", "--save_strategy", "no", "--device", "cpu", "--output_dir", folder}));
  std::filesystem::remove_all(folder);
}

TEST_F(MonitorCommand, AFullDiskEndsTheWatch) {
  Process process(monitor_arguments({"--watch", "0.05"}), log_file(), environment("one"), "/dev/full");
  const ProcessResult result = process.wait(20000);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 7) << result.output;
}

}  // namespace
}  // namespace plimsoll::testing
