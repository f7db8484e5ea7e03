#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/element_wise/activation.h"
#include "kernels/element_wise/add.h"
#include "kernels/element_wise/cast.h"
#include "kernels/element_wise/dropout.h"
#include "kernels/element_wise/testing/cuda_cases.h"

namespace plimsoll::test {
namespace {

constexpr RandomSite kSite{.seed = 0x123456789abcdef0u, .step = 7, .site = 3};
GuardedBuffer rng_buffer() {
  return integers(DType::kI64, {static_cast<int64_t>(kSite.seed), kSite.step});
}

TEST(AddCuda, AgreesWithTheReferenceForMixedTypes) {
  for (const RowsAndColumns shape : cuda_shapes()) {
    for (const DType dtype : cuda_types()) {
      for (const DType other : {dtype, dtype == DType::kF32 ? DType::kBF16 : DType::kF32}) {
        const int64_t n = shape.size();
        GuardedBuffer a(tensor_name("a", shape, dtype), dtype, n),
            b(tensor_name("b", shape, other), other, n), c("c", dtype, n), want("want", DType::kF64, n);
        a.fill_normal();
        b.fill_normal();
        add_fwd_ref({a.view(), b.view(), want.view(), n});
        std::vector<double> bounds;
        for (int64_t i = 0; i < n; ++i) bounds.push_back(add_fwd_error_bound(want.load(i), dtype));
        Twins gpu;
        run_twice(gpu, {&c}, [&] { add_fwd_cuda({gpu(a), gpu(b), gpu(c), n}, nullptr); });
        expect_within(c, want, bounds, Zeros::kSuspicious);
        add_fwd_cuda({gpu(a), gpu(b), gpu(a), n}, nullptr);  // the result overwrites the first input
        gpu.download();
        expect_same_bits(a, c);
      }
    }
  }
}

TEST(AddCuda, UnalignedAddressesGiveTheSameBits) {
  constexpr int64_t n = 1000;
  for (const DType dtype : cuda_types()) {
    GuardedBuffer a("odd/a", dtype, n + 1), b("odd/b", dtype, n), c("odd/c", dtype, n), d("odd/d", dtype, n);
    a.fill_normal();
    b.fill_normal();
    Twins gpu;
    gpu(a);
    add_fwd_cuda({gpu.twin(a).view_from(1), gpu(b), gpu(c), n}, nullptr);
    GuardedBuffer shifted("odd/shifted", dtype, n);
    for (int64_t i = 0; i < n; ++i) shifted.view().store(i, a.load(i + 1));
    add_fwd_cuda({gpu(shifted), gpu(b), gpu(d), n}, nullptr);
    gpu.download();
    expect_same_bits(c, d);
  }
}

TEST(AccumulateCuda, AddsOrOverwritesByTheFlagOnTheDevice) {
  for (const DType other : cuda_types()) {
    constexpr int64_t n = 4099;
    GuardedBuffer into("into", DType::kF32, n), d("accumulate/d", other, n), want("want", DType::kF32, n);
    d.fill_normal();
    for (const bool adds : {false, true}) {
      GuardedBuffer flag = integers(DType::kI32, {adds ? 5 : 0});
      // If the result overwrites its destination, the old values must have no effect, so they are NaN here.
      if (adds) into.fill_uniform();
      for (int64_t i = 0; i < n; ++i) want.view().store(i, d.load(i) + (adds ? into.load(i) : 0.0));
      Twins gpu;
      accumulate_cuda({{gpu(into), gpu(d), gpu(into), n}}, gpu(flag).as<int32_t>(), nullptr);
      gpu.download();
      expect_same_bits(into, want);
    }
  }
}

TEST(BiasAddCuda, AgreesWithTheReference) {
  for (const RowsAndColumns shape : cuda_shapes()) {
    for (const DType dtype : cuda_types()) {
      for (const DType parameters : {DType::kF32, dtype}) {
        GuardedBuffer x(tensor_name("x", shape, dtype), dtype, shape.size()),
            b(tensor_name("b", shape, parameters), parameters, shape.C), y("y", dtype, shape.size()),
            want("want", DType::kF64, shape.size());
        x.fill_normal();
        b.fill_normal();
        bias_add_fwd_ref({x.view(), b.view(), want.view(), shape.T, shape.C});
        std::vector<double> bounds;
        for (int64_t i = 0; i < shape.size(); ++i) bounds.push_back(add_fwd_error_bound(want.load(i), dtype));
        Twins gpu;
        run_twice(gpu, {&y}, [&] { bias_add_fwd_cuda({gpu(x), gpu(b), gpu(y), shape.T, shape.C}, nullptr); });
        expect_within(y, want, bounds, Zeros::kSuspicious);
        bias_add_fwd_cuda({gpu(x), gpu(b), gpu(x), shape.T, shape.C}, nullptr);
        gpu.download();
        expect_same_bits(x, y);
      }
    }
  }
}

void check_bias_grad(RowsAndColumns shape, DType dtype, int64_t adds) {
  GuardedBuffer d_y(tensor_name("d_y", shape, dtype), dtype, shape.size()),
      before(tensor_name("before", shape, dtype), DType::kF32, shape.C), d_b("d_b", DType::kF32, shape.C),
      want("want", DType::kF64, shape.C),
      scratch = scratch_of(bias_grad_cuda_scratch_bytes(shape.T, shape.C)),
      flag = integers(DType::kI32, {adds});
  d_y.fill_normal();
  before.fill_normal();
  want.assign(before.to_doubles());
  if (adds != 0) d_b.assign(before.to_doubles());
  bias_grad_ref(
      {d_y.view(), want.view(), {}, shape.T, shape.C, adds != 0 ? Accumulate::kAdd : Accumulate::kOverwrite});
  std::vector<double> bounds;
  for (int64_t c = 0; c < shape.C; ++c) {
    double magnitudes = std::abs(before.load(c));
    for (int64_t t = 0; t < shape.T; ++t) magnitudes += std::abs(d_y.load(t * shape.C + c));
    bounds.push_back(column_sum_cuda_error_bound(shape.T, shape.C, magnitudes, 0.0, 0.0, DType::kF32));
  }
  Twins gpu;
  run_twice(gpu, {&d_b}, [&] {
    bias_grad_cuda({gpu(d_y), gpu(d_b), gpu(scratch), shape.T, shape.C}, gpu(flag).as<int32_t>(), nullptr);
  });
  expect_within(d_b, want, bounds);
}

TEST(BiasGradCuda, AgreesWithTheReferenceOverwritingAndAdding) {
  for (const RowsAndColumns shape : cuda_shapes()) {
    for (const DType dtype : cuda_types()) {
      for (const int64_t adds : {0, 1}) check_bias_grad(shape, dtype, adds);
    }
  }
}

// Runs only a few small cases per kernel, because this test is for sanitizers, which make every allocation slow.
TEST(BiasGradCudaSmall, AgreesWithTheReference) {
  for (const DType dtype : cuda_types()) {
    check_bias_grad({70, 384}, dtype, 1);
    check_bias_grad({70, 17}, dtype, 0);
  }
}

TEST(TanhCuda, StaysWithinItsBoundOverTheWholeRange) {
  std::vector<double> values;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 4093) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::isnormal(value)) values.push_back(static_cast<double>(value));
  }
  const auto n = static_cast<int64_t>(values.size());
  ASSERT_GT(n, 1000000);
  GuardedBuffer x("x", DType::kF32, n), y("y", DType::kF32, n), want("want", DType::kF64, n);
  x.assign(values);
  tanh_fwd_ref({x.view(), want.view(), n});
  std::vector<double> bounds;
  for (int64_t i = 0; i < n; ++i) bounds.push_back(tanh_fwd_error_bound(want.load(i), DType::kF32));
  Twins gpu;
  tanh_fwd_cuda({gpu(x), gpu(y), n}, nullptr);
  gpu.download();
  expect_within(y, want, bounds);
}

TEST(ActivationsCuda, AgreeWithTheReferences) {
  for (const RowsAndColumns shape : cuda_shapes()) {
    for (const DType dtype : cuda_types()) {
      const int64_t n = shape.size();
      GuardedBuffer x(tensor_name("x", shape, dtype), dtype, n),
          d_y(tensor_name("d_y", shape, dtype), dtype, n);
      x.fill_normal();
      d_y.fill_normal();
      GuardedBuffer want_tanh("want tanh", DType::kF64, n), want_relu("want relu", DType::kF64, n),
          want_d_tanh("want d_tanh", DType::kF64, n), want_d_relu("want d_relu", DType::kF64, n);
      tanh_fwd_ref({x.view(), want_tanh.view(), n});
      relu_fwd_ref({x.view(), want_relu.view(), n});
      tanh_bwd_ref({x.view(), d_y.view(), want_d_tanh.view(), n});
      relu_bwd_ref({x.view(), d_y.view(), want_d_relu.view(), n});
      std::vector<double> tanh_bounds, d_tanh_bounds;
      for (int64_t i = 0; i < n; ++i) {
        tanh_bounds.push_back(tanh_fwd_error_bound(want_tanh.load(i), dtype));
        const double y_squared = x.load(i) * x.load(i);
        d_tanh_bounds.push_back(tanh_bwd_error_bound(x.load(i), d_y.load(i) * (1.0 + y_squared), dtype));
      }
      GuardedBuffer y("tanh", dtype, n), relu("relu", dtype, n), d_tanh("d_tanh", dtype, n),
          d_relu("d_relu", dtype, n);
      Twins gpu;
      run_twice(gpu, {&y, &relu, &d_tanh, &d_relu}, [&] {
        tanh_fwd_cuda({gpu(x), gpu(y), n}, nullptr);
        relu_fwd_cuda({gpu(x), gpu(relu), n}, nullptr);
        tanh_bwd_cuda({gpu(x), gpu(d_y), gpu(d_tanh), n}, nullptr);
        relu_bwd_cuda({gpu(x), gpu(d_y), gpu(d_relu), n}, nullptr);
      });
      expect_within(y, want_tanh, tanh_bounds, Zeros::kSuspicious);
      expect_within(d_tanh, want_d_tanh, d_tanh_bounds, Zeros::kSuspicious);
      expect_within(relu, want_relu, {});
      expect_within(d_relu, want_d_relu, {});
    }
  }
}

TEST(ActivationsCuda, NonFiniteInputsStayVisible) {
  GuardedBuffer x("x", DType::kF32, 3), y("y", DType::kF32, 3), relu("relu", DType::kF32, 3);
  x.assign(std::vector<double>{std::nan(""), HUGE_VAL, -HUGE_VAL});
  Twins gpu;
  tanh_fwd_cuda({gpu(x), gpu(y), 3}, nullptr);
  relu_fwd_cuda({gpu(x), gpu(relu), 3}, nullptr);
  gpu.download();
  EXPECT_TRUE(std::isnan(y.load(0)));
  EXPECT_EQ(y.load(1), 1.0);
  EXPECT_EQ(y.load(2), -1.0);
  EXPECT_TRUE(std::isnan(relu.load(0)));
  EXPECT_EQ(relu.load(1), HUGE_VAL);
  EXPECT_EQ(relu.load(2), 0.0);
}

TEST(CastCuda, RoundsAsTheReferenceDoes) {
  // fp32 numbers near those that bf16 can represent: every value of the upper 16 bits, with one of the lower halves 0x8000 (a tie), 0x7fff
  // and 1; also zeros, infinities and numbers near the limits of the range of f16.
  std::vector<double> values{0.0, -0.0, HUGE_VAL, -HUGE_VAL, 65519.0, 65520.0, 1e-7, 3e38, -6e-8, 3e-8};
  for (uint32_t i = 0; i < 65536; ++i) {
    const float value = std::bit_cast<float>((i << 16) | (i % 3 == 0 ? 0x8000u : i % 3 == 1 ? 0x7fffu : 1u));
    if (std::isfinite(value)) values.push_back(static_cast<double>(value));
  }
  const auto n = static_cast<int64_t>(values.size());
  for (const DType from : cuda_types()) {
    GuardedBuffer x("x", from, n);
    x.assign(values);
    for (const DType to : cuda_types()) {
      GuardedBuffer y("y", to, n), want("want", to, n);
      cast_fwd_ref({x.view(), want.view(), n});
      Twins gpu;
      run_twice(gpu, {&y}, [&] { cast_fwd_cuda({gpu(x), gpu(y), n}, nullptr); });
      expect_same_bits(y, want);
    }
  }
}

TEST(DropoutCuda, MaskEqualsTheCpusBitForBit) {
  for (const DType dtype : cuda_types()) {
    for (const int64_t n : {1, 3, 4, 5, 8, 13, 63, 256, 257, 1000, 32771, 100003}) {
      for (const double p : {0.1, 0.5, 0.999}) {
        // Tests a part of a tensor as one rank of several has it: the random numbers of its elements do not begin at the first block of the
        // random number generator.
        RandomSite site = kSite;
        site.first_block = p == 0.5 ? 3 : 0;
        GuardedBuffer x("x", dtype, n), y("y", dtype, n), want("want", DType::kF32, n), rng = rng_buffer();
        x.fill(1.0);
        std::vector<double> factors;
        for (int64_t i = 0; i < n; ++i) {
          const auto element = site.first_block * kHalvesOfBlock + static_cast<uint64_t>(i);
          const bool kept = random_half(kSite, element) >= dropout_threshold(p);
          factors.push_back(kept ? static_cast<double>(dropout_scale(p)) : 0.0);
        }
        GuardedBuffer rounded("rounded", dtype, n);
        rounded.assign(factors);
        Twins gpu;
        run_twice(gpu, {&y}, [&] {
          dropout_fwd_cuda({.x = gpu(x),
                            .y = gpu(y),
                            .n = n,
                            .p = p,
                            .where = {.site = site.site, .first_block = site.first_block}},
                           gpu(rng).as<int64_t>(), nullptr);
        });
        expect_same_bits(y, rounded);
        dropout_fwd_cuda({.x = gpu(x), .y = gpu(x), .n = n, .p = p, .where = site}, nullptr, nullptr);
        gpu.download();
        expect_same_bits(x, rounded);
      }
    }
  }
}

TEST(DropoutCuda, AgreesWithTheReferenceAndCopiesWithoutProbability) {
  for (const RowsAndColumns shape : cuda_shapes()) {
    for (const DType dtype : cuda_types()) {
      const int64_t n = shape.size();
      GuardedBuffer x(tensor_name("x", shape, dtype), dtype, n), y("y", dtype, n), copy("copy", dtype, n),
          want("want", DType::kF64, n);
      x.fill_normal();
      dropout_fwd_ref({x.view(), want.view(), n, 0.3, kSite});
      std::vector<double> bounds;
      for (int64_t i = 0; i < n; ++i) bounds.push_back(dropout_fwd_error_bound(want.load(i), dtype));
      Twins gpu;
      dropout_fwd_cuda({gpu(x), gpu(y), n, 0.3, kSite}, nullptr, nullptr);
      dropout_fwd_cuda({gpu(x), gpu(copy), n, 0.0, kSite}, nullptr, nullptr);
      gpu.download();
      expect_within(y, want, bounds);
      expect_same_bits(copy, x);
    }
  }
}

}  // namespace
}  // namespace plimsoll::test
