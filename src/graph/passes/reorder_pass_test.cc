#include <gtest/gtest.h>

#include "graph/passes/testing/pass_text.h"

namespace plimsoll {
namespace {

using testing::unchanged;

constexpr Bucket kBucket{.tokens = 64, .sequences = 8, .longest = 8};

constexpr const char* kHead =
    "graph g {\n"
    "  input %x: f32[T,4]\n"
    "  weight %w: f32[400,4]\n"
    "  weight %v: f32[4,400]\n"
    "  forward @m\n";

std::string after(const std::string& text) {
  return print_graph(testing::after_pass(text, reorder_pass(kBucket)));
}

// Two large values, each read by an op with a small result. The new order reads the first value before it computes the second one, so that
// only one of them is live.
TEST(Reorder, AWideValueIsDeadBeforeTheNextIsProduced) {
  const std::string first = "  %a: f32[T,400] = matmul(%x, %w, _, _, _) {ta=0, tb=1}\n";
  const std::string second = "  %b: f32[T,400] = matmul(%x, %w, _, _, _) {ta=0, tb=1}\n";
  const std::string narrow = "  %c: f32[T,4] = matmul(%a, %v, _, _, _) {ta=0, tb=1}\n";
  const std::string other = "  %d: f32[T,4] = matmul(%b, %v, _, _, _) {ta=0, tb=1}\n";
  const std::string sum = "  %y: f32[T,4] !output = add(%c, %d)\n}\n";
  EXPECT_EQ(after(kHead + first + second + narrow + other + sum),
            kHead + first + narrow + second + other + sum);
}

// The accumulate op reads the sum of %g over the ranks and keeps the slice of this rank. Running it earlier would free memory, but the
// program would then wait for the all_reduce, so the op is not moved.
TEST(Reorder, AnOpThatReadsASumDoesNotRunEarlier) {
  const std::string sum =
      "  %g: f32[400,4] = add(%w, %w)\n"
      "  %s: f32[400,4] into %g = all_reduce(%g) {ranks=2}\n"
      "  %a: f32[T,400] = matmul(%x, %w, _, _, _) {ta=0, tb=1}\n";
  const std::string slice = "  %k: f32[400,4] !divided=2 = accumulate(_, _, %s) {ranks=2}\n";
  const std::string narrow = "  %c: f32[T,4] !output = matmul(%a, %v, _, _, _) {ta=0, tb=1}\n";
  EXPECT_EQ(after(kHead + sum + slice + narrow + "}\n"), kHead + sum + narrow + slice + "}\n");
}

TEST(Reorder, AnOrderThatIsNoWorseStays) {
  const std::string text = std::string(kHead) +
                           "  %a: f32[T,400] = matmul(%x, %w, _, _, _) {ta=0, tb=1}\n"
                           "  %c: f32[T,4] = matmul(%a, %v, _, _, _) {ta=0, tb=1}\n"
                           "  %b: f32[T,4] = gelu(%x)\n"
                           "  %y: f32[T,4] !output = add(%c, %b)\n"
                           "}\n";
  EXPECT_EQ(after(text), unchanged(text));
}

}  // namespace
}  // namespace plimsoll
