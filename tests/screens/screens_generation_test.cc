// Tests what `generate` prints and writes, and how signals end it.
#include <gtest/gtest.h>

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/bad_input/binary.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll::testing {
namespace {

using nlohmann::json;

std::string model() {
  return std::string(PLIMSOLL_SOURCE_DIR) + "/tests/parity/models/llama_lm";
}

std::string text_of(const std::string& path) {
  return test::ScratchFolder::read(path);
}

// Returns the arguments of a `generate` that takes minutes: end tokens are suppressed for the first 150000
// tokens.
std::vector<std::string> long_run(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"generate",
                                    "--model_name_or_path",
                                    model(),
                                    "--use_cpu",
                                    "--num_threads",
                                    "1",
                                    "--config_overrides",
                                    "max_position_embeddings=200000",
                                    "--max_new_tokens",
                                    "150000",
                                    "--min_new_tokens",
                                    "150000"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Waits until the condition is true, for example until a file contains some bytes. Returns false if that takes
// more than 10 s or if the process ends before.
template <typename Condition>
bool wait_until(Process& process, const Condition& condition) {
  for (int i = 0; i < 1000 && process.is_running(); ++i) {
    if (condition()) return true;
    sleep_us(10000);
  }
  return false;
}

class Interrupted : public ::testing::TestWithParam<int> {
 protected:
  test::ScratchFolder folder_;
};

// Returns the seconds of CPU time that a running process has used in user mode (proc(5), field 14 of stat).
double cpu_seconds(const Process& process) {
  std::istringstream fields(text_of("/proc/" + std::to_string(process.pid()) + "/stat"));
  std::string field;
  for (int i = 0; i < 14 && fields >> field; ++i) {
  }
  return std::atof(field.c_str()) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// A signal ends the run: the text so far is printed, and the exit code states that the run was interrupted.
TEST_P(Interrupted, TheTextSoFarIsPrinted) {
  const std::string out = folder_.path() + "/out";
  Process process(long_run({"this is good"}), folder_.path() + "/log", {}, out);
  ASSERT_TRUE(wait_until(process, [&] { return text_of(out).size() > 1000; }));
  process.send(GetParam());
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 6) << result.output;
  const std::string text = text_of(out);
  EXPECT_TRUE(text.starts_with("this is good ")) << text.substr(0, 100);
  EXPECT_TRUE(text.ends_with("\n"));
  EXPECT_NE(result.output.find("ending the texts; a second signal stops at once"), std::string::npos);
  EXPECT_NE(result.output.find("interrupted; the texts end with the tokens"), std::string::npos)
      << result.output;
}

INSTANTIATE_TEST_SUITE_P(Signals, Interrupted, ::testing::Values(SIGINT, SIGTERM, SIGHUP));

// After an interrupt, the output file must contain a complete line for each prompt that was started, and
// nothing else.
TEST(GenerationSignals, TheFileHasOnlyCompleteLines) {
  for (const std::string beams : {"1", "3"}) {
    SCOPED_TRACE(beams + " beams");
    const test::ScratchFolder folder;
    const std::string prompts = folder.write("prompts.txt", "this is good\nbad story\nmovie\n");
    const std::string file = folder.path() + "/texts.jsonl";
    Process process(long_run({"--prompt_file", prompts, "--per_device_eval_batch_size", "2", "--json", file,
                              "--num_beams", beams}),
                    folder.path() + "/log");
    ASSERT_TRUE(wait_until(process, [&] { return process.output().find("plan: ") != std::string::npos; }));
    // The run writes nothing before the texts end. Half a second of CPU time is enough to generate tens of tokens, also on a busy machine,
    // on which half a second of time may not be.
    const double at_plan = cpu_seconds(process);
    ASSERT_TRUE(wait_until(process, [&] { return cpu_seconds(process) > at_plan + 0.5; }));
    process.send(SIGINT);
    const ProcessResult result = process.wait();
    EXPECT_EQ(result.exit_code, 6) << result.output;
    std::ifstream lines(file);
    int num_lines = 0;
    for (std::string line; std::getline(lines, line); ++num_lines) {
      const json row = json::parse(line, nullptr, false);
      ASSERT_TRUE(row.is_object()) << line.substr(0, 100);
      EXPECT_EQ(row.at("end"), "interrupted");
      EXPECT_GT(row.at("tokens").size(), 10u);
    }
    EXPECT_EQ(num_lines, 2);
    EXPECT_TRUE(text_of(file).ends_with("\n"));
    EXPECT_NE(result.output.find("1 of 3 prompts were not begun"), std::string::npos) << result.output;
  }
}

TEST(GenerationSignals, ASecondSignalEndsTheProgramAtOnce) {
  const test::ScratchFolder folder;
  // The prefill of this long prompt is a single run of the model, so the program cannot end at once after the
  // first signal.
  std::string prompt;
  for (int i = 0; i < 8000; ++i) prompt += "good ";
  const std::string prompts = folder.write("prompts.txt", prompt + "\n");
  Process process(long_run({"--prompt_file", prompts, "--json", folder.path() + "/texts.jsonl"}),
                  folder.path() + "/log");
  ASSERT_TRUE(wait_until(process, [&] { return process.output().find("plan: ") != std::string::npos; }));
  sleep_us(300000);
  process.send(SIGINT);
  ASSERT_TRUE(
      wait_until(process, [&] { return process.output().find("ending the texts") != std::string::npos; }));
  process.send(SIGINT);
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 128 + SIGINT) << result.output;
}

// If `generate` refuses its arguments, it must not overwrite the output file of an earlier run, and must not
// create one.
TEST(GenerationFiles, ARefusedRunKeepsTheOlderFile) {
  const test::ScratchFolder folder;
  const std::string kept = folder.write("kept.jsonl", "older\n");
  const std::string absent = folder.path() + "/absent.jsonl";
  for (const std::string& file : {kept, absent}) {
    const ProcessResult result =
        run_plimsoll({"generate", "--model_name_or_path", model(), "--use_cpu", "--json", file, "good",
                      "--max_new_tokens", "20", "--memory_limit", "1MiB"},
                     folder.path() + "/log");
    EXPECT_EQ(result.exit_code, 3) << result.output;
  }
  EXPECT_EQ(text_of(kept), "older\n");
  EXPECT_FALSE(std::filesystem::exists(absent));
}

// Streamed output, batched output and the output file must contain the same text, although streaming prints it
// in pieces.
TEST(GenerationFiles, EveryWayGivesTheSameText) {
  const test::ScratchFolder folder;
  for (const std::string name : {"llama_lm", "gpt2_lm", "qwen3_lm", "mistral_lm"}) {
    SCOPED_TRACE(name);
    const std::vector<std::string> words = {"generate",
                                            "--model_name_or_path",
                                            std::string(PLIMSOLL_SOURCE_DIR) + "/tests/parity/models/" + name,
                                            "--use_cpu",
                                            "--num_threads",
                                            "1",
                                            "--max_new_tokens",
                                            "30"};
    const auto output_of = [&](std::vector<std::string> more) {
      more.insert(more.begin(), words.begin(), words.end());
      static int number = 0;
      const std::string out = folder.path() + "/out" + std::to_string(number++);
      Process process(more, folder.path() + "/log", {}, out);
      EXPECT_EQ(process.wait().exit_code, 0);
      return text_of(out);
    };
    const std::string streamed = output_of({"this is good"});
    EXPECT_EQ(streamed.find("##"), std::string::npos) << streamed;
    const std::string prompts = folder.write("prompts.txt", "this is good\nthis is good\n");
    EXPECT_EQ(output_of({"--prompt_file", prompts}), streamed + streamed);
    const json row = json::parse(output_of({"this is good", "--json", "-"}));
    EXPECT_EQ("this is good" + row.at("text").get<std::string>() + "\n", streamed);
  }
}

}  // namespace
}  // namespace plimsoll::testing
