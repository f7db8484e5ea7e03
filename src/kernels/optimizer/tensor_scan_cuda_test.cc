#include "kernels/optimizer/tensor_scan.h"

#include <gtest/gtest.h>

#include "kernels/element_wise/testing/cuda_cases.h"

namespace plimsoll::test {
namespace {

TEST(FillCuda, WritesEveryElementAndNoOther) {
  for (const DType dtype :
       {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI64, DType::kI32, DType::kU8}) {
    for (const int64_t count : {1, 3, 16, 1000, 70001}) {
      for (const int64_t first : {0, 1}) {
        GuardedBuffer x("fill/x", dtype, count + first), want("fill/want", dtype, count + first);
        for (int64_t i = first; i < count + first; ++i) want.view().store(i, 37.0);
        Twins gpu;
        fill_cuda({gpu.twin(x).view_from(first), count, 37.0}, nullptr);
        gpu.download();
        expect_same_bits(x, want);
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::test
