#include <gtest/gtest.h>

#include "graph/passes/testing/pass_text.h"

namespace plimsoll {
namespace {

using testing::replaced;
using testing::unchanged;

std::string after(const std::string& text) {
  return print_graph(testing::after_pass(text, common_subexpression_pass()));
}

// If merging two ops makes two later ops equal, these are merged too.
TEST(CommonSubexpression, EqualExpressionsAreComputedOnce) {
  EXPECT_EQ(after("graph g {\n"
                  "  input %x: f32[B,4]\n"
                  "  forward @m\n"
                  "  %a: f32[B,4] = gelu(%x)\n"
                  "  %b: f32[B,4] = gelu(%x)\n"
                  "  %c: f32[B,4] = relu(%a)\n"
                  "  %d: f32[B,4] = relu(%b)\n"
                  "  %y: f32[B,4] !output = add(%c, %d)\n"
                  "}\n"),
            "graph g {\n"
            "  input %x: f32[B,4]\n"
            "  forward @m\n"
            "  %a: f32[B,4] = gelu(%x)\n"
            "  %c: f32[B,4] = relu(%a)\n"
            "  %y: f32[B,4] !output = add(%c, %c)\n"
            "}\n");
}

constexpr const char* kDropouts =
    "graph g {\n"
    "  input %x: f32[B,4]\n"
    "  input %rng: i64[2]\n"
    "  forward @m\n"
    "  %a: f32[B,4] = dropout(%x, %rng) {p=0.1, site=1}\n"
    "  %b: f32[B,4] = dropout(%x, %rng) {p=0.1, site=2}\n"
    "  %y: f32[B,4] !output = add(%a, %b)\n"
    "}\n";

TEST(CommonSubexpression, AttributesArePartOfAnExpression) {
  EXPECT_EQ(after(kDropouts), unchanged(kDropouts));
  const std::string equal = replaced(kDropouts, "site=2", "site=1");
  EXPECT_NE(after(equal).find("add(%a, %a)"), std::string::npos) << after(equal);
}

TEST(CommonSubexpression, OutputsAndNewVersionsStay) {
  const std::string outputs =
      "graph g {\n"
      "  input %x: f32[B,4]\n"
      "  forward @m\n"
      "  %a: f32[B,4] !output = gelu(%x)\n"
      "  %b: f32[B,4] !output = gelu(%x)\n"
      "}\n";
  EXPECT_EQ(after(outputs), unchanged(outputs));
  const std::string version =
      "graph g {\n"
      "  input %x: f32[B,4]\n"
      "  forward @m\n"
      "  %a: f32[B,4] = gelu(%x)\n"
      "  %b: f32[B,4] = relu(%a)\n"
      "  %c: f32[B,4] into %a = relu(%a)\n"
      "  %y: f32[B,4] !output = add(%b, %c)\n"
      "}\n";
  EXPECT_EQ(after(version), unchanged(version));
}

// If the gradient of a parameter is merged with an equal value, the value that remains is marked as a parameter gradient.
TEST(CommonSubexpression, TheMergedValueStaysAGradient) {
  const std::string text =
      "graph g {\n"
      "  input %x: f32[B,4]\n"
      "  forward @m\n"
      "  %a: f32[B,4] = gelu(%x)\n"
      "  %b: f32[B,4] !gradient = gelu(%x)\n"
      "  %y: f32[B,4] !output = add(%a, %b)\n"
      "}\n";
  EXPECT_NE(after(text).find("%a: f32[B,4] !gradient = gelu(%x)"), std::string::npos) << after(text);
}

}  // namespace
}  // namespace plimsoll
