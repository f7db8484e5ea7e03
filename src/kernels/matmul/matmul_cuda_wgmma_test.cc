// Layers with a bias on compute capability 9.0, by the kernel of ours and as prepared.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/matmul/matmul_cuda.h"
#include "tests/support/device_buffer.h"

namespace plimsoll {
namespace {

using test::DeviceBuffer;
using test::GuardedBuffer;

constexpr int kSm = 90;

bool is_hopper() {
  int major = 0, minor = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0), cudaSuccess);
  return 10 * major + minor == kSm;
}

#define PLIMSOLL_NEEDS_HOPPER() \
  if (!is_hopper()) GTEST_SKIP() << "needs compute capability 9.0"

MatmulProblem layer(int64_t rows, int64_t columns, int64_t terms, DType dtype, DType bias_dtype) {
  return {.m = rows,
          .n = columns,
          .k = terms,
          .trans_b = Transpose::kYes,
          .a = dtype,
          .b = dtype,
          .c = dtype,
          .bias_dtype = bias_dtype,
          .bias = MatmulBias::kRow};
}

// A layer's operands on both sides.
struct Layer {
  explicit Layer(const MatmulProblem& p)
      : problem(p),
        name(fmt::format("matmul_wgmma/{}x{}x{} {} bias {}", p.m, p.n, p.k, dtype_name(p.a),
                         dtype_name(p.bias_dtype))),
        x(name + "/x", p.a, p.m * p.k),
        w(name + "/w", p.b, p.n * p.k),
        bias(name + "/bias", p.bias_dtype, p.n),
        y(name + "/y", p.c, p.m * p.n),
        scratch(name + "/scratch", DType::kU8, kCublasLtWorkspaceBytes) {}

  void fill_normal() {
    x.fill_normal();
    w.fill_normal(0.01, 1.0 / std::sqrt(static_cast<double>(problem.k)));
    bias.fill_uniform();
  }
  // Sums that fp32 holds in any order: -1, 0 and 1, and biases in 256ths.
  void fill_exact() {
    for (int64_t i = 0; i < x.count(); ++i) x.view().store(i, static_cast<double>(i * 7 % 11 % 3 - 1));
    for (int64_t i = 0; i < w.count(); ++i) w.view().store(i, static_cast<double>(i * 5 % 13 % 3 - 1));
    for (int64_t i = 0; i < bias.count(); ++i)
      bias.view().store(i, static_cast<double>(i % 255 - 127) / 256.0);
  }
  void run(CudaMatmul& matmul) {
    DeviceBuffer dx(x), dw(w), dbias(bias), dy(y), dscratch(scratch);
    matmul.run({.a = dx.view(),
                .b = dw.view(),
                .bias = dbias.view(),
                .c = dy.view(),
                .scratch = {static_cast<std::byte*>(dscratch.view().data),
                            static_cast<size_t>(kCublasLtWorkspaceBytes)}},
               nullptr, nullptr);
    dy.download();
  }
  void reference(GuardedBuffer& want) const {
    matmul_ref(problem, {.a = x.view(), .b = w.view(), .bias = bias.view(), .c = want.view()});
  }

  MatmulProblem problem;
  std::string name;
  GuardedBuffer x, w, bias, y, scratch;
};

// As matmul_cuda.h says, with one rounding at the store.
std::vector<double> bounds(const Layer& layer, const GuardedBuffer& want) {
  const MatmulProblem& p = layer.problem;
  const std::vector<double> xs = layer.x.to_doubles(), ws = layer.w.to_doubles();
  std::vector<double> limits;
  for (int64_t t = 0; t < p.m; ++t) {
    for (int64_t n = 0; n < p.n; ++n) {
      double sum = std::abs(layer.bias.load(n));
      for (int64_t k = 0; k < p.k; ++k)
        sum += std::abs(xs[static_cast<size_t>(t * p.k + k)] * ws[static_cast<size_t>(n * p.k + k)]);
      const double value = want.load(t * p.n + n);
      double limit = matmul_error_bound(p, sum, value) + 3.0 * static_cast<double>(p.k + 2) * 0x1p-24 * sum;
      if (p.c == DType::kF16) limit += 0x1.01p-11 * std::abs(value) + 0x1p-24;
      limits.push_back(limit);
    }
  }
  return limits;
}

void check_random(const MatmulProblem& problem) {
  Layer layer(problem);
  SCOPED_TRACE(layer.name);
  layer.fill_normal();
  GuardedBuffer want(layer.name + "/want", DType::kF64, problem.m * problem.n);
  layer.reference(want);
  layer.run(*prepare_own_matmul_cuda(problem, kSm));
  const auto result =
      test::compare(layer.y, want, {.per_element = bounds(layer, want), .shape = {problem.m, problem.n}});
  EXPECT_TRUE(result.ok()) << result;
}

void check_exact(const MatmulProblem& problem) {
  Layer layer(problem);
  SCOPED_TRACE(layer.name);
  layer.fill_exact();
  GuardedBuffer want(layer.name + "/want", problem.c, problem.m * problem.n);
  layer.reference(want);
  layer.run(*prepare_own_matmul_cuda(problem, kSm));
  EXPECT_TRUE(test::compare_bits(layer.y, want).ok());
}

TEST(MatmulWgmmaCuda, RowsThatFillNoTile) {
  PLIMSOLL_NEEDS_HOPPER();
  check_random(layer(1, 256, 768, DType::kBF16, DType::kF32));
  check_random(layer(130, 256, 1024, DType::kBF16, DType::kBF16));
  check_random(layer(127, 512, 768, DType::kF16, DType::kF16));
}

TEST(MatmulWgmmaCuda, TermsOfManyStages) {
  PLIMSOLL_NEEDS_HOPPER();
  check_random(layer(64, 256, 1280, DType::kBF16, DType::kF32));
  check_random(layer(64, 256, 2048, DType::kF16, DType::kF32));
}

TEST(MatmulWgmmaCuda, RoundsOnceBehindTheBias) {
  PLIMSOLL_NEEDS_HOPPER();
  for (const DType bias_dtype : {DType::kF32, DType::kBF16})
    check_exact(layer(130, 512, 1024, DType::kBF16, bias_dtype));
  for (const DType bias_dtype : {DType::kF32, DType::kF16})
    check_exact(layer(129, 256, 768, DType::kF16, bias_dtype));
}

// So many rows that a block takes several tiles, and each leaves while the next is multiplied; they repeat,
// so that the first ones' results say what all must be.
void check_many_rows(int64_t columns, int64_t terms, DType dtype) {
  constexpr int64_t kDistinct = 64, kRows = 128 * 64 - 5;
  const MatmulProblem problem = layer(kRows, columns, terms, dtype, DType::kF32);
  ASSERT_TRUE(matmul_takes_own_product(problem, kSm));
  Layer many(problem);
  SCOPED_TRACE(many.name);
  many.fill_normal();
  for (int64_t i = kDistinct * terms; i < many.x.count(); ++i)
    many.x.view().store(i, many.x.load(i % (kDistinct * terms)));
  const auto prepared = prepare_matmul_wgmma_cuda(problem, kSm);
  EXPECT_EQ(prepared->description(), "linear_bias_cuda_wgmma");
  many.run(*prepared);
  const std::vector<double> first_run = many.y.to_doubles();
  many.run(*prepared);
  EXPECT_EQ(many.y.to_doubles(), first_run);
  int64_t wrong = 0;
  for (int64_t i = 0; i < many.y.count(); ++i)
    wrong += many.y.load(i) == many.y.load(i % (kDistinct * columns)) ? 0 : 1;
  EXPECT_EQ(wrong, 0);
  MatmulProblem first = problem;
  first.m = kDistinct;
  Layer few(first);
  for (int64_t i = 0; i < few.x.count(); ++i) few.x.view().store(i, many.x.load(i));
  for (int64_t i = 0; i < few.w.count(); ++i) few.w.view().store(i, many.w.load(i));
  for (int64_t i = 0; i < few.bias.count(); ++i) few.bias.view().store(i, many.bias.load(i));
  for (int64_t i = 0; i < few.y.count(); ++i) few.y.view().store(i, many.y.load(i));
  GuardedBuffer want(few.name + "/want", DType::kF64, kDistinct * columns);
  few.reference(want);
  const auto result =
      test::compare(few.y, want, {.per_element = bounds(few, want), .shape = {kDistinct, columns}});
  EXPECT_TRUE(result.ok()) << result;
}

TEST(MatmulWgmmaCuda, ManyRowsAndTheSameBitsTwice) {
  PLIMSOLL_NEEDS_HOPPER();
  check_many_rows(1024, 768, DType::kBF16);
  check_many_rows(1024, 1024, DType::kF16);
}

// Whatever the card.
TEST(MatmulWgmmaCuda, FewRowsAreTheLibrarys) {
  const MatmulProblem problem = layer(37, 256, 768, DType::kF16, DType::kF16);
  Layer few(problem);
  few.fill_exact();
  GuardedBuffer want(few.name + "/want", DType::kF64, problem.m * problem.n);
  few.reference(want);
  const auto prepared = prepare_matmul_wgmma_cuda(problem, kSm);
  EXPECT_NE(prepared->description(), "linear_bias_cuda_wgmma");
  few.run(*prepared);
  std::vector<double> limits = bounds(few, want);
  // The library may round the product too.
  for (int64_t i = 0; i < want.count(); ++i) limits[static_cast<size_t>(i)] += 0x1.01p-11 * 768.0;
  EXPECT_TRUE(test::compare(few.y, want, {.per_element = limits, .shape = {problem.m, problem.n}}).ok());
}

}  // namespace
}  // namespace plimsoll
