// What a user or the world does wrong ends with the right exit code and a message that says what, where and
// what to do; what only looks odd is accepted. Every case runs the real program.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "tests/bad_input/binary.h"
#include "tests/bad_input/ground.h"

namespace plimsoll::testing {
namespace {

const Ground& ground() {
  static const Ground the_ground;
  return the_ground;
}

void run_cases(const std::vector<Case>& cases) {
  ASSERT_FALSE(cases.empty());
  ASSERT_TRUE(ground().is_good()) << ground().complaint();
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const ProcessResult result = run_plimsoll(one.command(ground()), ground().path("log"));
    EXPECT_FALSE(result.timed_out);
    EXPECT_EQ(result.signal, 0);
    EXPECT_EQ(result.exit_code, one.exit_code) << result.output;
    EXPECT_EQ(result.output.find("internal error"), std::string::npos) << result.output;
    for (const std::string& word : one.words) {
      EXPECT_NE(result.output.find(word), std::string::npos) << "'" << word << "' is not in:\n"
                                                             << result.output;
    }
    if (one.exit_code == 0) continue;
    // The last line is the message; it is one a person can read.
    EXPECT_LT(result.output.size(), 8000u);
    EXPECT_TRUE(std::ranges::all_of(result.output, [](char c) {
      const auto byte = static_cast<unsigned char>(c);
      return byte >= 32 || byte == '\n' || byte == '\t';
    })) << "control characters reached the terminal";
  }
}

TEST(BadInput, Weights) {
  run_cases(weight_cases());
}
TEST(BadInput, Configurations) {
  run_cases(config_cases());
}
TEST(BadInput, Tokenizers) {
  run_cases(tokenizer_cases());
}
TEST(BadInput, Data) {
  run_cases(data_cases());
}
TEST(BadInput, Arguments) {
  run_cases(argument_cases());
}
TEST(BadInput, Adapters) {
  run_cases(adapter_cases());
}
TEST(BadInput, Checkpoints) {
  run_cases(checkpoint_cases());
}

// A full disk behind standard output is told by the exit code of every subcommand, and by one line. A run
// that trains has saved its model all the same.
TEST(BadInput, StandardOutputThatTakesNothing) {
  ASSERT_TRUE(ground().is_good()) << ground().complaint();
  const std::string out = ground().path("printed_nowhere");
  Words train = ground().train(ground().data(), {"--max_steps", "1", "--output_dir", out});
  std::erase(train, "--dry_run");
  const Words eval = {
      "eval", "--model_name_or_path", ground().model(), "--validation_file", ground().data(), "--output_dir",
      out};
  for (const Words& command : {Words{"--help"}, Words{"--version"}, Words{"train", "--help"}, train,
                               ground().plan(ground().model()), eval, ground().predict(ground().model()),
                               Words{"inspect", ground().model()}, ground().tokenize(ground().model())}) {
    SCOPED_TRACE(command.front());
    const ProcessResult result = Process(command, ground().path("log"), {}, "/dev/full").wait();
    EXPECT_EQ(result.exit_code, 7) << result.output;
    const std::string line = "plimsoll: standard output cannot be written: No space left on device";
    const size_t at = result.output.find(line);
    ASSERT_NE(at, std::string::npos) << result.output;
    EXPECT_EQ(result.output.find('\n', at), result.output.size() - 1) << result.output;
  }
  EXPECT_TRUE(std::filesystem::exists(out + "/model.safetensors"));
}

// What a plan says of its data is what the run says before it begins, word for word.
TEST(BadInput, APlanOfDataIsThatOfTheRun) {
  ASSERT_TRUE(ground().is_good()) << ground().complaint();
  const Words common = {"--config_name", ground().model(), "--num_threads", "1", "--device", "cpu"};
  const Words with_file = {"--tokenizer_name", ground().model(),    "--train_file", ground().data(),
                           "--do_eval",        "--validation_file", ground().data()};
  const Words with_dummy = {"--dataset_name", "dummy", "--dummy_seq_length", "8"};
  for (const Words& data : {with_file, with_dummy}) {
    SCOPED_TRACE(data[0]);
    Words plan = {"plan"};
    plan.insert(plan.end(), common.begin(), common.end());
    plan.insert(plan.end(), data.begin(), data.end());
    Words run = plan;
    run[0] = "train";
    run.insert(run.end(), {"--dry_run", "--output_dir", ground().path("out")});
    std::vector<std::string> printed;
    for (const Words& words : {plan, run}) {
      const std::string out = ground().path("printed");
      std::filesystem::remove(out);
      EXPECT_EQ(Process(words, ground().path("log"), {}, out).wait().exit_code, 0);
      printed.push_back(read_file(out));
    }
    EXPECT_GT(printed[0].size(), 500u);
    EXPECT_EQ(printed[0], printed[1]);
  }
}

TEST(BadInput, TheTableIsLargeAndNamesAreUnique) {
  std::set<std::string> names;
  size_t count = 0;
  size_t bad = 0;
  for (const auto& cases : {weight_cases(), config_cases(), tokenizer_cases(), data_cases(), argument_cases(),
                            adapter_cases(), checkpoint_cases()}) {
    for (const Case& one : cases) {
      names.insert(one.name);
      ++count;
      bad += one.exit_code == 0 ? 0 : 1;
    }
  }
  EXPECT_EQ(names.size(), count);
  EXPECT_GE(bad, 160u);
}

}  // namespace
}  // namespace plimsoll::testing
