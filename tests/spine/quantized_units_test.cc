// Tests fused matrices in 4 and 8 bits whose parts have different numbers of rows, such as the query, key and
// value weights of grouped-query attention. Each part must be stored as if it were quantized alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/philox.h"
#include "exec/executor.h"
#include "exec/quantized_weights.h"
#include "kernels/quantization/quantization.h"
#include "tests/spine/tiny_run.h"

namespace plimsoll {
namespace {

constexpr Bucket kBucket{.tokens = 32, .sequences = 4, .longest = 16};

PlanRequest request_of(int64_t hidden, BaseWeights format, bool twice) {
  testing::TinyCase test{
      .model_type = "llama", .hidden_act = "silu", .hidden = hidden, .heads = 4, .layers = 1};
  test.lora = LoraConfig{.r = 2, .base_weights = format, .double_quant = twice};
  test.decoder.num_key_value_heads = 1;
  return testing::tiny_request(test, kBucket);
}

// Quantizes a part of a fused weight by itself and returns the decoded values.
std::vector<float> decoded_alone(const std::vector<float>& values, int64_t rows, int64_t columns,
                                 QuantizedFormat format, bool twice) {
  const QuantizedSizes sizes = quantized_sizes(
      format, twice ? ScaleQuantization::kDouble : ScaleQuantization::kNone, rows, columns, 1);
  std::vector<uint8_t> codes(static_cast<size_t>(sizes.codes));
  std::vector<uint8_t> scale_codes(static_cast<size_t>(sizes.scales));
  std::vector<float> scales(static_cast<size_t>(sizes.scales)),
      second(static_cast<size_t>(sizes.second_scales) + 1);
  float offset = 0;
  const View stored = twice ? View{scale_codes.data(), DType::kU8} : View{scales.data(), DType::kF32};
  quantize_weight({.w = {values.data(), DType::kF32},
                   .codes = {codes.data(), DType::kU8},
                   .scales = stored,
                   .second_scales = {second.data(), DType::kF32},
                   .offset = {&offset, DType::kF32},
                   .rows = rows,
                   .columns = columns,
                   .format = format});
  std::vector<float> result(values.size());
  dequantize_ref({.codes = {codes.data(), DType::kU8},
                  .scales = {stored.data, stored.dtype},
                  .second_scales = twice ? ConstView{second.data(), DType::kF32} : ConstView{},
                  .offsets = twice ? ConstView{&offset, DType::kF32} : ConstView{},
                  .w = {result.data(), DType::kF32},
                  .rows = rows,
                  .columns = columns,
                  .format = format});
  return result;
}

struct Stored {
  double worst = 0;      // largest error of an element, relative to the largest element of its part
  bool is_alone = true;  // true if quantizing each part alone gives the same stored values
};

Stored store_all(int64_t hidden, BaseWeights base, QuantizedFormat format, bool twice) {
  const Plan plan = build_plan(request_of(hidden, base, twice));
  Executor executor(plan);
  Stored result;
  int num_unequal = 0;
  for (const WeightSpec& spec : plan.weights) {
    if (spec.in_adapter || !is_quantized(plan, spec.name)) continue;
    const int64_t columns = spec.shape[1];
    num_unequal += spec.parts.front().num_rows != spec.parts.back().num_rows ? 1 : 0;
    std::vector<std::vector<float>> written;
    for (size_t part = 0; part < spec.parts.size(); ++part) {
      std::vector<float>& values =
          written.emplace_back(static_cast<size_t>(spec.parts[part].num_rows * columns));
      for (size_t i = 0; i < values.size(); ++i) {
        const uint32_t bits = philox_element({.seed = 7, .step = static_cast<uint32_t>(part), .site = 5}, i);
        values[i] = static_cast<float>(static_cast<double>(bits) / 2147483648.0 - 1.0);
      }
      write_quantized(executor, spec, part, {values.data(), DType::kF32});
    }
    for (size_t part = 0; part < spec.parts.size(); ++part) {
      std::vector<float> read(written[part].size());
      read_quantized(executor, spec, part, {read.data(), DType::kF32});
      for (size_t i = 0; i < read.size(); ++i) {
        const double error = std::fabs(static_cast<double>(read[i]) - static_cast<double>(written[part][i]));
        result.worst = std::max(result.worst, std::isfinite(error) ? error : 1e9);
      }
      if (read != decoded_alone(written[part], spec.parts[part].num_rows, columns, format, twice))
        result.is_alone = false;
    }
  }
  EXPECT_EQ(num_unequal, 1);
  return result;
}

// NF4 stores values relative to the largest of a block. Adjacent values differ by at most 0.304 (FP4: 1/3), so rounding changes
// an element by at most half of this times the largest element. Quantizing the scales as well adds less than 2 %.
TEST(QuantizedUnits, PartsOfDifferentHeightsKeepTheirValues) {
  for (const bool twice : {false, true}) {
    EXPECT_LT(store_all(32, BaseWeights::kNf4, QuantizedFormat::kNf4, twice).worst, 0.18) << twice;
    EXPECT_LT(store_all(32, BaseWeights::kFp4, QuantizedFormat::kFp4, twice).worst, 0.2) << twice;
  }
  const Stored bytes = store_all(32, BaseWeights::kInt8, QuantizedFormat::kInt8, false);
  EXPECT_LT(bytes.worst, 0.5 / 127 + 1e-6);
  EXPECT_TRUE(bytes.is_alone);
}

// In real models, each part ends at the end of a quantization block. The stored values must then be those of
// bitsandbytes.
TEST(QuantizedUnits, PartsOfRealSizesAreStoredAsIfTheyWereAlone) {
  // Each part has 64 rows x 256 columns = 16384 elements, which are 256 blocks of 64 values. Their 256 scales
  // are one block of scales.
  EXPECT_TRUE(store_all(256, BaseWeights::kNf4, QuantizedFormat::kNf4, true).is_alone);
  EXPECT_TRUE(store_all(256, BaseWeights::kNf4, QuantizedFormat::kNf4, false).is_alone);
}

}  // namespace
}  // namespace plimsoll
