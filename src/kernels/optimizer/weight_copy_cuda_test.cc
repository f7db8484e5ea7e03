#include "kernels/optimizer/tensor_scan.h"

#include <gtest/gtest.h>

#include <bit>

#include "kernels/element_wise/testing/cuda_cases.h"

namespace plimsoll::test {
namespace {

TEST(WeightCopyCuda, RoundsAsTheUpdateDoes) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    GuardedBuffer weight("copy/weight", DType::kF32, 70001), got("copy/got", dtype, 70001),
        want("copy/want", dtype, 70001);
    weight.fill_normal();
    for (int64_t k = 0; k < 70001; k += 5) {
      weight.view().as<float>()[k] =
          std::bit_cast<float>(static_cast<uint32_t>(0x3f80 + k % 128) << 16 | 0x8000u);
    }
    copy_weights_cpu({.weight = weight.view(), .low = want.view(), .n = 70001});
    Twins gpu;
    const View from = gpu(weight), to = gpu(got);
    copy_weights_cuda({.weight = from, .low = to, .n = 70001}, nullptr);
    gpu.download();
    expect_same_bits(got, want);
  }
}

}  // namespace
}  // namespace plimsoll::test
