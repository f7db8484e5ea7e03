#include "kernels/quantization/quantize_fp8.h"

#include <bit>
#include <limits>
#include <vector>

#include "kernels/element_wise/testing/cuda_cases.h"
#include "kernels/quantization/testing/quantize_fp8_cases.h"

namespace plimsoll::test {
namespace {

constexpr DType kTypes[] = {DType::kBF16, DType::kF16};

// A test case with copies of its operands on the GPU.
struct Fp8CudaCase {
  explicit Fp8CudaCase(Fp8Case& reference)
      : c(reference.x.dtype(), reference.format, reference.rows, reference.columns, reference.num_rows),
        num_rows(integers(DType::kI32, {reference.num_rows})) {}

  QuantizeFp8Args args() {
    QuantizeFp8Args args = c.args();
    args.x = gpu(c.x);
    args.q = gpu(c.q);
    args.q_t = gpu(c.q_t);
    args.scale = gpu(c.scale);
    return args;
  }
  const int32_t* rows_on_device() { return c.num_rows < 0 ? nullptr : gpu(num_rows).as<int32_t>(); }

  Fp8Case c;
  GuardedBuffer num_rows;
  Twins gpu;
};

TEST(QuantizeFp8Cuda, IsTheReferenceBitForBit) {
  int checked = 0;
  for (const DType dtype : kTypes) {
    for_each_fp8_case(dtype, [&](Fp8Case& want) {
      SCOPED_TRACE(want.x.name());
      quantize_fp8_ref(want.args());
      Fp8CudaCase got(want);
      const QuantizeFp8Args args = got.args();
      run_twice(got.gpu, {&got.c.q, &got.c.q_t, &got.c.scale},
                [&] { quantize_fp8_cuda(args, got.rows_on_device(), nullptr, nullptr); });
      expect_same_bits(got.c.q, want.q);
      expect_same_bits(got.c.q_t, want.q_t);
      expect_same_bits(got.c.scale, want.scale);
      ++checked;
    });
  }
  EXPECT_EQ(checked, 36);
}

// If the backward pass quantizes x again, it does so in two calls, for q and for q_t, with the scale of the forward pass. The codes must be
// the same.
TEST(QuantizeFp8Cuda, AKnownScaleGivesTheSameCodes) {
  for_each_fp8_case(DType::kBF16, [](Fp8Case& want) {
    quantize_fp8_ref(want.args());
    Fp8CudaCase got(want);
    QuantizeFp8Args args = got.args();
    args.known = got.gpu(want.scale);
    args.scale = {};
    for (const bool transposed : {false, true}) {
      args.q = transposed ? View{} : got.gpu(got.c.q);
      args.q_t = transposed ? got.gpu(got.c.q_t) : View{};
      quantize_fp8_cuda(args, got.rows_on_device(), nullptr, nullptr);
    }
    got.gpu.download();
    expect_same_bits(got.c.q, want.q);
    expect_same_bits(got.c.q_t, want.q_t);
  });
}

TEST(QuantizeFp8Cuda, TheFlagOfLaterMicroBatchesKeepsTheOutputs) {
  for (const bool keeps : {false, true}) {
    Fp8Case want(DType::kBF16, DType::kE4M3, 144, 80, -1);
    quantize_fp8_ref(want.args());
    Fp8CudaCase got(want);
    const QuantizeFp8Args args = got.args();
    quantize_fp8_cuda(args, nullptr, nullptr, nullptr);
    got.gpu.download();
    for (int64_t i = 0; i < got.c.x.count(); ++i) got.c.x.view().store(i, 3.0 * got.c.x.load(i) + 1.0);
    got.gpu.upload();
    GuardedBuffer flag = integers(DType::kI32, {keeps ? std::bit_cast<int32_t>(1.0f) : 0});
    quantize_fp8_cuda(args, nullptr, got.gpu(flag).as<int32_t>(), nullptr);
    got.gpu.download();
    EXPECT_EQ(compare_bits(got.c.q, want.q).ok(), keeps);
    EXPECT_EQ(compare_bits(got.c.q_t, want.q_t).ok(), keeps);
    EXPECT_EQ(got.c.scale.load(0) == want.scale.load(0), keeps);
  }
}

TEST(QuantizeFp8Cuda, NumbersThatAreNotFiniteMakeTheScaleNaN) {
  for (const DType dtype : kTypes) {
    for (const double bad :
         {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
          std::numeric_limits<double>::quiet_NaN()}) {
      for (const int64_t place : {0, 12345, 143 * 96 + 95}) {
        Fp8Case want(dtype, DType::kE5M2, 144, 96, -1);
        Fp8CudaCase got(want);
        got.c.x.view().store(place, bad);
        quantize_fp8_cuda(got.args(), nullptr, nullptr, nullptr);
        got.gpu.download();
        EXPECT_TRUE(std::isnan(got.c.scale.load(0)));
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::test
