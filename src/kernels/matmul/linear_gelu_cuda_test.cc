#include "kernels/matmul/linear_gelu.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/matmul/testing/compute_capability.h"
#include "tests/support/device_buffer.h"

namespace plimsoll {
namespace {

using test::compute_capability;
using test::DeviceBuffer;
using test::GuardedBuffer;

enum class Way : uint8_t { kAsPrepared, kOwnProduct };

std::vector<double> bounds(const LinearProblem& problem, const GuardedBuffer& x, const GuardedBuffer& w,
                           const GuardedBuffer& bias) {
  const std::vector<double> xs = x.to_doubles(), ws = w.to_doubles(), biases = bias.to_doubles();
  std::vector<double> limits;
  for (int64_t t = 0; t < problem.rows; ++t) {
    for (int64_t n = 0; n < problem.columns; ++n) {
      double product = 0.0, abs_sum = 0.0;
      for (int64_t k = 0; k < problem.terms; ++k) {
        const double term =
            xs[static_cast<size_t>(t * problem.terms + k)] * ws[static_cast<size_t>(n * problem.terms + k)];
        product += term;
        abs_sum += std::abs(term);
      }
      limits.push_back(linear_gelu_error_bound(problem, abs_sum, product, biases[static_cast<size_t>(n)]));
    }
  }
  return limits;
}

void check(LinearProblem problem, DType bias_dtype, Way way) {
  problem.sm = compute_capability();
  const std::string name =
      fmt::format("linear_gelu_cuda/{}x{}x{} {} bias {} way {}", problem.rows, problem.columns, problem.terms,
                  dtype_name(problem.dtype), dtype_name(bias_dtype), static_cast<int>(way));
  SCOPED_TRACE(name);
  GuardedBuffer x(name + "/x", problem.dtype, problem.rows * problem.terms);
  GuardedBuffer w(name + "/w", problem.dtype, problem.columns * problem.terms);
  GuardedBuffer bias(name + "/bias", bias_dtype, problem.columns);
  GuardedBuffer y(name + "/y", problem.dtype, problem.rows * problem.columns);
  GuardedBuffer want(name + "/want", DType::kF64, problem.rows * problem.columns);
  GuardedBuffer scratch(name + "/scratch", DType::kU8, kCublasLtWorkspaceBytes);
  x.fill_normal();
  // The products have a standard deviation of two, so that they reach both tails of GELU.
  w.fill_normal(0.0, 2.0 / std::sqrt(static_cast<double>(problem.terms)));
  bias.fill_uniform();
  DeviceBuffer dx(x), dw(w), dbias(bias), dy(y), dscratch(scratch);
  const auto linear =
      way == Way::kOwnProduct ? prepare_own_linear_gelu_cuda(problem) : prepare_linear_gelu_cuda(problem);
  linear->run({.a = dx.view(),
               .b = dw.view(),
               .bias = dbias.view(),
               .c = dy.view(),
               .scratch = {static_cast<std::byte*>(dscratch.view().data),
                           static_cast<size_t>(kCublasLtWorkspaceBytes)}},
              nullptr, nullptr);
  dy.download();
  linear_gelu_ref(problem, {.a = x.view(), .b = w.view(), .bias = bias.view(), .c = want.view()});
  const auto result = test::compare(
      y, want, {.per_element = bounds(problem, x, w, bias), .shape = {problem.rows, problem.columns}});
  EXPECT_TRUE(result.ok()) << result << " [" << linear->description() << "]";
}

#define PLIMSOLL_NEEDS_HOPPER() \
  if (compute_capability() != 90) GTEST_SKIP() << "needs compute capability 9.0"

TEST(LinearGeluCuda, RowsThatDoNotFillATile) {
  PLIMSOLL_NEEDS_HOPPER();
  check({.rows = 1, .columns = 256, .terms = 768}, DType::kF32, Way::kOwnProduct);
  check({.rows = 130, .columns = 256, .terms = 1024}, DType::kBF16, Way::kOwnProduct);
  check({.rows = 127, .columns = 512, .terms = 768, .dtype = DType::kF16}, DType::kF16, Way::kOwnProduct);
}

TEST(LinearGeluCuda, TermsOfManyStages) {
  PLIMSOLL_NEEDS_HOPPER();
  check({.rows = 64, .columns = 256, .terms = 1280}, DType::kF32, Way::kOwnProduct);
  check({.rows = 64, .columns = 256, .terms = 2048, .dtype = DType::kF16}, DType::kF32, Way::kOwnProduct);
}

TEST(LinearGeluCuda, FewRowsUseTheLibrary) {
  check({.rows = 37, .columns = 256, .terms = 768}, DType::kF32, Way::kAsPrepared);
  check({.rows = 37, .columns = 256, .terms = 768, .dtype = DType::kF16}, DType::kF16, Way::kAsPrepared);
}

// A thread block writes one tile while it computes the next one. The number of rows is large enough that every block computes several
// tiles, so that errors in this overlap are found. The rows repeat, so the results of the first rows are the expected results of all.
void check_many_rows(int64_t terms, DType dtype) {
  constexpr int64_t kDistinct = 64, kRows = 128 * 64 - 5;
  const LinearProblem problem{
      .rows = kRows, .columns = 1024, .terms = terms, .dtype = dtype, .sm = compute_capability()};
  ASSERT_TRUE(linear_takes_own_product(problem));
  GuardedBuffer x("many/x", dtype, kRows * terms), w("many/w", dtype, problem.columns * terms);
  GuardedBuffer bias("many/bias", DType::kF32, problem.columns);
  GuardedBuffer y("many/y", dtype, kRows * problem.columns), z("many/z", dtype, kRows * problem.columns);
  x.fill_normal();
  w.fill_normal(0.0, 2.0 / std::sqrt(static_cast<double>(terms)));
  bias.fill_uniform();
  for (int64_t i = kDistinct * terms; i < x.count(); ++i) x.view().store(i, x.load(i % (kDistinct * terms)));
  DeviceBuffer dx(x), dw(w), dbias(bias), dy(y), dz(z);
  const auto prepared = prepare_linear_gelu_cuda(problem);
  for (DeviceBuffer* out : {&dy, &dz}) {
    prepared->run({.a = dx.view(), .b = dw.view(), .bias = dbias.view(), .c = out->view()}, nullptr, nullptr);
    out->download();
  }
  EXPECT_TRUE(test::compare_bits(y, z).ok());
  int64_t wrong = 0;
  for (int64_t i = 0; i < y.count(); ++i)
    wrong += y.load(i) == y.load(i % (kDistinct * problem.columns)) ? 0 : 1;
  EXPECT_EQ(wrong, 0);
  LinearProblem first = problem;
  first.rows = kDistinct;
  GuardedBuffer few_x("few/x", dtype, kDistinct * terms), got("few/y", dtype, kDistinct * problem.columns);
  GuardedBuffer want("few/want", DType::kF64, kDistinct * problem.columns);
  for (int64_t i = 0; i < few_x.count(); ++i) few_x.view().store(i, x.load(i));
  for (int64_t i = 0; i < got.count(); ++i) got.view().store(i, y.load(i));
  linear_gelu_ref(first, {.a = few_x.view(), .b = w.view(), .bias = bias.view(), .c = want.view()});
  EXPECT_TRUE(
      test::compare(got, want,
                    {.per_element = bounds(first, few_x, w, bias), .shape = {kDistinct, problem.columns}})
          .ok());
}

TEST(LinearGeluCuda, ManyRowsAndTheSameBitsTwice) {
  PLIMSOLL_NEEDS_HOPPER();
  check_many_rows(768, DType::kBF16);
  check_many_rows(1024, DType::kF16);
}

}  // namespace
}  // namespace plimsoll
