#include "kernels/matmul/matmul_cuda.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/cuda_error.h"
#include "tests/support/device_buffer.h"
#include "tests/support/keep_worst.h"

namespace plimsoll {
namespace {

using test::DeviceBuffer;
using test::GuardedBuffer;

std::string describe(const MatmulProblem& p, Fp32Products fp32) {
  return fmt::format("{}x{}x{}{}{} {}->{}{}{}{}", p.m, p.n, p.k, p.trans_a == Transpose::kYes ? " At" : "",
                     p.trans_b == Transpose::kYes ? " Bt" : "", dtype_name(p.a), dtype_name(p.c),
                     p.bias == MatmulBias::kRow ? " bias" : "",
                     p.writes == MatmulWrites::kOverwriteOrAdd ? " add" : "",
                     fp32 == Fp32Products::kF32 ? "" : " " + std::string(fp32_products_name(fp32)));
}

// Returns the error bound of matmul_cuda.h: that of matmul_error_bound with four times the unit roundoff, because
// tensor cores truncate. In tf32 each operand is also rounded to 11 bits.
double bound(const MatmulProblem& problem, Fp32Products fp32, double abs_sum, double want, double bias) {
  if (fp32 == Fp32Products::kTf32x3) return matmul_tf32x3_error_bound(problem, abs_sum);
  double limit = matmul_error_bound(problem, abs_sum, want) +
                 3.0 * static_cast<double>(problem.k + 2) * 0x1p-24 * abs_sum;
  if (problem.a == DType::kF32 && fp32 == Fp32Products::kTf32) limit += 2.0 * 0x1.01p-11 * abs_sum;
  if (problem.c == DType::kBF16) limit += 0x1.01p-8 * std::abs(want - bias) * (bias != 0.0 ? 1.0 : 0.0);
  if (problem.c == DType::kF16) {
    limit += 0x1.01p-11 * (std::abs(want) + (bias != 0.0 ? std::abs(want - bias) : 0.0)) + 0x1p-24;
  }
  return limit;
}

int64_t scratch_bytes(const MatmulProblem& problem, Fp32Products fp32) {
  return problem.workspace_bytes + (fp32 == Fp32Products::kTf32x3 ? tf32x3_split_bytes(problem) : 0);
}

std::span<std::byte> scratch_of(const DeviceBuffer& buffer, const MatmulProblem& problem, Fp32Products fp32) {
  return {static_cast<std::byte*>(buffer.view().data), static_cast<size_t>(scratch_bytes(problem, fp32))};
}

void check(const MatmulProblem& problem, Fp32Products fp32 = Fp32Products::kF32) {
  const std::string name = "matmul_cuda/" + describe(problem, fp32);
  SCOPED_TRACE(name);
  GuardedBuffer a(name + "/a", problem.a, problem.m * problem.k);
  GuardedBuffer b(name + "/b", problem.b, problem.k * problem.n);
  GuardedBuffer bias(name + "/bias", problem.bias_dtype, problem.n);
  GuardedBuffer c(name + "/c", problem.c, problem.m * problem.n);
  GuardedBuffer want(name + "/want", DType::kF64, problem.m * problem.n);
  GuardedBuffer scratch(name + "/scratch", DType::kU8, scratch_bytes(problem, fp32));
  GuardedBuffer flag(name + "/flag", DType::kI32, 1);
  a.fill_normal();
  b.fill_normal(0.01, 0.5);
  bias.fill_uniform();
  flag.fill(0.0);
  DeviceBuffer da(a), db(b), dbias(bias), dc(c), dscratch(scratch), dflag(flag);
  const auto matmul = prepare_matmul_cuda(problem, fp32);
  const bool adds = problem.writes == MatmulWrites::kOverwriteOrAdd;
  const MatmulArgs args{.a = da.view(),
                        .b = db.view(),
                        .bias = problem.bias == MatmulBias::kRow ? dbias.view() : View{},
                        .c = dc.view(),
                        .scratch = scratch_of(dscratch, problem, fp32)};
  MatmulArgs reference{.a = a.view(), .b = b.view(), .bias = {}, .c = want.view()};
  if (problem.bias == MatmulBias::kRow) reference.bias = bias.view();
  for (const Accumulate accumulate : {Accumulate::kOverwrite, Accumulate::kAdd}) {
    if (accumulate == Accumulate::kAdd && !adds) break;
    const std::vector<double> old =
        accumulate == Accumulate::kAdd ? c.to_doubles() : std::vector<double>(static_cast<size_t>(c.count()));
    if (accumulate == Accumulate::kAdd) {
      want.assign(old);
      flag.view().as<int32_t>()[0] = std::bit_cast<int32_t>(1.0f);
      dflag.upload();
    }
    reference.accumulate = accumulate;
    matmul->run(args, adds ? dflag.as<int32_t>() : nullptr, nullptr);
    dc.download();
    matmul_ref(problem, reference);
    std::vector<double> limits(static_cast<size_t>(c.count()));
    for (int64_t i = 0; i < problem.m; ++i) {
      for (int64_t j = 0; j < problem.n; ++j) {
        const auto index = static_cast<size_t>(i * problem.n + j);
        double sum = std::abs(old[index]) + (problem.bias == MatmulBias::kRow ? std::abs(bias.load(j)) : 0.0);
        for (int64_t l = 0; l < problem.k; ++l) {
          sum += std::abs(a.load(problem.trans_a == Transpose::kYes ? l * problem.m + i : i * problem.k + l) *
                          b.load(problem.trans_b == Transpose::kYes ? j * problem.k + l : l * problem.n + j));
        }
        limits[index] = bound(problem, fp32, sum, want.load(static_cast<int64_t>(index)),
                              problem.bias == MatmulBias::kRow ? bias.load(j) : 0.0);
      }
    }
    const auto result = test::compare(c, want, {.per_element = limits, .shape = {problem.m, problem.n}});
    EXPECT_TRUE(result.ok()) << result << " [" << matmul->description() << "]";
    dscratch.download();
    EXPECT_EQ(scratch.broken_guard(), GuardedBuffer::kIntact);
  }
}

// Checks the three matrix products of the training of a linear layer y[T, N] = x[T, K] W[N, K]^T + bias.
void check_layer(int64_t T, int64_t N, int64_t K, DType dtype, Fp32Products fp32 = Fp32Products::kF32) {
  MatmulProblem y{.m = T, .n = N, .k = K, .trans_b = Transpose::kYes, .a = dtype, .b = dtype, .c = dtype};
  check(y, fp32);
  y.bias = MatmulBias::kRow;
  y.bias_dtype = dtype;
  check(y, fp32);
  check({.m = T, .n = K, .k = N, .a = dtype, .b = dtype, .c = dtype}, fp32);
  MatmulProblem dw{.m = N, .n = K, .k = T, .trans_a = Transpose::kYes, .a = dtype, .b = dtype, .c = dtype};
  check(dw, fp32);
  dw.c = DType::kF32;
  dw.writes = MatmulWrites::kOverwriteOrAdd;
  check(dw, fp32);
}

TEST(MatmulCuda, LayersInF32) {
  check_layer(37, 48, 64, DType::kF32);
  check_layer(200, 384, 96, DType::kF32);
  check_layer(64, 2, 128, DType::kF32);
}

TEST(MatmulCuda, OddSizesInF32) {
  check_layer(1, 3, 5, DType::kF32);
  check_layer(17, 7, 33, DType::kF32);
}

TEST(MatmulCuda, LayersInTf32) {
  check_layer(200, 384, 96, DType::kF32, Fp32Products::kTf32);
}

TEST(MatmulCuda, LayersAsThreeTf32Products) {
  check_layer(200, 384, 96, DType::kF32, Fp32Products::kTf32x3);
  check_layer(128, 64, 1024, DType::kF32, Fp32Products::kTf32x3);
  check_layer(65, 67, 71, DType::kF32, Fp32Products::kTf32x3);
}

// The operands have rounding errors in TF32 of the same sign, so the errors of a sum add up. Three TF32 products must stay within their
// error bound, which a single TF32 product exceeds.
TEST(MatmulCuda, ThreeTf32ProductsKeepABoundThatOneDoesNot) {
  const MatmulProblem problem{.m = 128, .n = 128, .k = 256};
  GuardedBuffer a("tf32x3_bound/a", DType::kF32, problem.m * problem.k);
  GuardedBuffer b("tf32x3_bound/b", DType::kF32, problem.k * problem.n);
  GuardedBuffer want("tf32x3_bound/want", DType::kF64, problem.m * problem.n);
  for (GuardedBuffer* operand : {&a, &b}) {
    for (int64_t i = 0; i < operand->count(); ++i) {
      operand->view().store(i, 1.0 + static_cast<double>(i * 7 % 1024) * 0x1p-10 + 0x1.9p-12);
    }
  }
  DeviceBuffer da(a), db(b);
  matmul_ref(problem, {.a = a.view(), .b = b.view(), .bias = {}, .c = want.view()});
  const auto worst = [&](Fp32Products fp32) {
    const std::string name = "tf32x3_bound/" + std::string(fp32_products_name(fp32));
    GuardedBuffer c(name, DType::kF32, problem.m * problem.n);
    GuardedBuffer scratch(name + "/scratch", DType::kU8, scratch_bytes(problem, fp32));
    DeviceBuffer dc(c), ds(scratch);
    prepare_matmul_cuda(problem, fp32)
        ->run({.a = da.view(),
               .b = db.view(),
               .bias = {},
               .c = dc.view(),
               .scratch = scratch_of(ds, problem, fp32)},
              nullptr, nullptr);
    dc.download();
    double largest = 0.0;
    for (int64_t i = 0; i < c.count(); ++i) {
      // All operands are positive, so the result is also the sum of absolute values from which the bound is computed.
      const double limit = matmul_tf32x3_error_bound(problem, want.load(i));
      test::keep_worst(largest, std::abs(c.load(i) - want.load(i)) / limit);
    }
    return largest;
  };
  EXPECT_LE(worst(Fp32Products::kTf32x3), 1.0);
  EXPECT_GT(worst(Fp32Products::kTf32), 1.0);
}

TEST(MatmulCuda, LayersInBf16) {
  check_layer(37, 48, 64, DType::kBF16);
  check_layer(200, 384, 96, DType::kBF16);
  check_layer(64, 2, 128, DType::kBF16);
  check_layer(17, 7, 33, DType::kBF16);
}

TEST(MatmulCuda, LayersInF16) {
  check_layer(200, 384, 96, DType::kF16);
  check_layer(17, 7, 33, DType::kF16);
}

// Checks a product plus an addend D, which is a separate matrix or C itself. Both results must be within the error bound, but their bits
// may differ.
void check_addend(int64_t T, int64_t N, int64_t K, DType dtype) {
  const MatmulProblem problem{.m = T,
                              .n = N,
                              .k = K,
                              .trans_b = Transpose::kYes,
                              .a = dtype,
                              .b = dtype,
                              .c = dtype,
                              .writes = MatmulWrites::kAddend};
  const std::string name = "matmul_cuda/addend " + describe(problem, Fp32Products::kF32);
  SCOPED_TRACE(name);
  GuardedBuffer a(name + "/a", dtype, T * K), b(name + "/b", dtype, K * N), d(name + "/d", dtype, T * N);
  GuardedBuffer c(name + "/c", dtype, T * N), want(name + "/want", DType::kF64, T * N);
  GuardedBuffer scratch(name + "/scratch", DType::kU8, kCublasLtWorkspaceBytes);
  a.fill_normal();
  b.fill_normal(0.01, 0.5);
  d.fill_normal(0.0, 4.0);
  DeviceBuffer da(a), db(b), dd(d), dc(c), dscratch(scratch);
  matmul_ref(problem, {.a = a.view(), .b = b.view(), .bias = {}, .c = want.view(), .addend = d.view()});
  std::vector<double> limits;
  for (int64_t i = 0; i < T * N; ++i) {
    double sum = std::abs(d.load(i));
    for (int64_t l = 0; l < K; ++l) sum += std::abs(a.load(i / N * K + l) * b.load(i % N * K + l));
    limits.push_back(bound(problem, Fp32Products::kF32, sum, want.load(i), d.load(i)));
  }
  const auto matmul = prepare_matmul_cuda(problem, Fp32Products::kF32);
  for (auto [device, host] : {std::pair{&dc, &c}, std::pair{&dd, &d}}) {
    matmul->run({.a = da.view(),
                 .b = db.view(),
                 .bias = {},
                 .c = device->view(),
                 .addend = dd.view(),
                 .scratch = scratch_of(dscratch, problem, Fp32Products::kF32)},
                nullptr, nullptr);
    device->download();
    const auto result = test::compare(*host, want, {.per_element = limits, .shape = {T, N}});
    EXPECT_TRUE(result.ok()) << result << " [" << matmul->description() << "]";
  }
}

TEST(MatmulCuda, AddsAnotherMatrix) {
  check_addend(37, 48, 64, DType::kBF16);
  check_addend(300, 1024, 256, DType::kBF16);
  check_addend(64, 256, 2048, DType::kF16);
}

// Tests that a small or empty --matmul_workspace is sufficient. The sums have many terms, which cuBLASLt would divide among multiprocessors
// if it had more workspace.
TEST(MatmulCuda, StaysWithinASmallOrEmptyWorkspace) {
  for (const int64_t workspace_bytes : {int64_t{0}, int64_t{1} << 20}) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      MatmulProblem problem{.m = 128,
                            .n = 192,
                            .k = 4096,
                            .trans_a = Transpose::kYes,
                            .a = dtype,
                            .b = dtype,
                            .c = DType::kF32,
                            .writes = MatmulWrites::kOverwriteOrAdd};
      problem.workspace_bytes = workspace_bytes;
      check(problem);
      if (dtype != DType::kF32) continue;
      check(problem, Fp32Products::kTf32);
      check(problem, Fp32Products::kTf32x3);
    }
  }
}

TEST(MatmulCuda, TwoRunsGiveTheSameBits) {
  const MatmulProblem problem{.m = 384,
                              .n = 384,
                              .k = 4096,
                              .trans_a = Transpose::kYes,
                              .a = DType::kBF16,
                              .b = DType::kBF16,
                              .c = DType::kF32};
  GuardedBuffer a("same_bits/a", problem.a, problem.m * problem.k),
      b("same_bits/b", problem.b, problem.n * problem.k);
  GuardedBuffer first("same_bits/first", problem.c, problem.m * problem.n);
  GuardedBuffer second("same_bits/second", problem.c, problem.m * problem.n);
  GuardedBuffer scratch("same_bits/scratch", DType::kU8, kCublasLtWorkspaceBytes);
  a.fill_normal();
  b.fill_normal();
  DeviceBuffer da(a), db(b), d1(first), d2(second), ds(scratch);
  for (DeviceBuffer* c : {&d1, &d2}) {
    const auto matmul = prepare_matmul_cuda(problem, Fp32Products::kF32);
    matmul->run({.a = da.view(),
                 .b = db.view(),
                 .bias = {},
                 .c = c->view(),
                 .scratch = scratch_of(ds, problem, Fp32Products::kF32)},
                nullptr, nullptr);
    c->download();
  }
  EXPECT_TRUE(test::compare_bits(first, second).ok());
}

}  // namespace
}  // namespace plimsoll
