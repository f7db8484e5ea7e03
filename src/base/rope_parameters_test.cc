// Compares the inverse frequencies of every type of rotary embedding with those of transformers 5.24, for heads of 8
// with theta = 500. The tolerance is that of fp32, in which transformers computes. Also tests the text form of the
// parameters.
#include "base/rope_parameters.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plimsoll {
namespace {

constexpr int64_t kDim = 8;
constexpr double kTheta = 500.0;

void expect_frequencies(const RopeParameters& parameters, int64_t length, const std::vector<double>& want,
                        double scale) {
  const RopeFrequencies frequencies = rope_frequencies(parameters, kDim);
  ASSERT_EQ(static_cast<int64_t>(want.size()), kDim / 2);
  for (int64_t i = 0; i < kDim / 2; ++i) {
    const double exact = want[static_cast<size_t>(i)];
    EXPECT_NEAR(frequencies.frequency(i, kDim, length), exact, 3e-7 * exact)
        << rope_type_name(parameters.type) << " " << length << " " << i;
  }
  EXPECT_NEAR(frequencies.scale, scale, 1e-8);
}

RopeParameters yarn() {
  RopeParameters p{.type = RopeType::kYarn, .theta = kTheta, .factor = 4.0, .original = 32.0};
  p.attention_factor = yarn_attention_factor(p.factor, 0.0, 0.0);
  return p;
}
RopeParameters yarn_without_truncation() {
  RopeParameters p{.type = RopeType::kYarn, .theta = kTheta, .factor = 4.0, .original = 64.0};
  p.beta_fast = 8.0;
  p.beta_slow = 2.0;
  p.truncate = false;
  p.attention_factor = yarn_attention_factor(p.factor, 0.7, 0.4);
  return p;
}
RopeParameters longrope() {
  RopeParameters p{.type = RopeType::kLongRope, .theta = kTheta, .factor = 8.0, .original = 32.0};
  p.short_factor = {1.0, 1.1, 1.2, 1.3};
  p.long_factor = {1.0, 2.0, 4.0, 8.0};
  p.attention_factor = longrope_attention_factor(p.factor, p.original);
  return p;
}
RopeParameters llama3() {
  return {.type = RopeType::kLlama3, .theta = kTheta, .factor = 8.0, .original = 64.0};
}

TEST(Rope, FrequenciesAreThoseOfTransformers) {
  expect_frequencies({.theta = kTheta}, 10, {1.0, 0.21147424, 0.0447213612, 0.0094574159}, 1.0);
  expect_frequencies({.type = RopeType::kLinear, .theta = kTheta, .factor = 4.0}, 10,
                     {0.25, 0.05286856, 0.0111803403, 0.00236435398}, 1.0);
  const RopeParameters dynamic{.type = RopeType::kDynamic, .theta = kTheta, .factor = 2.0, .original = 64.0};
  expect_frequencies(dynamic, 64, {1.0, 0.21147424, 0.0447213612, 0.0094574159}, 1.0);
  expect_frequencies(dynamic, 100, {1.0, 0.164489374, 0.0270567555, 0.00445054891}, 1.0);
  expect_frequencies(yarn(), 10, {1.0, 0.132171392, 0.0111803403, 0.00236435398}, 1.13862944);
  expect_frequencies(yarn_without_truncation(), 10, {1.0, 0.0613585487, 0.0111803403, 0.00236435398},
                     1.03940382);
  expect_frequencies(longrope(), 32, {1.0, 0.192249313, 0.0372677967, 0.00727493549}, 1.26491106);
  expect_frequencies(longrope(), 33, {1.0, 0.10573712, 0.0111803403, 0.00118217699}, 1.26491106);
  expect_frequencies(llama3(), 10, {1.0, 0.0976166278, 0.00559017016, 0.00118217699}, 1.0);
}

TEST(Rope, TheTextFormKeepsEveryBit) {
  RopeParameters odd = longrope();
  odd.theta = 1e6 / 3.0;
  odd.long_factor[1] = 1.0 / 3.0;
  for (const RopeParameters& parameters :
       {RopeParameters{}, yarn(), yarn_without_truncation(), longrope(), llama3(), odd,
        RopeParameters{.type = RopeType::kDynamic, .factor = 1e-300, .original = 1048576.0}}) {
    EXPECT_EQ(parse_rope_text(rope_text(parameters)), parameters) << rope_text(parameters);
  }
  EXPECT_EQ(rope_text({}), "default");
  EXPECT_EQ(rope_text({.type = RopeType::kLinear, .factor = 4.0}), "linear factor=4");
}

TEST(Rope, EveryTypeHasOneName) {
  for (const RopeTypeName& row : kRopeTypeNames) {
    EXPECT_EQ(find_rope_type(row.name), row.type);
    EXPECT_STREQ(rope_type_name(row.type), row.name);
  }
  for (const char* unknown : {"", "ntk", "Default", "proportional", "su"})
    EXPECT_FALSE(find_rope_type(unknown)) << unknown;
}

}  // namespace
}  // namespace plimsoll
