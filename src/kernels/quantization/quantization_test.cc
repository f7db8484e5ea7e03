#include "kernels/quantization/quantization.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/philox.h"
#include "kernels/element_wise/kernel_cases.h"

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

uint64_t fnv(const void* data, size_t size) {
  uint64_t value = 0xCBF29CE484222325u;
  for (size_t i = 0; i < size; ++i) value = (value ^ static_cast<const uint8_t*>(data)[i]) * 0x100000001B3u;
  return value;
}

// A matrix and its quantized form.
struct Quantized {
  QuantizedFormat format;
  int64_t rows, columns, parts;
  std::vector<float> w;
  std::vector<uint8_t> codes, scales;
  std::vector<float> float_scales, second_scales, offsets;

  Quantized(QuantizedFormat f, ScaleQuantization how, int64_t n, int64_t k, int64_t p)
      : format(f), rows(n), columns(k), parts(p), w(static_cast<size_t>(n * k)) {
    const QuantizedSizes sizes = quantized_sizes(f, how, n, k, p);
    codes.resize(static_cast<size_t>(sizes.codes));
    (how == ScaleQuantization::kDouble ? scales.resize(static_cast<size_t>(sizes.scales))
                                       : float_scales.resize(static_cast<size_t>(sizes.scales)));
    second_scales.resize(static_cast<size_t>(sizes.second_scales));
    offsets.resize(static_cast<size_t>(sizes.offsets));
  }
  bool is_double() const { return !scales.empty(); }
  View scale_view(size_t at) {
    return is_double() ? View{scales.data() + at, DType::kU8} : View{float_scales.data() + at, DType::kF32};
  }
  void quantize() {
    const auto p = static_cast<size_t>(parts);
    const size_t num_scales = (is_double() ? scales.size() : float_scales.size()) / p;
    for (size_t i = 0; i < p; ++i) {
      quantize_weight({.w = ConstView{w.data() + i * (w.size() / p), DType::kF32},
                       .codes = {codes.data() + i * (codes.size() / p), DType::kU8},
                       .scales = scale_view(i * num_scales),
                       .second_scales = {second_scales.data() + i * (second_scales.size() / p), DType::kF32},
                       .offset = {offsets.data() + (is_double() ? i : 0), DType::kF32},
                       .rows = rows / parts,
                       .columns = columns,
                       .format = format});
    }
  }
  DequantizeArgs args(View out) {
    return {.codes = ConstView{codes.data(), DType::kU8},
            .scales = scale_view(0),
            .second_scales = is_double() ? ConstView{second_scales.data(), DType::kF32} : ConstView{},
            .offsets = is_double() ? ConstView{offsets.data(), DType::kF32} : ConstView{},
            .w = out,
            .rows = rows,
            .columns = columns,
            .parts = parts,
            .format = format};
  }
};

TEST(Quantization, CodesAreThoseOfBitsAndBytes) {
  EXPECT_EQ(fnv(scale_numbers().data(), 1024), kScaleNumbersHash);
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
    EXPECT_EQ(fnv(q.codes.data(), q.codes.size()), values.codes_hash);
    EXPECT_EQ(values.is_double ? fnv(q.scales.data(), q.scales.size())
                               : fnv(q.float_scales.data(), 4 * q.float_scales.size()),
              values.scales_hash);
    EXPECT_EQ(q.second_scales, values.second_scales);
    if (values.is_double) {
      EXPECT_EQ(q.offsets[0], values.offset);
    }
    if (values.numbers_hash == 0) continue;
    std::vector<float> back(q.w.size());
    dequantize_ref(q.args({back.data(), DType::kF32}));
    EXPECT_EQ(fnv(back.data(), 4 * back.size()), values.numbers_hash);
    ++checked;
  }
  EXPECT_EQ(checked, 4);
}

// The error of an element is at most half of the widest gap between two codes, times the block's absmax and,
// with double quantization, half a gap of the scales' numbers beside it.
TEST(Quantization, NumbersComeBackNear) {
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

// Every implementation rounds alike: the same bits, in every type.
TEST(Dequantize, IsTheReferenceBitForBit) {
  int checked = 0;
  for (const QuantizedFormat format :
       {QuantizedFormat::kNf4, QuantizedFormat::kFp4, QuantizedFormat::kInt8}) {
    for (const ScaleQuantization how : {ScaleQuantization::kNone, ScaleQuantization::kDouble}) {
      if (format == QuantizedFormat::kInt8 && how == ScaleQuantization::kDouble) continue;
      for (const auto [rows, columns, parts] :
           {std::array<int64_t, 3>{3, 5, 3}, {96, 100, 3}, {64, 333, 1}, {6, 4096, 2}}) {
        Quantized q(format, how, rows, columns, parts);
        for (size_t i = 0; i < q.w.size(); ++i) {
          q.w[i] =
              static_cast<float>(philox_element({.seed = 4, .step = 1, .site = 9}, i)) / 4294967296.0f - 0.4f;
        }
        q.quantize();
        for (const DType dtype : fast_types()) {
          GuardedBuffer want("want", dtype, rows * columns), w("w", dtype, rows * columns);
          dequantize_ref(q.args(want.view()));
          run_with_one_and_two_threads({&w}, [&] { dequantize_cpu(q.args(w.view())); });
          EXPECT_TRUE(compare_bits(w, want).ok()) << compare_bits(w, want);
          ++checked;
        }
      }
    }
  }
  EXPECT_EQ(checked, 40);
}

}  // namespace
}  // namespace plimsoll::test
