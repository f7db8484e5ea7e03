#include <cstring>

#include "base/check.h"
#include "kernels/embedding/rope.h"

namespace plimsoll {

void rope_table_ref(const RopeTableArgs& args) {
  const int32_t* positions = args.positions.as<int32_t>();
  const int32_t* cu_seqlens = args.cu_seqlens.as<int32_t>();
  int64_t b = 0;
  for (int64_t t = 0; t < args.T; ++t) {
    while (b < args.B && t >= cu_seqlens[b + 1]) ++b;
    const int64_t length = b < args.B ? cu_seqlens[b + 1] - cu_seqlens[b] : 0;
    for (int64_t i = 0; i < args.D / 2; ++i) {
      const double angle = static_cast<double>(positions[t]) * args.frequencies.frequency(i, args.D, length);
      args.table.store(t * args.D + i, args.frequencies.scale * std::cos(angle));
      args.table.store(t * args.D + args.D / 2 + i, args.frequencies.scale * std::sin(angle));
    }
  }
}

void rope_ref(const RopeArgs& args) {
  const int64_t half = args.D / 2;
  const double sign = args.direction == RopeDirection::kForward ? 1.0 : -1.0;
  for (int64_t t = 0; t < args.T; ++t) {
    for (int64_t h = 0; h < args.H; ++h) {
      for (int64_t i = 0; i < half; ++i) {
        const int64_t first = t * args.N + h * args.D + i;
        const double a = args.x.load(first), b = args.x.load(first + half);
        const double c = args.table.load(t * args.D + i), s = sign * args.table.load(t * args.D + half + i);
        args.y.store(first, a * c - b * s);
        args.y.store(first + half, b * c + a * s);
      }
    }
    if (args.x.data == args.y.data) continue;
    for (int64_t n = args.H * args.D; n < args.N; ++n) {
      args.y.store(t * args.N + n, args.x.load(t * args.N + n));
    }
  }
}

}  // namespace plimsoll
