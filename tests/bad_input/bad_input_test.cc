// What a user or the world does wrong ends with the right exit code and a message that says what, where and
// what to do; what only looks odd is accepted. Every case runs the real program.
#include <gtest/gtest.h>

#include <algorithm>
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
TEST(BadInput, Checkpoints) {
  run_cases(checkpoint_cases());
}

TEST(BadInput, TheTableIsLargeAndNamesAreUnique) {
  std::set<std::string> names;
  size_t count = 0;
  size_t bad = 0;
  for (const auto& cases : {weight_cases(), config_cases(), tokenizer_cases(), data_cases(), argument_cases(),
                            checkpoint_cases()}) {
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
