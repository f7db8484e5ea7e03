#include <gtest/gtest.h>

#include "graph/passes/testing/pass_text.h"

namespace plimsoll {
namespace {

using testing::replaced;
using testing::unchanged;

std::string after(const std::string& text) {
  return print_graph(testing::after_pass(text, in_place_pass()));
}

constexpr const char* kChain =
    "graph g {\n"
    "  input %x: f32[T,4]\n"
    "  forward @m\n"
    "  %a: f32[T,4] = gelu(%x)\n"
    "  %b: f32[T,4] = relu(%a)\n"
    "  %y: f32[T,4] !output = tanh(%b)\n"
    "}\n";

// The host reads and writes the memory of program inputs and outputs. No op overwrites it with another value, and outputs do not overwrite
// other values.
TEST(InPlace, AnOutputTakesTheBytesOfAnOperandThatDies) {
  EXPECT_EQ(after(kChain), replaced(unchanged(kChain), "%b: f32[T,4] = relu", "%b: f32[T,4] into %a = relu"));
}

TEST(InPlace, AnOperandThatIsReadLaterKeepsItsBytes) {
  const std::string text = replaced(kChain, "tanh(%b)", "add(%b, %a)");
  EXPECT_EQ(after(text), unchanged(text));
}

TEST(InPlace, AnOperandThatIsReadTwiceKeepsItsBytes) {
  const std::string text = replaced(kChain, "relu(%a)", "add(%a, %a)");
  EXPECT_EQ(after(text), unchanged(text));
}

TEST(InPlace, OtherSizesAreOtherBytes) {
  const std::string text =
      "graph g {\n"
      "  input %x: f32[T,4]\n"
      "  weight %w: f32[4,4]\n"
      "  forward @m\n"
      "  %a: f32[T,4] = gelu(%x)\n"
      "  %b: f32[T,4] = matmul(%a, %w, _, _, _) {ta=0, tb=1}\n"
      "  %c: bf16[T,4] = cast(%b) {dtype=\"bf16\"}\n"
      "  %y: bf16[T,4] !output = gelu(%c)\n"
      "}\n";
  EXPECT_EQ(after(text), unchanged(text));
}

// The sum overwrites the operand that no later op reads; this may be either operand.
TEST(InPlace, EitherOperandOfASum) {
  const std::string text =
      "graph g {\n"
      "  input %x: f32[T,4]\n"
      "  forward @m\n"
      "  %a: f32[T,4] = gelu(%x)\n"
      "  %b: f32[T,4] = tanh(%x)\n"
      "  %s: f32[T,4] = add(%a, %b)\n"
      "  %t: f32[T,4] = matmul(%s, %w, _, _, _) {ta=0, tb=1}\n"
      "  %y: f32[T,4] !output = add(%t, %a)\n"
      "}\n";
  const std::string with_weight = replaced(text, "  forward", "  weight %w: f32[4,4]\n  forward");
  EXPECT_EQ(after(with_weight),
            replaced(unchanged(with_weight), "%s: f32[T,4] = add", "%s: f32[T,4] into %b = add"));
}

}  // namespace
}  // namespace plimsoll
