#include <gtest/gtest.h>

#include "graph/passes/testing/pass_text.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

using testing::replaced;
using testing::unchanged;

// The second half of a Llama layer, up to the gated unit.
constexpr const char* kRms =
    "graph g {\n"
    "  input %x: bf16[T,4]\n"
    "  input %r: bf16[T,4]\n"
    "  weight %gain: f32[4]\n"
    "  weight %w: bf16[6,4]\n"
    "  forward @layer\n"
    "  %h: bf16[T,4], %rstd: f32[T,1], %s: bf16[T,4] !output = rms_norm(%x, %gain, _, %r) "
    "{eps=1e-06, heads=1, second_heads=0}\n"
    "  %z: bf16[T,6] = matmul(%h, %w, _, _, _) {ta=0, tb=1}\n"
    "  %y: bf16[T,3] !output = glu(%z) {activation=\"silu\"}\n"
    "}\n";

// The second half of a GPT-2 layer, up to the activation.
constexpr const char* kLayerNorm =
    "graph g {\n"
    "  input %x: bf16[T,4]\n"
    "  input %r: bf16[T,4]\n"
    "  weight %norm_bias: f32[4]\n"
    "  weight %gain: f32[4]\n"
    "  weight %beta: f32[4]\n"
    "  weight %w: bf16[6,4]\n"
    "  weight %b: f32[6]\n"
    "  forward @layer\n"
    "  %h: bf16[T,4], %n: bf16[T,4], %rstd: f32[T], %s: bf16[T,4] !output = "
    "bias_dropout_residual_norm(%x, %norm_bias, %r, %gain, %beta, _) {eps=1e-05, p=0.0, sum=1}\n"
    "  %z: bf16[T,6] = matmul(%h, %w, _, _, _) {ta=0, tb=1}\n"
    "  %y: bf16[T,6] !output = bias_gelu(%z, %b) {activation=\"gelu_new\"}\n"
    "}\n";

std::string after(const std::string& text, bool has_kernel = true) {
  return print_graph(testing::after_pass(text, norm_linear_pass([has_kernel](const OpView& op) {
                                           EXPECT_EQ(op.op.def, &norm_linear_op());
                                           return has_kernel;
                                         })));
}

TEST(NormLinearPass, NormProductAndGatedUnitBecomeOne) {
  EXPECT_EQ(after(kRms),
            "graph g {\n"
            "  input %x: bf16[T,4]\n"
            "  input %r: bf16[T,4]\n"
            "  weight %gain: f32[4]\n"
            "  weight %w: bf16[6,4]\n"
            "  forward @layer\n"
            "  %y: bf16[T,3] !output, %s: bf16[T,4] !output = norm_linear(%x, %w, _, %r, _, %gain, _) "
            "{activation=\"silu\", end=\"glu\", eps=1e-06, norm=\"rms\"}\n"
            "}\n");
}

TEST(NormLinearPass, LayerNormProductBiasAndActivationBecomeOne) {
  EXPECT_EQ(after(kLayerNorm),
            "graph g {\n"
            "  input %x: bf16[T,4]\n"
            "  input %r: bf16[T,4]\n"
            "  weight %norm_bias: f32[4]\n"
            "  weight %gain: f32[4]\n"
            "  weight %beta: f32[4]\n"
            "  weight %w: bf16[6,4]\n"
            "  weight %b: f32[6]\n"
            "  forward @layer\n"
            "  %y: bf16[T,6] !output, %s: bf16[T,4] !output = norm_linear(%x, %w, %b, %r, %norm_bias, %gain, "
            "%beta) {activation=\"gelu_new\", end=\"activation\", eps=1e-05, norm=\"layer\"}\n"
            "}\n");
}

// The first norm of a model adds no residual, and the matrix product that reads the norm may have a bias.
TEST(NormLinearPass, NormAndProductBecomeOne) {
  std::string text =
      replaced(kRms, ", %s: bf16[T,4] !output = rms_norm(%x, %gain, _, %r)", " = rms_norm(%x, %gain, _, _)");
  text = replaced(text, "  %z: bf16[T,6] = matmul(%h, %w, _, _, _)",
                  "  %z: bf16[T,6] !output = matmul(%h, %w, _, _, _)");
  text = replaced(text, "  %y: bf16[T,3] !output = glu(%z) {activation=\"silu\"}\n", "");
  EXPECT_EQ(after(text),
            "graph g {\n"
            "  input %x: bf16[T,4]\n"
            "  input %r: bf16[T,4]\n"
            "  weight %gain: f32[4]\n"
            "  weight %w: bf16[6,4]\n"
            "  forward @layer\n"
            "  %z: bf16[T,6] !output = norm_linear(%x, %w, _, _, _, %gain, _) "
            "{end=\"product\", eps=1e-06, norm=\"rms\"}\n"
            "}\n");
}

// If other ops also read the result of a matrix product, the product is fused with the norm but not with the activation after it.
TEST(NormLinearPass, AProductThatOthersReadKeepsItsFunction) {
  const std::string read = replaced(kRms, "\n}\n", "\n  %o: bf16[T,6] !output = gelu(%z)\n}\n");
  const std::string fused = after(read);
  EXPECT_NE(fused.find("end=\"product\""), std::string::npos) << fused;
  EXPECT_NE(fused.find("glu(%z)"), std::string::npos) << fused;
}

TEST(NormLinearPass, StaysWithoutAKernel) {
  EXPECT_EQ(after(kRms, false), unchanged(kRms));
  EXPECT_EQ(after(kLayerNorm, false), unchanged(kLayerNorm));
}

TEST(NormLinearPass, OtherPatternsStay) {
  const std::string read = replaced(kRms, "\n}\n", "\n  %o: bf16[T,4] !output = gelu(%h)\n}\n");
  EXPECT_EQ(after(read), unchanged(read));
  const std::string dropped = replaced(kLayerNorm, "p=0.0", "p=0.1");
  const std::string with_random = replaced(replaced(dropped, "  forward", "  input %rng: i64[2]\n  forward"),
                                           "%beta, _)", "%beta, %rng)");
  EXPECT_EQ(after(with_random), unchanged(with_random));
  const std::string transposed = replaced(replaced(kRms, "[6,4]", "[4,6]"), "tb=1", "tb=0");
  EXPECT_EQ(after(transposed), unchanged(transposed));
}

}  // namespace
}  // namespace plimsoll
