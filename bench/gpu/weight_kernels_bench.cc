// Measures the dequantization of a large matrix from 4 and 8 bits.
#include "bench/gpu/kernels_bench.h"
#include "kernels/quantization/quantization.h"

namespace plimsoll {

void measure_dequantize(Bench& bench) {
  constexpr int64_t kRows = 16384, kColumns = 4096;
  Pool &in = bench.in, &out = bench.out;
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const QuantizedFormat format : {QuantizedFormat::kNf4, QuantizedFormat::kInt8}) {
      const bool is_double = format == QuantizedFormat::kNf4;
      const QuantizedSizes sizes = quantized_sizes(
          format, is_double ? ScaleQuantization::kDouble : ScaleQuantization::kNone, kRows, kColumns, 1);
      const int64_t bytes = kRows * kColumns * dtype_bytes(dtype) + sizes.codes +
                            sizes.scales * (is_double ? 1 : 4) + 4 * (sizes.second_scales + sizes.offsets);
      bench.measure(
          label(fmt::format("dequantize {}", quantized_format_name(format)), dtype, kRows, kColumns), bytes,
          [&] {
            DequantizeArgs args;
            args.codes = in.take(DType::kU8, sizes.codes);
            args.scales = in.take(is_double ? DType::kU8 : DType::kF32, sizes.scales);
            args.w = out.take(dtype, kRows * kColumns);
            args.rows = kRows;
            args.columns = kColumns;
            args.format = format;
            if (is_double) {
              args.second_scales = in.take(DType::kF32, sizes.second_scales);
              args.offsets = in.take(DType::kF32, sizes.offsets);
            }
            dequantize_cuda(args, nullptr);
          });
    }
  }
}

}  // namespace plimsoll
