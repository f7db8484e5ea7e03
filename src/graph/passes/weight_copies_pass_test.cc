// Tests the passes that let matrix products read 16-bit copies of their weights: copies that persist, copies that are made right before
// each product, and the removal of fp32 weights that are no longer read.
#include <gtest/gtest.h>

#include "graph/passes/testing/pass_text.h"

namespace plimsoll {
namespace {

using testing::kSharedWeight;
using testing::replaced;
using testing::unchanged;

std::string with_copies(const std::string& text, DType gradients) {
  return print_graph(testing::after_pass(text, weight_copies_pass(gradients)));
}

// The expected graph: the weight and the bias that 16-bit matrix products read have persistent 16-bit copies, which two products share.
constexpr const char* kCopied = R"(graph g {
  input %x: bf16[T,4]
  input %u: f32[T,4]
  weight %w: f32[4,4]
  weight %b: f32[4]
  weight %w.bf16: bf16[4,4]
  weight %b.bf16: bf16[4]
  forward @m
  %a: bf16[T,4] = matmul(%x, %w.bf16, %b.bf16, _, _) {ta=0, tb=1}
  %c: bf16[T,4] !output = matmul(%a, %w.bf16, _, _, _) {ta=0, tb=1}
  %d: f32[T,4] !output = matmul(%u, %w, %b, _, _) {ta=0, tb=1}
}
)";

TEST(WeightCopies, ProductsOf16BitsShareOneCopyAndOthersReadTheMaster) {
  EXPECT_EQ(with_copies(kSharedWeight, DType::kBF16), kCopied);
}

// If gradients shall have another type than the activations, every product that reads a 16-bit copy gets the attribute gradient_dtype,
// which states that type.
TEST(WeightCopies, ProductsStateTheTypeOfTheirGradients) {
  const std::string once = replaced(kCopied, "%b.bf16, _, _) {", "%b.bf16, _, _) {gradient_dtype=\"f32\", ");
  EXPECT_EQ(with_copies(kSharedWeight, DType::kF32),
            replaced(once, "%a, %w.bf16, _, _, _) {", "%a, %w.bf16, _, _, _) {gradient_dtype=\"f32\", "));
}

// The gradient of a tied table is taken with respect to one value, the copy. If the embedding lookup read the fp32 weight instead, its part
// of the gradient would be lost.
TEST(WeightCopies, ATableThatIsTheWeightOfAProductIsReadAsItsCopy) {
  const std::string text = R"(graph g {
  input %cu_seqlens: i32[B+1]
  input %ids: i32[T]
  weight %w: f32[6,4]
  weight %other: f32[6,4]
  forward @m
  %x: bf16[T,4] = embedding_sum(%cu_seqlens, %ids, %w, %ids, %other) {dtype="bf16"}
  %y: bf16[T,6] !output = matmul(%x, %w, _, _, _) {ta=0, tb=1}
}
)";
  EXPECT_NE(with_copies(text, DType::kBF16).find("embedding_sum(%cu_seqlens, %ids, %w.bf16, %ids, %other)"),
            std::string::npos)
      << with_copies(text, DType::kBF16);
}

TEST(WeightCopies, OnlyFp32WeightsHaveCopies) {
  for (const auto& [from, to] :
       {std::pair("weight %w: f32", "weight %w: bf16"), std::pair("weight %w: f32", "input %w: f32")}) {
    const std::string text = replaced(replaced(kSharedWeight, "%x, %w, %b", "%x, %w, _"), from, to);
    EXPECT_EQ(with_copies(text, DType::kBF16), unchanged(text));
  }
}

TEST(WeightCopies, ProductsOfFp32ReadNoCopy) {
  const std::string text = replaced(
      replaced(replaced(kSharedWeight, "%x: bf16", "%x: f32"), "%a: bf16", "%a: f32"), "%c: bf16", "%c: f32");
  EXPECT_EQ(with_copies(text, DType::kBF16), unchanged(text));
}

TEST(CopiesAtUse, AMatrixIsCopiedBeforeEachProductAndABiasIsKept) {
  EXPECT_EQ(print_graph(testing::after_pass(kCopied, copies_at_use_pass(DType::kBF16))), R"(graph g {
  input %x: bf16[T,4]
  input %u: f32[T,4]
  weight %w: f32[4,4]
  weight %b: f32[4]
  weight %b.bf16: bf16[4]
  forward @m
  %w.read: bf16[4,4] = cast(%w) {dtype="bf16"}
  %a: bf16[T,4] = matmul(%x, %w.read, %b.bf16, _, _) {ta=0, tb=1}
  %w.read.1: bf16[4,4] = cast(%w) {dtype="bf16"}
  %c: bf16[T,4] !output = matmul(%a, %w.read.1, _, _, _) {ta=0, tb=1}
  %d: f32[T,4] !output = matmul(%u, %w, %b, _, _) {ta=0, tb=1}
}
)");
}

// The pass does not change a copy that an update writes, nor a copy in a 16-bit type other than the one given to the pass.
TEST(CopiesAtUse, ACopyThatAnUpdateWritesAndOneOfAnotherTypeStay) {
  const std::string updated = replaced(
      kCopied, "\n}\n", "\n  optimizer @m\n  %new: bf16[4,4] into %w.bf16 = cast(%w) {dtype=\"bf16\"}\n}\n");
  EXPECT_EQ(print_graph(testing::after_pass(updated, copies_at_use_pass(DType::kBF16))), unchanged(updated));
  EXPECT_EQ(print_graph(testing::after_pass(kCopied, copies_at_use_pass(DType::kF16))), unchanged(kCopied));
}

std::string split(const std::string& text) {
  return print_graph(testing::after_pass(text, split_weights_pass(DType::kBF16)));
}

// Returns the text of the test graph without its fp32 matrix product, so that all remaining ops read the 16-bit copies of the weights.
const std::string& only_copies() {
  static const std::string text =
      replaced(replaced(kCopied, "  %d: f32[T,4] !output = matmul(%u, %w, %b, _, _) {ta=0, tb=1}\n", ""),
               "  input %u: f32[T,4]\n", "");
  return text;
}

TEST(SplitWeights, AnUnreadMasterIsRemoved) {
  EXPECT_EQ(split(only_copies()), replaced(replaced(unchanged(only_copies()), "  weight %w: f32[4,4]\n", ""),
                                           "  weight %b: f32[4]\n", ""));
}

TEST(SplitWeights, AMasterThatIsReadStays) {
  EXPECT_EQ(split(kCopied), unchanged(kCopied));
  const std::string one = replaced(only_copies(), "\n}\n", "\n  %z: f32[4] !output = tanh(%b)\n}\n");
  EXPECT_EQ(split(one), replaced(unchanged(one), "  weight %w: f32[4,4]\n", ""));
}

// A weight that has no 16-bit copy is not removed, even if no op reads it.
TEST(SplitWeights, AWeightWithoutACopyStays) {
  const std::string more = replaced(only_copies(), "  forward", "  weight %v: f32[4,4]\n  forward");
  const std::string left = split(more);
  EXPECT_NE(left.find("  weight %v: f32[4,4]\n"), std::string::npos) << left;
  EXPECT_EQ(left.find("  weight %w: f32[4,4]\n"), std::string::npos) << left;
  EXPECT_EQ(print_graph(testing::after_pass(only_copies(), split_weights_pass(DType::kF16))),
            unchanged(only_copies()));
}

}  // namespace
}  // namespace plimsoll
