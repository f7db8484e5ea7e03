#include <gtest/gtest.h>

#include "graph/passes/testing/pass_text.h"

namespace plimsoll {
namespace {

using testing::replaced;
using testing::unchanged;

constexpr const char* kText =
    "graph g {\n"
    "  input %x: f32[B,4]\n"
    "  weight %w: f32[4]\n"
    "  forward @m\n"
    "  %a: f32[B,4] = gelu(%x)\n"
    "  %b: f32[B,4] = bias_add(%x, %w)\n"
    "  %c: f32[B,4] = relu(%b)\n"
    "  %y: f32[B,4] !output = tanh(%a)\n"
    "}\n";

std::string after(const std::string& text, std::vector<std::string> keep = {}) {
  return print_graph(testing::after_pass(text, dead_code_pass(std::move(keep))));
}

// The declaration of a weight stays even if no op reads the weight.
TEST(DeadCode, RemovesUnreadOpsAndTheirInputs) {
  EXPECT_EQ(after(kText),
            "graph g {\n"
            "  input %x: f32[B,4]\n"
            "  weight %w: f32[4]\n"
            "  forward @m\n"
            "  %a: f32[B,4] = gelu(%x)\n"
            "  %y: f32[B,4] !output = tanh(%a)\n"
            "}\n");
}

TEST(DeadCode, KeepsValuesThatAreReadFromOutside) {
  EXPECT_EQ(after(kText, {"c"}), unchanged(kText));
}

TEST(DeadCode, ANewVersionOfAWeightIsAnEffect) {
  const std::string text =
      replaced(replaced(kText, "  weight %w", "  input %flag: i32[1]\n  input %d: f32[4]\n  weight %w"),
               "\n}\n", "\n  optimizer @m\n  %w.1: f32[4] into %w = accumulate(%w, %flag, %d)\n}\n");
  const std::string left = after(text);
  EXPECT_NE(left.find("%w.1: f32[4] into %w = accumulate(%w, %flag, %d)"), std::string::npos) << left;
  EXPECT_EQ(left.find("relu"), std::string::npos) << left;
}

}  // namespace
}  // namespace plimsoll
