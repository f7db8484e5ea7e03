#include "kernels/matmul/split_tf32.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tests/support/device_buffer.h"

namespace plimsoll {
namespace {

using test::DeviceBuffer;
using test::GuardedBuffer;

void check(int64_t rows, int64_t columns, Tf32PartOrder order, Tf32PartPlace place) {
  const std::string name = "split_tf32_cuda/" + std::to_string(rows) + "x" + std::to_string(columns) +
                           (order == Tf32PartOrder::kLowHighHigh ? " low first" : " high first") +
                           (place == Tf32PartPlace::kAlongRows ? " along rows" : " along columns");
  SCOPED_TRACE(name);
  GuardedBuffer x(name + "/x", DType::kF32, rows * columns);
  GuardedBuffer out(name + "/out", DType::kF32, 3 * rows * columns);
  GuardedBuffer want(name + "/want", DType::kF32, 3 * rows * columns);
  x.fill_normal();
  // Overwrites four elements: infinity, the largest and the smallest magnitude of fp32, and a number whose low part is subnormal.
  x.view().store(0, std::numeric_limits<double>::infinity());
  x.view().store(1, static_cast<double>(std::numeric_limits<float>::max()));
  x.view().store(2, -0x1p-149);
  x.view().store(3, 0x1.fffffep-120);
  DeviceBuffer dx(x), dout(out);
  split_tf32_cuda(
      {.x = dx.view(), .out = dout.view(), .rows = rows, .columns = columns, .order = order, .place = place},
      nullptr);
  dout.download();
  split_tf32_ref(
      {.x = x.view(), .out = want.view(), .rows = rows, .columns = columns, .order = order, .place = place});
  EXPECT_TRUE(test::compare_bits(out, want).ok());
}

TEST(SplitTf32Cuda, HasTheBitsOfTheReference) {
  for (const auto order : {Tf32PartOrder::kLowHighHigh, Tf32PartOrder::kHighLowHigh}) {
    for (const auto place : {Tf32PartPlace::kAlongRows, Tf32PartPlace::kAlongColumns}) {
      check(37, 64, order, place);
      check(37, 63, order, place);
      check(36, 64, order, place);
      check(132, 196, order, place);
      check(4, 9, order, place);
      check(1, 7, order, place);
      // This size is large enough that each thread splits several elements.
      check(1100, 4096, order, place);
    }
  }
}

}  // namespace
}  // namespace plimsoll
