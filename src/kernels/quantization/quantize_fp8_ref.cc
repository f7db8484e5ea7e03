#include "kernels/quantization/quantize_fp8.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace plimsoll {

float fp8_scale(float amax, DType format) {
  if (!std::isfinite(amax)) return std::numeric_limits<float>::quiet_NaN();
  return std::max(amax / largest_fp8(format), 0x1p-126f);
}

void quantize_fp8_ref(const QuantizeFp8Args& args) {
  PLIMSOLL_CHECK(args.x && is_fp8(args.format),
                 "quantize_fp8: x must be given and the format must be an fp8 type, but the format is {} or "
                 "x is missing",
                 dtype_name(args.format));
  PLIMSOLL_CHECK(args.scale || args.known,
                 "quantize_fp8: either an output for the scale or a known scale must be given");
  for (const View& codes : {args.q, args.q_t})
    PLIMSOLL_CHECK(!codes || codes.dtype == args.format,
                   "quantize_fp8: q and q_t must have the type that `format` states, {}, but one of them has "
                   "the type {}",
                   dtype_name(args.format), dtype_name(codes.dtype));
  if (args.accumulate == Accumulate::kAdd) return;
  const int64_t num_rows = args.num_rows < 0 ? args.rows : args.num_rows;
  float amax = 0.0f;
  for (int64_t i = 0; i < num_rows * args.columns && !args.known; ++i) {
    const auto magnitude = static_cast<float>(std::fabs(args.x.load(i)));
    // Every comparison with NaN is false, so this condition is true for a NaN, which is thereby stored in amax.
    if (!(magnitude <= amax)) amax = magnitude;
    if (std::isnan(amax)) break;
  }
  const float scale = args.known ? args.known.as<float>()[0] : fp8_scale(amax, args.format);
  const float inverse = 1.0f / scale;
  if (args.scale) {
    args.scale.as<float>()[0] = scale;
    args.scale.as<float>()[1] = args.known ? args.known.as<float>()[1] : amax;
  }
  for (int64_t t = 0; t < args.rows; ++t) {
    for (int64_t c = 0; c < args.columns; ++c) {
      const float value =
          t < num_rows ? static_cast<float>(args.x.load(t * args.columns + c)) * inverse : 0.0f;
      if (args.q) args.q.store(t * args.columns + c, static_cast<double>(value));
      if (args.q_t) args.q_t.store(c * args.rows + t, static_cast<double>(value));
    }
  }
}

double quantize_fp8_error_bound(DType format, double scale, double x) {
  const bool e4m3 = format == DType::kE4M3;
  const double relative = e4m3 ? 0x1p-4 : 0x1p-3;
  const double spacing = e4m3 ? 0x1p-9 : 0x1p-16;  // the distance between two subnormal fp8 numbers
  return std::max(relative * std::fabs(x), 0.5 * spacing * scale) + 0x1p-22 * std::fabs(x);
}

}  // namespace plimsoll
