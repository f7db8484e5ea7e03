// Tests the pass that stores weights in 4 or 8 bits: the codes have the name of the weight, the scales are additional values, and the
// weight is converted back to a floating-point type before each matrix product.
#include "graph/passes/pass.h"

#include <gtest/gtest.h>

#include "graph/passes/testing/pass_text.h"

namespace plimsoll {
namespace {

using testing::kSharedWeight;
using testing::replaced;
using testing::unchanged;

std::string after(const std::string& text, const QuantizedWeight& weight, const std::string& format = "nf4") {
  return print_graph(testing::after_pass(text, quantized_weights_pass(format, {weight})));
}

const QuantizedWeight kFourBits{.name = "w", .parts = 1, .num_codes = 8, .num_scales = 1};

// Each matrix product has its own dequantize op, whose result has the type of the other operand of the product.
TEST(QuantizedWeights, EveryProductReadsNumbersOfItsOwnType) {
  EXPECT_EQ(after(kSharedWeight, kFourBits), R"(graph g {
  input %x: bf16[T,4]
  input %u: f32[T,4]
  weight %w: u8[8]
  weight %b: f32[4]
  weight %w.scales: f32[1]
  forward @m
  %w.numbers: bf16[4,4] = dequantize(%w, %w.scales, _, _) {columns=4, dtype="bf16", format="nf4", parts=1, rows=4}
  %a: bf16[T,4] = matmul(%x, %w.numbers, %b, _, _) {ta=0, tb=1}
  %w.numbers.1: bf16[4,4] = dequantize(%w, %w.scales, _, _) {columns=4, dtype="bf16", format="nf4", parts=1, rows=4}
  %c: bf16[T,4] !output = matmul(%a, %w.numbers.1, _, _, _) {ta=0, tb=1}
  %w.numbers.2: f32[4,4] = dequantize(%w, %w.scales, _, _) {columns=4, dtype="f32", format="nf4", parts=1, rows=4}
  %d: f32[T,4] !output = matmul(%u, %w.numbers.2, %b, _, _) {ta=0, tb=1}
}
)");
}

TEST(QuantizedWeights, ScalesThatAreQuantizedTooHaveScalesAndAnOffsetOfEachPart) {
  const std::string text = after(
      kSharedWeight, {.name = "w", .parts = 2, .num_codes = 8, .num_scales = 2, .num_second_scales = 1});
  EXPECT_NE(text.find("  weight %w.scales: u8[2]\n"
                      "  weight %w.second_scales: f32[1]\n"
                      "  weight %w.offsets: f32[2]\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("dequantize(%w, %w.scales, %w.second_scales, %w.offsets) {columns=4, dtype=\"bf16\", "
                      "format=\"nf4\", parts=2, rows=4}"),
            std::string::npos)
      << text;
}

TEST(QuantizedWeights, NumbersBelongToTheModuleOfTheirProduct) {
  const std::string text = after(replaced(kSharedWeight, "  %c:", "  forward @layer.1\n  %c:"), kFourBits);
  EXPECT_NE(text.find("  forward @layer.1\n  %w.numbers.1: "), std::string::npos) << text;
}

// The ranks of a tensor-parallel group divide the codes and scales of a weight as they divide the weight. With 8 bits there is one scale
// per row, and if the ranks divide the columns, every rank stores all scales.
TEST(QuantizedWeights, ArraysOfADividedWeightAreDivided) {
  constexpr const char* kDivided = R"(graph g {
  input %x: f32[T,128]
  weight %w: f32[2,128] !split=2/256+256/4x128
  forward @m
  %a: f32[T,2] !output = matmul(%x, %w, _, _, _) {ta=0, tb=1}
}
)";
  EXPECT_EQ(after(kDivided, {.name = "w", .parts = 2, .num_codes = 256, .num_scales = 8}), R"(graph g {
  input %x: f32[T,128]
  weight %w: u8[128] !split=2/128+128/256
  weight %w.scales: f32[4] !split=2/4+4/8
  forward @m
  %w.numbers: f32[2,128] = dequantize(%w, %w.scales, _, _) {columns=128, dtype="f32", format="nf4", parts=1, rows=2}
  %a: f32[T,2] !output = matmul(%x, %w.numbers, _, _, _) {ta=0, tb=1}
}
)");
  const std::string columns =
      replaced(replaced(kDivided, "w: f32[2,128] !split=2/256+256/4x128", "w: f32[2,64] !split=2/128/2x128"),
               "x: f32[T,128]", "x: f32[T,64]");
  const std::string text =
      after(columns, {.name = "w", .parts = 1, .num_codes = 256, .num_scales = 2}, "int8");
  EXPECT_NE(text.find("  weight %w: u8[128] !split=2/128/256\n  weight %w.scales: f32[2]\n"),
            std::string::npos)
      << text;
}

// A weight that is a left factor, a bias or an input of another op keeps its type.
TEST(QuantizedWeights, WeightsThatOtherOpsReadStay) {
  for (const std::string read : {"tanh(%w)", "matmul(%w, %w, _, _, _) {ta=0, tb=1}"}) {
    const std::string text = replaced(kSharedWeight, "\n}\n", "\n  %z: f32[4,4] !output = " + read + "\n}\n");
    EXPECT_EQ(after(text, kFourBits), unchanged(text));
  }
  const QuantizedWeight bias{.name = "b", .parts = 1, .num_codes = 2, .num_scales = 1};
  EXPECT_EQ(after(kSharedWeight, bias), unchanged(kSharedWeight));
  const QuantizedWeight missing{.name = "v", .parts = 1, .num_codes = 8, .num_scales = 1};
  EXPECT_EQ(after(kSharedWeight, missing), unchanged(kSharedWeight));
}

TEST(QuantizedWeights, AnUnreadWeightStays) {
  const std::string text = replaced(kSharedWeight, "  forward", "  weight %v: f32[4,4]\n  forward");
  const QuantizedWeight unread{.name = "v", .parts = 1, .num_codes = 8, .num_scales = 1};
  EXPECT_EQ(after(text, unread), unchanged(text));
}

}  // namespace
}  // namespace plimsoll
