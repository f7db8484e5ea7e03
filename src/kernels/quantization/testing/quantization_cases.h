// Cases for the tests of quantized weights: a matrix with its quantized form, and matrices of all formats. For tests only. Not thread-safe.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "base/philox.h"
#include "kernels/quantization/quantization.h"

namespace plimsoll::test {

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

// Calls body with matrices of every format, with plain and with quantized scales. In some of the matrices, the length of a row or part is
// not a multiple of the number of elements that a kernel loads at once. Returns the number of matrices.
inline int for_each_quantized_matrix(const std::function<void(Quantized&)>& body) {
  int count = 0;
  for (const QuantizedFormat format :
       {QuantizedFormat::kNf4, QuantizedFormat::kFp4, QuantizedFormat::kInt8}) {
    for (const ScaleQuantization how : {ScaleQuantization::kNone, ScaleQuantization::kDouble}) {
      if (format == QuantizedFormat::kInt8 && how == ScaleQuantization::kDouble) continue;
      for (const auto& [rows, columns, parts] :
           {std::array<int64_t, 3>{3, 5, 3}, {96, 100, 3}, {64, 333, 1}, {6, 4096, 2}, {6, 4, 3}}) {
        Quantized q(format, how, rows, columns, parts);
        for (size_t i = 0; i < q.w.size(); ++i) {
          q.w[i] =
              static_cast<float>(philox_element({.seed = 4, .step = 1, .site = 9}, i)) / 4294967296.0f - 0.4f;
        }
        q.quantize();
        body(q);
        ++count;
      }
    }
  }
  return count;
}

}  // namespace plimsoll::test
