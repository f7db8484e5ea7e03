// Tests linear layers on compute capability 9.0: Plimsoll's own kernel, and the implementation that prepare_matmul_wgmma_cuda() chooses.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/matmul/matmul_cuda.h"
#include "kernels/matmul/testing/compute_capability.h"
#include "tests/support/device_buffer.h"

namespace plimsoll {
namespace {

using test::compute_capability;
using test::DeviceBuffer;
using test::GuardedBuffer;

constexpr int kSm = 90;

#define PLIMSOLL_NEEDS_HOPPER() \
  if (compute_capability() != kSm) GTEST_SKIP() << "needs compute capability 9.0"
// The kernel for few rows is compiled for compute capability 8.0 and later, although plans use it only on 9.0.
#define PLIMSOLL_NEEDS_AMPERE() \
  if (compute_capability() < 80) GTEST_SKIP() << "needs compute capability 8.0"

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

MatmulProblem plain_layer(int64_t rows, int64_t columns, int64_t terms, DType dtype) {
  MatmulProblem problem = layer(rows, columns, terms, dtype, DType::kF32);
  problem.bias = MatmulBias::kNone;
  return problem;
}
MatmulProblem layer_with_addend(int64_t rows, int64_t columns, int64_t terms, DType dtype) {
  MatmulProblem problem = plain_layer(rows, columns, terms, dtype);
  problem.writes = MatmulWrites::kAddend;
  return problem;
}

// States the tensor in which y is stored: a tensor of its own, or that of the addend.
enum class Place : uint8_t { kApart, kInPlace };

// The operands of a layer on the host and on the device.
struct Layer {
  explicit Layer(const MatmulProblem& p)
      : problem(p),
        has_bias(p.bias == MatmulBias::kRow),
        adds(p.writes == MatmulWrites::kAddend),
        name(fmt::format("matmul_wgmma/{}x{}x{} {}{}{}", p.m, p.n, p.k, dtype_name(p.a),
                         has_bias ? fmt::format(" bias {}", dtype_name(p.bias_dtype)) : "",
                         adds ? " addend" : "")),
        x(name + "/x", p.a, p.m * p.k),
        w(name + "/w", p.b, p.n * p.k),
        bias(name + "/bias", p.bias_dtype, p.n),
        addend(name + "/addend", p.c, adds ? p.m * p.n : 1),
        y(name + "/y", p.c, p.m * p.n),
        scratch(name + "/scratch", DType::kU8, kCublasLtWorkspaceBytes) {}

  void fill_normal() {
    x.fill_normal();
    w.fill_normal(0.01, 1.0 / std::sqrt(static_cast<double>(problem.k)));
    bias.fill_uniform();
    addend.fill_normal(0.0, 2.0);
  }
  // Fills the operands with numbers whose sums fp32 represents exactly in any order: x and w with -1, 0 and 1, bias and addend with
  // multiples of 1 / 256.
  void fill_exact() {
    for (int64_t i = 0; i < x.count(); ++i) x.view().store(i, static_cast<double>(i * 7 % 11 % 3 - 1));
    for (int64_t i = 0; i < w.count(); ++i) w.view().store(i, static_cast<double>(i * 5 % 13 % 3 - 1));
    for (int64_t i = 0; i < bias.count(); ++i)
      bias.view().store(i, static_cast<double>(i % 255 - 127) / 256.0);
    for (int64_t i = 0; i < addend.count(); ++i)
      addend.view().store(i, static_cast<double>(i * 3 % 253 - 126) / 256.0);
  }
  void run(CudaMatmul& matmul, Place place = Place::kApart) {
    DeviceBuffer dx(x), dw(w), dbias(bias), daddend(addend), dy(y), dscratch(scratch);
    if (place == Place::kInPlace) {
      ASSERT_EQ(cudaMemcpy(dy.view().data, daddend.view().data,
                           static_cast<size_t>(y.count() * dtype_bytes(problem.c)), cudaMemcpyDeviceToDevice),
                cudaSuccess);
    }
    matmul.run({.a = dx.view(),
                .b = dw.view(),
                .bias = has_bias ? dbias.view() : View{},
                .c = dy.view(),
                .addend = !adds                      ? View{}
                          : place == Place::kInPlace ? dy.view()
                                                     : daddend.view(),
                .scratch = {static_cast<std::byte*>(dscratch.view().data),
                            static_cast<size_t>(kCublasLtWorkspaceBytes)}},
               nullptr, nullptr);
    dy.download();
  }
  void reference(GuardedBuffer& want) const {
    MatmulArgs args{.a = x.view(), .b = w.view(), .bias = {}, .c = want.view()};
    if (has_bias) args.bias = bias.view();
    if (adds) args.addend = addend.view();
    matmul_ref(problem, args);
  }

  MatmulProblem problem;
  bool has_bias, adds;
  std::string name;
  GuardedBuffer x, w, bias, addend, y, scratch;
};

// Returns the error bounds of matmul_cuda.h for each element of y: the result is rounded when it is stored and, with an addend, the product
// is also rounded before the addition.
std::vector<double> bounds(const Layer& layer, const GuardedBuffer& want) {
  const MatmulProblem& p = layer.problem;
  const std::vector<double> xs = layer.x.to_doubles(), ws = layer.w.to_doubles();
  std::vector<double> limits;
  for (int64_t t = 0; t < p.m; ++t) {
    for (int64_t n = 0; n < p.n; ++n) {
      const double addend = layer.adds ? layer.addend.load(t * p.n + n) : 0.0;
      double sum = (layer.has_bias ? std::abs(layer.bias.load(n)) : 0.0) + std::abs(addend);
      for (int64_t k = 0; k < p.k; ++k)
        sum += std::abs(xs[static_cast<size_t>(t * p.k + k)] * ws[static_cast<size_t>(n * p.k + k)]);
      const double value = want.load(t * p.n + n);
      double limit = matmul_error_bound(p, sum, value) + 3.0 * static_cast<double>(p.k + 2) * 0x1p-24 * sum;
      if (p.c == DType::kF16) limit += 0x1.01p-11 * std::abs(value) + 0x1p-24;
      if (layer.adds)
        limit += (p.c == DType::kF16 ? 0x1.01p-11 : 0x1.01p-8) * std::abs(value - addend) + 0x1p-24;
      limits.push_back(limit);
    }
  }
  return limits;
}

void check_random(const MatmulProblem& problem, CudaMatmul& matmul) {
  Layer layer(problem);
  SCOPED_TRACE(layer.name);
  layer.fill_normal();
  GuardedBuffer want(layer.name + "/want", DType::kF64, problem.m * problem.n);
  layer.reference(want);
  const std::vector<double> limits = bounds(layer, want);
  for (const Place place : {Place::kApart, Place::kInPlace}) {
    if (place == Place::kInPlace && !layer.adds) break;
    layer.run(matmul, place);
    const auto result =
        test::compare(layer.y, want, {.per_element = limits, .shape = {problem.m, problem.n}});
    EXPECT_TRUE(result.ok()) << result;
  }
}
void check_random(const MatmulProblem& problem) {
  check_random(problem, *prepare_own_matmul_cuda(problem, kSm));
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

// Checks that the product is rounded before the addend is added, whether y is the addend or not.
void check_exact_addend(int64_t rows, int64_t columns, int64_t terms, DType dtype) {
  Layer layer(layer_with_addend(rows, columns, terms, dtype));
  SCOPED_TRACE(layer.name);
  layer.fill_exact();
  GuardedBuffer want(layer.name + "/want", dtype, rows * columns);
  matmul_ref(plain_layer(rows, columns, terms, dtype),
             {.a = layer.x.view(), .b = layer.w.view(), .bias = {}, .c = want.view()});
  for (int64_t i = 0; i < want.count(); ++i) want.view().store(i, want.load(i) + layer.addend.load(i));
  for (const Place place : {Place::kApart, Place::kInPlace}) {
    layer.run(*prepare_own_matmul_cuda(layer.problem, kSm), place);
    EXPECT_TRUE(test::compare_bits(layer.y, want).ok());
  }
}

// Runs a layer of many rows twice, with an addend the second time in place, and expects the same bits. The rows repeat, so the results of
// the first rows are the expected results of all.
void check_tiles(const MatmulProblem& problem) {
  constexpr int64_t kDistinct = 64;
  const int64_t columns = problem.n, terms = problem.k;
  Layer many(problem);
  SCOPED_TRACE(many.name);
  many.fill_normal();
  const auto repeat = [](GuardedBuffer& buffer, int64_t distinct) {
    for (int64_t i = distinct; i < buffer.count(); ++i) buffer.view().store(i, buffer.load(i % distinct));
  };
  repeat(many.x, kDistinct * terms);
  if (many.adds) repeat(many.addend, kDistinct * columns);
  const auto prepared = prepare_own_matmul_cuda(problem, kSm);
  many.run(*prepared);
  const std::vector<double> first_run = many.y.to_doubles();
  many.run(*prepared, many.adds ? Place::kInPlace : Place::kApart);
  EXPECT_EQ(many.y.to_doubles(), first_run);
  int64_t wrong = 0;
  for (int64_t i = 0; i < many.y.count(); ++i)
    wrong += many.y.load(i) == many.y.load(i % (kDistinct * columns)) ? 0 : 1;
  EXPECT_EQ(wrong, 0);
  MatmulProblem first = problem;
  first.m = kDistinct;
  Layer few(first);
  const auto copy = [](const GuardedBuffer& from, GuardedBuffer& to) {
    for (int64_t i = 0; i < to.count(); ++i) to.view().store(i, from.load(i));
  };
  copy(many.x, few.x);
  copy(many.w, few.w);
  copy(many.bias, few.bias);
  copy(many.addend, few.addend);
  copy(many.y, few.y);
  GuardedBuffer want(few.name + "/want", DType::kF64, kDistinct * columns);
  few.reference(want);
  const auto result =
      test::compare(few.y, want, {.per_element = bounds(few, want), .shape = {kDistinct, columns}});
  EXPECT_TRUE(result.ok()) << result;
}

// Tests numbers of rows that fill the eight rows of an instruction and that do not, numbers of columns that do not fill a tile, and numbers
// of terms for which some warps have no group of terms, one group or several. Runs on any GPU with the instructions.
TEST(LinearFewRowsCuda, AgreesWithTheReference) {
  PLIMSOLL_NEEDS_AMPERE();
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const int64_t rows : {1, 2, 7, 8, 9, 16, 17, 31, 32}) {
      for (const int64_t columns : {1, 16, 81, 257}) {
        for (const int64_t terms : {32, 256, 768, 2080}) {
          for (const MatmulProblem& problem :
               {plain_layer(rows, columns, terms, dtype), layer(rows, columns, terms, dtype, DType::kF32),
                layer(rows, columns, terms, dtype, dtype), layer_with_addend(rows, columns, terms, dtype)}) {
            ASSERT_TRUE(linear_few_rows_fit(problem));
            for (const SecondOperand w : {SecondOperand::kVariable, SecondOperand::kConstant})
              check_random(problem, *prepare_few_rows_matmul_cuda(problem, w));
          }
        }
      }
    }
  }
}

// Tests layers with more tiles than thread blocks, whose last tile is full or not, so that each block computes several tiles.
TEST(LinearFewRowsCuda, BlocksComputeSeveralTiles) {
  PLIMSOLL_NEEDS_AMPERE();
  for (const int64_t rows : {1, 12, 32}) {
    for (const int64_t columns : {9600, 13001}) {
      for (const int64_t terms : {64, 1056}) {
        const MatmulProblem problem = layer(rows, columns, terms, DType::kBF16, DType::kF32);
        check_random(problem, *prepare_few_rows_matmul_cuda(problem, SecondOperand::kConstant));
      }
    }
  }
}

// Tests layers with so many columns that each warp computes whole tiles, on GPUs of at most 132 multiprocessors.
TEST(LinearFewRowsCuda, WarpsComputeWholeTiles) {
  PLIMSOLL_NEEDS_AMPERE();
  for (const int64_t rows : {1, 12, 32}) {
    for (const int64_t terms : {32, 544}) {
      const MatmulProblem problem = layer(rows, 33001, terms, DType::kBF16, DType::kF32);
      check_random(problem, *prepare_few_rows_matmul_cuda(problem, SecondOperand::kConstant));
    }
  }
}

// The bits of a row must be the same in every run and must not depend on the number of rows, except that a layer that clusters compute may
// give other bits for up to eight rows than for more. Warps compute whole tiles of the layer with 33001 columns, clusters compute the layer
// with 2080 terms on compute capability 9.0, and in the other two layers the warps of a block divide the terms of a tile.
TEST(LinearFewRowsCuda, ARowDependsOnItselfOnly) {
  PLIMSOLL_NEEDS_AMPERE();
  for (const auto& [columns, terms] :
       {std::pair<int64_t, int64_t>{130, 1056}, {33001, 96}, {4000, 256}, {130, 2080}}) {
    Layer all(layer(32, columns, terms, DType::kBF16, DType::kF32));
    all.fill_normal();
    all.run(*prepare_few_rows_matmul_cuda(all.problem, SecondOperand::kVariable));
    for (const int64_t rows : {1, 8, 13, 20}) {
      if (rows <= 8 && terms == 2080) continue;
      Layer few(layer(rows, columns, terms, DType::kBF16, DType::kF32));
      for (auto [from, to] : {std::pair{&all.x, &few.x}, {&all.w, &few.w}, {&all.bias, &few.bias}}) {
        for (int64_t i = 0; i < to->count(); ++i) to->view().store(i, from->load(i));
      }
      few.run(*prepare_few_rows_matmul_cuda(few.problem, SecondOperand::kConstant));
      for (int64_t i = 0; i < few.y.count(); ++i)
        ASSERT_EQ(few.y.load(i), all.y.load(i)) << columns << " " << rows << " " << i;
    }
  }
}

TEST(MatmulWgmmaCuda, RowsThatDoNotFillATile) {
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

TEST(MatmulWgmmaCuda, RoundsOnceAfterTheBias) {
  PLIMSOLL_NEEDS_HOPPER();
  for (const DType bias_dtype : {DType::kF32, DType::kBF16})
    check_exact(layer(130, 512, 1024, DType::kBF16, bias_dtype));
  for (const DType bias_dtype : {DType::kF32, DType::kF16})
    check_exact(layer(129, 256, 768, DType::kF16, bias_dtype));
}

TEST(MatmulWgmmaCuda, WithoutABias) {
  PLIMSOLL_NEEDS_HOPPER();
  check_exact(plain_layer(130, 512, 1024, DType::kBF16));
  check_exact(plain_layer(129, 256, 768, DType::kF16));
}

TEST(MatmulWgmmaCuda, AddsAnotherMatrix) {
  PLIMSOLL_NEEDS_HOPPER();
  check_random(layer_with_addend(1, 256, 768, DType::kBF16));
  check_random(layer_with_addend(130, 256, 1024, DType::kBF16));
  check_random(layer_with_addend(127, 512, 768, DType::kF16));
  check_random(layer_with_addend(64, 256, 2048, DType::kF16));
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    check_exact_addend(130, 512, 1024, dtype);
    check_exact_addend(257, 256, 768, dtype);
    check_exact_addend(65, 256, 1280, dtype);
  }
}

// Tests more tiles than multiprocessors with the smallest number of terms. The test is small enough to run under the racecheck tool of
// compute-sanitizer.
TEST(MatmulWgmmaCuda, SmallButSeveralTilesPerBlock) {
  PLIMSOLL_NEEDS_HOPPER();
  for (const int64_t terms : {768, 1024}) {
    check_tiles(layer(128 * 140 - 3, 256, terms, DType::kBF16, DType::kBF16));
    check_tiles(layer_with_addend(128 * 140 - 3, 256, terms, DType::kBF16));
  }
}

// A thread block writes one tile while it computes the next one. The number of rows is large enough that every block computes several
// tiles, so that errors in this overlap are found. Two runs must give the same bits.
TEST(MatmulWgmmaCuda, ManyRowsAndTheSameBitsTwice) {
  PLIMSOLL_NEEDS_HOPPER();
  constexpr int64_t kRows = 128 * 64 - 5;
  for (const MatmulProblem& problem :
       {layer(kRows, 1024, 768, DType::kBF16, DType::kF32),
        layer(kRows, 1024, 1024, DType::kF16, DType::kF32), layer_with_addend(kRows, 1024, 768, DType::kF16),
        layer_with_addend(kRows, 1024, 1024, DType::kBF16),
        layer_with_addend(kRows, 1024, 1536, DType::kBF16), plain_layer(kRows, 1024, 1024, DType::kBF16)}) {
    ASSERT_TRUE(matmul_takes_own_product(problem, kSm));
    EXPECT_EQ(prepare_matmul_wgmma_cuda(problem, kSm)->description(), "linear_cuda_wgmma");
    check_tiles(problem);
  }
}

// Tests that a product of few rows is computed by cuBLASLt. The test therefore runs on any GPU.
TEST(MatmulWgmmaCuda, FewRowsUseTheLibrary) {
  const MatmulProblem problem = layer(37, 256, 768, DType::kF16, DType::kF16);
  Layer few(problem);
  few.fill_exact();
  GuardedBuffer want(few.name + "/want", DType::kF64, problem.m * problem.n);
  few.reference(want);
  const auto prepared = prepare_matmul_wgmma_cuda(problem, kSm);
  EXPECT_NE(prepared->description(), "linear_cuda_wgmma");
  few.run(*prepared);
  std::vector<double> limits = bounds(few, want);
  // The limits are increased by the rounding of the product, because cuBLASLt may round it before it adds the bias.
  for (int64_t i = 0; i < want.count(); ++i) limits[static_cast<size_t>(i)] += 0x1.01p-11 * 768.0;
  EXPECT_TRUE(test::compare(few.y, want, {.per_element = limits, .shape = {problem.m, problem.n}}).ok());
}

}  // namespace
}  // namespace plimsoll
