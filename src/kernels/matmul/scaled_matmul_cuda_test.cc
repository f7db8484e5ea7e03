// Tests matrix products of fp8 operands by cuBLASLt: the three products of the training of a linear layer, with and without bias and
// accumulation.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/matmul/matmul_cuda.h"
#include "tests/support/device_buffer.h"

namespace plimsoll {
namespace {

using test::DeviceBuffer;
using test::GuardedBuffer;

void check(const MatmulProblem& problem) {
  const std::string name = fmt::format("scaled_matmul_cuda/{}x{}x{} {}*{}->{}{}{}", problem.m, problem.n,
                                       problem.k, dtype_name(problem.a), dtype_name(problem.b),
                                       dtype_name(problem.c), problem.bias == MatmulBias::kRow ? " bias" : "",
                                       problem.writes == MatmulWrites::kOverwriteOrAdd ? " add" : "");
  SCOPED_TRACE(name);
  GuardedBuffer a(name + "/a", problem.a, problem.m * problem.k);
  GuardedBuffer b(name + "/b", problem.b, problem.k * problem.n);
  GuardedBuffer a_scale(name + "/a_scale", DType::kF32, 2), b_scale(name + "/b_scale", DType::kF32, 2);
  GuardedBuffer bias(name + "/bias", problem.bias_dtype, problem.n);
  GuardedBuffer c(name + "/c", problem.c, problem.m * problem.n);
  GuardedBuffer want(name + "/want", DType::kF64, problem.m * problem.n);
  GuardedBuffer scratch(name + "/scratch", DType::kU8, problem.workspace_bytes);
  GuardedBuffer flag(name + "/flag", DType::kI32, 1);
  a.fill_normal(0.0, 30.0);
  b.fill_normal(0.1, 20.0);
  bias.fill_uniform();
  a_scale.assign(std::vector<double>{0x1.8p-6, 99.0});
  b_scale.assign(std::vector<double>{0x1.4p-5, -99.0});
  flag.fill(0.0);
  DeviceBuffer da(a), db(b), das(a_scale), dbs(b_scale), dbias(bias), dc(c), dscratch(scratch), dflag(flag);
  const auto matmul = prepare_matmul_cuda(problem, Fp32Products::kF32);
  const bool has_bias = problem.bias == MatmulBias::kRow;
  const bool adds = problem.writes == MatmulWrites::kOverwriteOrAdd;
  const MatmulArgs args{.a = da.view(),
                        .b = db.view(),
                        .bias = has_bias ? dbias.view() : View{},
                        .c = dc.view(),
                        .a_scale = das.view(),
                        .b_scale = dbs.view(),
                        .scratch = {static_cast<std::byte*>(dscratch.view().data),
                                    static_cast<size_t>(problem.workspace_bytes)}};
  MatmulArgs reference{.a = a.view(),
                       .b = b.view(),
                       .bias = has_bias ? bias.view() : View{},
                       .c = want.view(),
                       .a_scale = a_scale.view(),
                       .b_scale = b_scale.view()};
  for (const Accumulate accumulate : {Accumulate::kOverwrite, Accumulate::kAdd}) {
    if (accumulate == Accumulate::kAdd && !adds) break;
    std::vector<double> old(static_cast<size_t>(c.count()));
    if (accumulate == Accumulate::kAdd) {
      old = c.to_doubles();
      want.assign(old);
      flag.view().as<int32_t>()[0] = std::bit_cast<int32_t>(1.0f);
      dflag.upload();
    }
    reference.accumulate = accumulate;
    matmul->run(args, adds ? dflag.as<int32_t>() : nullptr, nullptr);
    dc.download();
    matmul_ref(problem, reference);
    const double scale = a_scale.load(0) * b_scale.load(0);
    std::vector<double> limits(static_cast<size_t>(c.count()));
    for (int64_t i = 0; i < problem.m; ++i) {
      for (int64_t j = 0; j < problem.n; ++j) {
        const auto index = static_cast<size_t>(i * problem.n + j);
        double sum = std::abs(old[index]) + (has_bias ? std::abs(bias.load(j)) : 0.0);
        for (int64_t l = 0; l < problem.k; ++l)
          sum += scale * std::abs(a.load(i * problem.k + l) * b.load(j * problem.k + l));
        limits[index] = scaled_matmul_error_bound(problem, sum, want.load(static_cast<int64_t>(index)));
      }
    }
    const auto result = test::compare(c, want, {.per_element = limits, .shape = {problem.m, problem.n}});
    EXPECT_TRUE(result.ok()) << result << " [" << matmul->description() << "]";
    dscratch.download();
    EXPECT_EQ(scratch.broken_guard(), GuardedBuffer::kIntact);
  }
}

TEST(ScaledMatmulCuda, TheProductsOfALinearLayerAreWithinTheirErrorBound) {
  struct Sizes {
    int64_t T, N, K;
  };
  for (const auto [T, N, K] : {Sizes{64, 128, 256}, {16, 16, 16}, {48, 80, 512}, {144, 96, 128}}) {
    MatmulProblem y{.m = T,
                    .n = N,
                    .k = K,
                    .trans_b = Transpose::kYes,
                    .a = DType::kE4M3,
                    .b = DType::kE4M3,
                    .c = DType::kBF16};
    check(y);
    y.bias = MatmulBias::kRow;
    y.bias_dtype = DType::kBF16;
    check(y);
    const MatmulProblem d_x{.m = T,
                            .n = K,
                            .k = N,
                            .trans_b = Transpose::kYes,
                            .a = DType::kE5M2,
                            .b = DType::kE4M3,
                            .c = DType::kBF16};
    check(d_x);
    for (const DType dtype : {DType::kBF16, DType::kF32}) {
      for (const MatmulWrites writes : {MatmulWrites::kOverwriteOnly, MatmulWrites::kOverwriteOrAdd}) {
        check({.m = N,
               .n = K,
               .k = T,
               .trans_b = Transpose::kYes,
               .a = DType::kE5M2,
               .b = DType::kE4M3,
               .c = dtype,
               .writes = writes});
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll
