#include "base/check.h"
#include "kernels/matmul/split_tf32.h"

namespace plimsoll {

void split_tf32_ref(const SplitTf32Args& args) {
  PLIMSOLL_CHECK(args.x.dtype == DType::kF32 && args.out.dtype == DType::kF32,
                 "the operand and its parts must be f32");
  const bool along_rows = args.place == Tf32PartPlace::kAlongRows;
  const int64_t terms = along_rows ? args.columns : args.rows;
  const bool low_first = args.order == Tf32PartOrder::kLowHighHigh;
  for (int64_t i = 0; i < args.rows; ++i) {
    for (int64_t j = 0; j < args.columns; ++j) {
      const Tf32Parts parts = split_tf32(args.x.as<float>()[i * args.columns + j]);
      float* out = args.out.as<float>() + (along_rows ? i * 3 * terms + j : j * 3 * terms + i);
      out[0] = low_first ? parts.low : parts.high;
      out[terms] = low_first ? parts.high : parts.low;
      out[2 * terms] = parts.high;
    }
  }
}

}  // namespace plimsoll
