#include <gtest/gtest.h>

#include "graph/passes/testing/pass_text.h"

namespace plimsoll {
namespace {

using testing::replaced;
using testing::unchanged;

constexpr const char* kLayer =
    "graph g {\n"
    "  input %x: bf16[T,4]\n"
    "  weight %w: f32[6,4]\n"
    "  weight %v: f32[6,4]\n"
    "  forward @m\n"
    "  %a: bf16[T,6] = matmul(%x, %w, _, _, _) {ta=0, tb=1}\n"
    "  %b: bf16[T,6] = matmul(%x, %v, _, _, _) {ta=0, tb=1}\n"
    "  %y: bf16[T,6] !output = add(%a, %b)\n"
    "}\n";

std::string after(const std::string& text, std::vector<std::string> frozen) {
  return print_graph(testing::after_pass(text, frozen_weights_pass(DType::kBF16, std::move(frozen))));
}

TEST(FrozenWeights, WeightsThatOnlyProductsReadHaveTheirType) {
  EXPECT_EQ(after(kLayer, {"w"}), replaced(unchanged(kLayer), "%w: f32", "%w: bf16"));
}

TEST(FrozenWeights, TrainedWeightsStay) {
  EXPECT_EQ(after(kLayer, {}), unchanged(kLayer));
}

TEST(FrozenWeights, WeightsThatOtherOpsReadStay) {
  const std::string read = replaced(kLayer, "\n}\n", "\n  %z: f32[6,4] !output = gelu(%w)\n}\n");
  EXPECT_EQ(after(read, {"w"}), unchanged(read));
  const std::string in_fp32 = replaced(
      replaced(replaced(kLayer, "%x: bf16", "%x: f32"), "%a: bf16", "%a: f32"), "%b: bf16", "%b: f32");
  const std::string all_fp32 = replaced(in_fp32, "%y: bf16", "%y: f32");
  EXPECT_EQ(after(all_fp32, {"w"}), unchanged(all_fp32));
}

}  // namespace
}  // namespace plimsoll
