#include "kernels/matmul/linear_norm.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/matmul/testing/compute_capability.h"
#include "kernels/matmul/testing/linear_norm_case.h"
#include "tests/support/device_buffer.h"

namespace plimsoll {
namespace {

using test::compute_capability;
using test::DeviceBuffer;
using test::GuardedBuffer;
using test::LinearNormCase;
using Way = CudaLinearNorm::Way;
#define PLIMSOLL_NEEDS_HOPPER() \
  if (compute_capability() != 90) GTEST_SKIP() << "needs compute capability 9.0"

// States the tensor in which y is stored: a tensor of its own, or that of the residual.
enum class Place : uint8_t { kApart, kInPlace };

GuardedBuffer run(LinearNormCase& layer, Way way, Place place) {
  const LinearProblem& p = layer.problem;
  GuardedBuffer y("linear_norm/y", p.dtype, p.rows * p.columns);
  const int64_t scratch_bytes = std::max(p.workspace_bytes, linear_norm_sums_bytes(p));
  GuardedBuffer scratch("linear_norm/scratch", DType::kU8, scratch_bytes);
  DeviceBuffer x(layer.x), w(layer.w), bias(layer.bias), residual(layer.residual), gain(layer.gain),
      beta(layer.beta), dy(y), dscratch(scratch);
  if (place == Place::kInPlace) {
    EXPECT_EQ(cudaMemcpy(dy.view().data, residual.view().data,
                         static_cast<size_t>(y.count() * dtype_bytes(p.dtype)), cudaMemcpyDeviceToDevice),
              cudaSuccess);
  }
  CudaLinearNorm(p, way).run(
      {.x = x.view(),
       .w = w.view(),
       .bias = bias.view(),
       .residual = place == Place::kInPlace ? dy.view() : residual.view(),
       .gain = gain.view(),
       .beta = layer.has_beta ? beta.view() : View{},
       .y = dy.view(),
       .eps = LinearNormCase::kEps,
       .scratch = {static_cast<std::byte*>(dscratch.view().data), static_cast<size_t>(scratch_bytes)}},
      nullptr);
  dy.download();
  return y;
}

enum class Beta : uint8_t { kNo, kYes };

void check(LinearProblem problem, DType parameters, Way way, double mean = 0.0, Beta beta = Beta::kYes) {
  problem.sm = compute_capability();
  const std::string name =
      fmt::format("linear_norm_cuda/{}x{}x{} {} {} mean {}", problem.rows, problem.columns, problem.terms,
                  dtype_name(problem.dtype), dtype_name(parameters), mean);
  SCOPED_TRACE(name);
  LinearNormCase layer(problem, parameters, name);
  layer.fill(mean);
  layer.has_beta = beta == Beta::kYes;
  const GuardedBuffer want = layer.reference();
  const std::vector<double> bounds = layer.bounds();
  const GuardedBuffer y = run(layer, way, Place::kApart), in_place = run(layer, way, Place::kInPlace);
  for (const GuardedBuffer* got : {&y, &in_place}) {
    const auto result =
        test::compare(*got, want, {.per_element = bounds, .shape = {problem.rows, problem.columns}});
    EXPECT_TRUE(result.ok()) << result;
  }
  // Compares bits only if Plimsoll's own kernel runs: the library may choose another algorithm, with other bits, if it adds to its own
  // output.
  if (way == Way::kOwn) {
    EXPECT_TRUE(test::compare_bits(y, in_place).ok());
  }
}

TEST(LinearNormCuda, SmallRowsOfOneToEightTiles) {
  PLIMSOLL_NEEDS_HOPPER();
  check({.rows = 1, .columns = 256, .terms = 768}, DType::kF32, Way::kOwn);
  check({.rows = 130, .columns = 512, .terms = 1024}, DType::kBF16, Way::kOwn);
  check({.rows = 127, .columns = 768, .terms = 768, .dtype = DType::kF16}, DType::kF16, Way::kOwn);
  check({.rows = 70, .columns = 1024, .terms = 1024}, DType::kF32, Way::kOwn);
  check({.rows = 9, .columns = 1280, .terms = 768}, DType::kF32, Way::kOwn);
  check({.rows = 17, .columns = 2048, .terms = 768, .dtype = DType::kF16}, DType::kF32, Way::kOwn);
}

TEST(LinearNormCuda, SmallTermsOfManyStages) {
  PLIMSOLL_NEEDS_HOPPER();
  check({.rows = 64, .columns = 512, .terms = 1280}, DType::kF32, Way::kOwn);
  check({.rows = 16, .columns = 1024, .terms = 4096}, DType::kBF16, Way::kOwn);
}

// The mean of each row is far from zero compared with its standard deviation. A kernel that computes the variance as E[s^2] - mean^2 would
// lose accuracy.
TEST(LinearNormCuda, SmallMeansFarFromZero) {
  PLIMSOLL_NEEDS_HOPPER();
  check({.rows = 20, .columns = 1024, .terms = 768, .dtype = DType::kF16}, DType::kF32, Way::kOwn, 40.0);
  check({.rows = 20, .columns = 1024, .terms = 1024}, DType::kF32, Way::kOwn, -12.0);
}

TEST(LinearNormCuda, SmallNormsWithoutBeta) {
  PLIMSOLL_NEEDS_HOPPER();
  check({.rows = 130, .columns = 512, .terms = 1024}, DType::kF32, Way::kOwn, 0.0, Beta::kNo);
  check({.rows = 37, .columns = 256, .terms = 768}, DType::kF32, Way::kAsPrepared, 0.0, Beta::kNo);
}

TEST(LinearNormCuda, FewRowsUseAProductAndANorm) {
  check({.rows = 37, .columns = 256, .terms = 768}, DType::kF32, Way::kAsPrepared);
  check({.rows = 37, .columns = 768, .terms = 768, .dtype = DType::kF16}, DType::kF16, Way::kAsPrepared);
  check({.rows = 37, .columns = 768, .terms = 3072, .workspace_bytes = 0}, DType::kF32, Way::kAsPrepared);
}

// Some rows contain infinities and NaN. The thread blocks must exchange the sums of such rows too, without waiting forever, and the other
// rows must not change.
TEST(LinearNormCuda, SmallRowsThatAreNotFinite) {
  PLIMSOLL_NEEDS_HOPPER();
  constexpr int64_t kRows = 130, kColumns = 1024, kWithNan = 5, kWithInfinity = 128;
  const LinearProblem problem{.rows = kRows, .columns = kColumns, .terms = 768, .sm = compute_capability()};
  LinearNormCase layer(problem, DType::kF32, "not finite");
  layer.fill(0.0);
  const GuardedBuffer finite = run(layer, Way::kOwn, Place::kApart);
  layer.residual.view().store(kWithNan * kColumns + 700, -std::numeric_limits<double>::quiet_NaN());
  layer.residual.view().store(kWithInfinity * kColumns + 3, std::numeric_limits<double>::infinity());
  const GuardedBuffer y = run(layer, Way::kOwn, Place::kApart);
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    const int64_t row = i / kColumns;
    if (row == kWithNan || row == kWithInfinity) {
      ASSERT_TRUE(std::isnan(y.load(i))) << i;
    } else {
      ASSERT_EQ(y.load(i), finite.load(i)) << i;
    }
  }
}

// A thread block writes one tile while it computes the next one. The number of rows is large enough that every block computes several
// tiles, so that errors in this overlap are found. The rows repeat, so the results of the first rows are the expected results of all.
void check_many_rows(int64_t columns, int64_t terms, DType dtype) {
  constexpr int64_t kDistinct = 64, kRows = 128 * 117 - 5;
  const LinearProblem problem{
      .rows = kRows, .columns = columns, .terms = terms, .dtype = dtype, .sm = compute_capability()};
  ASSERT_TRUE(linear_norm_takes_own_product(problem));
  LinearNormCase layer(problem, DType::kF32, "many");
  layer.fill(0.0);
  for (int64_t i = kDistinct * terms; i < layer.x.count(); ++i)
    layer.x.view().store(i, layer.x.load(i % (kDistinct * terms)));
  for (int64_t i = kDistinct * columns; i < layer.residual.count(); ++i)
    layer.residual.view().store(i, layer.residual.load(i % (kDistinct * columns)));
  const GuardedBuffer y = run(layer, Way::kAsPrepared, Place::kApart);
  EXPECT_TRUE(test::compare_bits(y, run(layer, Way::kAsPrepared, Place::kInPlace)).ok());
  int64_t wrong = 0;
  for (int64_t i = 0; i < y.count(); ++i) wrong += y.load(i) == y.load(i % (kDistinct * columns)) ? 0 : 1;
  EXPECT_EQ(wrong, 0);
  LinearProblem first = problem;
  first.rows = kDistinct;
  LinearNormCase few(first, DType::kF32, "many");
  const auto copy = [](GuardedBuffer& to, const GuardedBuffer& from) {
    for (int64_t i = 0; i < to.count(); ++i) to.view().store(i, from.load(i));
  };
  copy(few.x, layer.x);
  copy(few.w, layer.w);
  copy(few.bias, layer.bias);
  copy(few.residual, layer.residual);
  copy(few.gain, layer.gain);
  copy(few.beta, layer.beta);
  GuardedBuffer got("few/y", dtype, kDistinct * columns);
  copy(got, y);
  const auto result =
      test::compare(got, few.reference(), {.per_element = few.bounds(), .shape = {kDistinct, columns}});
  EXPECT_TRUE(result.ok()) << result;
}

TEST(LinearNormCuda, ManyRowsAndTheSameBitsTwice) {
  PLIMSOLL_NEEDS_HOPPER();
  check_many_rows(1024, 1024, DType::kBF16);
  check_many_rows(768, 768, DType::kF16);
  check_many_rows(768, 3072, DType::kBF16);
}

}  // namespace
}  // namespace plimsoll
