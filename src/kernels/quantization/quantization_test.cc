#include "kernels/quantization/quantization.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/philox.h"
#include "kernels/element_wise/testing/kernel_cases.h"
#include "kernels/quantization/testing/quantization_cases.h"
#include "tests/support/fnv1a.h"

namespace plimsoll::test {
namespace {

struct BitsAndBytesValues {
  const char* format;
  bool is_double;
  uint64_t codes_hash;
  uint64_t scales_hash;
  std::vector<float> second_scales;
  float offset;
  uint64_t numbers_hash;
};
#include "kernels/quantization/fixtures/bitsandbytes_values.inc"
#include "tests/support/kernel_rows.h"

uint64_t hash_of_bytes(const void* data, size_t size) {
  return fnv1a(std::string_view(static_cast<const char*>(data), size));
}

TEST(Quantization, CodesEqualThoseOfBitsAndBytes) {
  EXPECT_EQ(hash_of_bytes(scale_numbers().data(), 1024), kScaleNumbersHash);
  int checked = 0;
  for (const BitsAndBytesValues& values : kValues) {
    SCOPED_TRACE(std::string(values.format) + (values.is_double ? " double" : ""));
    Quantized q(*find_quantized_format(values.format),
                values.is_double ? ScaleQuantization::kDouble : ScaleQuantization::kNone, 150, 128, 1);
    for (int64_t i = 0; i < 150 * 128; ++i) {
      const auto residue = static_cast<float>((i * 7919 + 13) % 2003 - 1001);
      q.w[static_cast<size_t>(i)] = residue / 512.0f * static_cast<float>(1 + i / 64 % 7) / 4.0f;
    }
    q.quantize();
    EXPECT_EQ(hash_of_bytes(q.codes.data(), q.codes.size()), values.codes_hash);
    EXPECT_EQ(values.is_double ? hash_of_bytes(q.scales.data(), q.scales.size())
                               : hash_of_bytes(q.float_scales.data(), 4 * q.float_scales.size()),
              values.scales_hash);
    EXPECT_EQ(q.second_scales, values.second_scales);
    if (values.is_double) {
      EXPECT_EQ(q.offsets[0], values.offset);
    }
    if (values.numbers_hash == 0) continue;
    std::vector<float> back(q.w.size());
    dequantize_ref(q.args({back.data(), DType::kF32}));
    EXPECT_EQ(hash_of_bytes(back.data(), 4 * back.size()), values.numbers_hash);
    ++checked;
  }
  EXPECT_EQ(checked, 4);
}

// The error of a dequantized element must be at most half of the largest distance between two adjacent code numbers, multiplied by the
// absmax of its quantization block or row.
TEST(Quantization, DequantizedNumbersAreCloseToTheWeights) {
  for (const QuantizedFormat format :
       {QuantizedFormat::kNf4, QuantizedFormat::kFp4, QuantizedFormat::kInt8}) {
    for (const int64_t parts : {1, 3}) {
      Quantized q(format, ScaleQuantization::kNone, 21, 50, parts);
      for (size_t i = 0; i < q.w.size(); ++i) {
        q.w[i] =
            static_cast<float>(philox_element({.seed = 3, .step = 1, .site = 9}, i)) / 4294967296.0f - 0.5f;
      }
      q.quantize();
      std::vector<float> back(q.w.size());
      dequantize_ref(q.args({back.data(), DType::kF32}));
      const float gap = format == QuantizedFormat::kNf4   ? 0.3039f
                        : format == QuantizedFormat::kFp4 ? 0.3334f
                                                          : 1.0f / 127;
      for (size_t i = 0; i < back.size(); ++i)
        EXPECT_LE(std::fabs(back[i] - q.w[i]), 0.5f * gap * 0.5f + 1e-6f);
    }
  }
}

// All implementations must round in the same way, so their results must have the bits of the reference in every type.
TEST(Dequantize, IsTheReferenceBitForBit) {
  const int checked = for_each_quantized_matrix([](Quantized& q) {
    for (const DType dtype : fast_types()) {
      GuardedBuffer want("want", dtype, q.rows * q.columns);
      dequantize_ref(q.args(want.view()));
      FastRows(dequantize_ref).for_each(dtype, [&](const auto& dequantize) {
        GuardedBuffer w("w", dtype, q.rows * q.columns);
        run_with_one_and_two_threads({&w}, [&] { dequantize(q.args(w.view())); });
        EXPECT_TRUE(compare_bits(w, want).ok()) << compare_bits(w, want);
      });
    }
  });
  EXPECT_EQ(checked, 25);
}

}  // namespace
}  // namespace plimsoll::test
