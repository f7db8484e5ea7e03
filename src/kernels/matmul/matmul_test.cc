#include "kernels/matmul/matmul.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "device/cpu/cpu_features.h"
#include "device/cpu/parallel.h"
#include "kernels/matmul/testing/asked_case.h"
#include "kernels/matmul/testing/matmul_case.h"
#include "kernels/matmul/testing/matmul_rows.h"
#include "tests/support/compare.h"

namespace plimsoll {
namespace {

using test::check_matmul;
using test::describe_matmul;
using test::GuardedBuffer;
using test::linear_layer;
using test::LinearSizes;
using test::MatmulCase;
using test::MatmulInputs;

// Returns true if oneDNN computes bf16 products on this CPU, in hardware or, on CPUs with only AVX-512, by emulation. The program itself
// never uses the emulation (has_bf16_products()).
bool library_has_bf16() {
  return cpu_isa() >= CpuIsa::kAvx512;
}

constexpr LinearSizes kSizes[] = {{1, 1, 1},      {1, 2, 768},    {3, 17, 33},  {17, 3, 1},     {33, 33, 33},
                                  {8, 768, 768},  {63, 64, 64},   {64, 64, 64}, {100, 130, 70}, {257, 16, 48},
                                  {97, 24, 3072}, {98, 3072, 24}, {768, 40, 24}};

// Compares the matrix product with the reference for each CPU implementation in the kernel catalog that accepts it. Returns the names of
// these implementations.
std::set<std::string_view> check_rows(const MatmulProblem& problem, MatmulInputs inputs) {
  std::set<std::string_view> checked;
  for (const KernelRow* row : test::cpu_matmul_rows()) {
    if (!test::accepts(*row, problem, cpu_isa())) continue;
    SCOPED_TRACE(row->implementation);
    check_matmul(test::on_row(*row, problem), inputs);
    checked.insert(row->implementation);
  }
  return checked;
}

TEST(MatmulRows, AreExactOnSmallIntegers) {
  for (const auto& [T, N, K] : kSizes) {
    if (T * N * K > 5'000'000) continue;
    for (const MatmulProblem& problem : linear_layer(T, N, K))
      check_rows(problem, MatmulInputs::kSmallIntegers);
  }
}

// Each CPU implementation in the catalog must be tested by at least one of these products, unless this CPU lacks its instructions.
TEST(MatmulRows, AreWithinTheBoundAndAllReached) {
  std::set<std::string_view> checked;
  for (const auto& [T, N, K] : kSizes) {
    for (MatmulProblem problem : linear_layer(T, N, K)) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        if (dtype == DType::kBF16 && T * N * K > 1'000'000) continue;
        problem.a = problem.b = problem.c = dtype;
        checked.merge(check_rows(problem, MatmulInputs::kNormal));
      }
    }
  }
  for (const KernelRow* row : test::cpu_matmul_rows()) {
    if (checked.contains(row->implementation)) continue;
    const MatmulProblem large{.m = 256, .n = 256, .k = 256};
    EXPECT_TRUE(!test::accepts(*row, large, cpu_isa()) && test::accepts(*row, large, CpuIsa::kAmx))
        << "no product of this test reaches the row " << row->implementation;
  }
}

TEST(MatmulRows, TakeEveryCombinationOfTransposesBiasAndWrites) {
  int num_cases = 0;
  for (const Transpose trans_a : {Transpose::kNo, Transpose::kYes}) {
    for (const Transpose trans_b : {Transpose::kNo, Transpose::kYes}) {
      for (const MatmulBias bias : {MatmulBias::kNone, MatmulBias::kRow}) {
        for (const MatmulOperand b_operand : {MatmulOperand::kPlain, MatmulOperand::kPacked}) {
          for (const int64_t m : {5, 120, 770}) {
            check_rows({.m = m,
                        .n = 70,
                        .k = 66,
                        .trans_a = trans_a,
                        .trans_b = trans_b,
                        .bias = bias,
                        .writes = MatmulWrites::kOverwriteOrAdd,
                        .b_operand = b_operand},
                       MatmulInputs::kNormal);
            ++num_cases;
          }
        }
      }
    }
  }
  EXPECT_EQ(num_cases, 48);
}

// On CPUs without bf16 instructions, oneDNN emulates bf16 products slowly. The catalog declines them there, but they are tested here.
TEST(MatmulCpuOnednn, Bf16IsWithinItsBound) {
  if (!library_has_bf16()) GTEST_SKIP() << "oneDNN has no bf16 products below AVX-512";
  for (const auto& [T, N, K] : kSizes) {
    if (T * N * K > 1'000'000) continue;
    for (MatmulProblem problem : linear_layer(T, N, K)) {
      problem.a = problem.b = DType::kBF16;
      for (const DType c : {DType::kBF16, DType::kF32}) {
        problem.c = c;
        for (const MatmulOperand b_operand : {MatmulOperand::kPlain, MatmulOperand::kPacked}) {
          problem.b_operand = b_operand;
          for (const DType b : {DType::kBF16, DType::kF32}) {
            problem.b = b;
            check_matmul(problem, MatmulInputs::kNormal);
          }
        }
      }
    }
  }
}

TEST(MatmulCpuOnednn, ProductsWithDifferentRowsShareOnePackedOperand) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    if (dtype == DType::kBF16 && !library_has_bf16()) continue;
    MatmulProblem problem{.m = 1,
                          .n = 200,
                          .k = 130,
                          .trans_b = Transpose::kYes,
                          .a = dtype,
                          .b = DType::kF32,
                          .b_operand = MatmulOperand::kPacked,
                          .num_threads = num_threads(),
                          .isa = cpu_isa()};
    MatmulCase first(problem, MatmulInputs::kNormal);
    first.run(*prepare_matmul_cpu(problem), Accumulate::kOverwrite);
    for (const int64_t m : {7, 64, 300, 1500}) {
      problem.m = m;
      MatmulCase other(problem, MatmulInputs::kNormal);
      other.b.assign(first.b.to_doubles());
      MatmulArgs args = other.args(other.c.view(), Accumulate::kOverwrite);
      args.b = {first.packed.view().data, dtype};
      prepare_matmul_cpu(problem)->run(args);
      other.reference(Accumulate::kOverwrite);
      const auto limits = other.limits({});
      const auto result = test::compare(other.c, other.want, {.per_element = limits});
      EXPECT_TRUE(result.ok()) << result;
    }
  }
}

TEST(MatmulCpuOnednn, RunsTwiceToTheSameBitsWhateverTheMemoryHeld) {
  for (MatmulProblem problem : linear_layer(300, 200, 100)) {
    problem.num_threads = num_threads();
    problem.isa = cpu_isa();
    MatmulCase one(problem, MatmulInputs::kNormal), two(problem, MatmulInputs::kNormal);
    const auto matmul = prepare_matmul_cpu(problem);
    one.run(*matmul, Accumulate::kOverwrite);
    two.scratch.fill(0.0);
    two.c.fill(1.0);
    prepare_matmul_cpu(problem)->run(two.args(two.c.view(), Accumulate::kOverwrite));
    const auto result = test::compare_bits(one.c, two.c);
    EXPECT_TRUE(result.ok()) << result;
  }
}

TEST(MatmulCpuOnednn, ARowDependsOnItsOwnRowOnly) {
  // Rows 150 to 199 of A differ in the two products, like the rows after the last token of a batch, which may contain anything finite. The
  // other rows of C must have the same bits.
  MatmulProblem problem{
      .m = 200, .n = 96, .k = 64, .trans_b = Transpose::kYes, .num_threads = num_threads(), .isa = cpu_isa()};
  MatmulCase one(problem, MatmulInputs::kNormal), two(problem, MatmulInputs::kNormal);
  for (int64_t i = 150 * 64; i < 200 * 64; ++i) two.a.view().store(i, 1e30);
  const auto matmul = prepare_matmul_cpu(problem);
  one.run(*matmul, Accumulate::kOverwrite);
  two.run(*matmul, Accumulate::kOverwrite);
  const auto result = test::compare_bits(two.c.view(), one.c.view(), 150 * 96);
  EXPECT_TRUE(result.ok()) << result;
}

// Prepares, but does not run, the layers of MiniLM, BERT-base and BERT-large for many numbers of threads. The workspace that the plan
// grants must suffice.
TEST(MatmulCpuOnednn, KeepsWithinTheWorkspaceThatThePlanGrants) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "built without OpenMP, the library takes the threads that it finds, whatever the plan says";
#endif
  const int threads_before = num_threads();
  int num_reduced = 0, num_prepared = 0;
  for (const int threads : {1, 2, 4, 16, 64}) {
    set_num_threads(threads);
    for (const int64_t H : {384, 768, 1024}) {
      for (const LinearSizes& sizes :
           {LinearSizes{0, H, H}, LinearSizes{0, 4 * H, H}, LinearSizes{0, H, 4 * H}, LinearSizes{0, 2, H}}) {
        for (const int64_t T : {16, 256, 1000, 4096}) {
          for (MatmulProblem problem : linear_layer(T, sizes.N, sizes.K)) {
            problem.num_threads = threads;
            problem.isa = cpu_isa();
            const auto matmul = prepare_matmul_cpu(problem);
            ++num_prepared;
            if (matmul->description().find("threads") != std::string::npos) {
              ++num_reduced;
              // If up to four threads are planned, the workspace must be large enough for the product to use all of them. If more are
              // planned, the product may use fewer of them to stay within the workspace.
              EXPECT_GT(threads, 4) << describe_matmul(problem) << ": " << matmul->description();
            }
            EXPECT_EQ(matmul->description().find("ref"), std::string::npos) << matmul->description();
          }
        }
      }
    }
  }
  set_num_threads(threads_before);
  EXPECT_EQ(num_prepared, 5 * 3 * 4 * 4 * 3);
  RecordProperty("products_with_fewer_threads", num_reduced);
}

TEST(MatmulCpuOnednn, RefusesWhatItWasNotPreparedFor) {
  MatmulProblem problem{.m = 4, .n = 4, .k = 4, .num_threads = num_threads(), .isa = cpu_isa()};
  MatmulCase test(problem, MatmulInputs::kNormal);
  const auto matmul = prepare_matmul_cpu(problem);
  EXPECT_THROW(matmul->run(test.args(test.c.view(), Accumulate::kAdd)), Error);
  MatmulArgs args = test.args(test.c.view(), Accumulate::kOverwrite);
  args.scratch = args.scratch.first(args.scratch.size() - 1);
  EXPECT_THROW(matmul->run(args), Error);
  args = test.args(test.c.view(), Accumulate::kOverwrite);
  args.a = {args.a.data, DType::kBF16};
  EXPECT_THROW(matmul->run(args), Error);
  problem.a = DType::kF64;
  EXPECT_THROW(prepare_matmul_cpu(problem), Error);
}

// Products of up to kMatmulFewRows rows must be computed as dot products, whichever implementation the catalog selects, and products of
// more rows must not. Some sizes do not fill a vector, a tile of columns or a task.
TEST(MatmulFewRows, IsWithinItsBoundForEveryNumberOfRowsAndType) {
  int num_few = 0;
  for (const auto& [N, K] : {std::pair<int64_t, int64_t>{1, 1}, {3, 17}, {37, 64}, {130, 100}, {70, 771}}) {
    for (int64_t m = 1; m <= kMatmulFewRows + 1; ++m) {
      for (const auto& [a, b, c] : {std::tuple{DType::kF32, DType::kF32, DType::kF32},
                                    {DType::kBF16, DType::kBF16, DType::kBF16},
                                    {DType::kBF16, DType::kBF16, DType::kF32},
                                    {DType::kBF16, DType::kF32, DType::kBF16}}) {
        const MatmulProblem problem{.m = m,
                                    .n = N,
                                    .k = K,
                                    .trans_b = Transpose::kYes,
                                    .a = a,
                                    .b = b,
                                    .c = c,
                                    .bias = m % 2 == 0 ? MatmulBias::kRow : MatmulBias::kNone,
                                    .writes = MatmulWrites::kOverwriteOrAdd};
        if (m > kMatmulFewRows && a == DType::kBF16 && !library_has_bf16()) continue;
        check_matmul(problem, MatmulInputs::kNormal);
        check_matmul(problem, MatmulInputs::kSmallIntegers);
        const bool is_few = prepare_matmul_cpu(problem)->description() == "dot products of a few rows";
        EXPECT_EQ(is_few, m <= kMatmulFewRows) << m;
        num_few += is_few;
      }
    }
  }
  EXPECT_EQ(num_few, 5 * 8 * 4);
}

// The bits of a row must not depend on the number of rows, the number of threads, or the implementation that the catalog selects.
TEST(MatmulFewRows, BitsDependNeitherOnRowsNorOnThreads) {
  const int threads_before = num_threads();
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    MatmulProblem problem{.m = kMatmulFewRows,
                          .n = 203,
                          .k = 131,
                          .trans_b = Transpose::kYes,
                          .a = dtype,
                          .b = dtype,
                          .c = dtype,
                          .num_threads = 1,
                          .isa = cpu_isa()};
    set_num_threads(1);
    MatmulCase all(problem, MatmulInputs::kNormal);
    all.run(*prepare_matmul_cpu(problem), Accumulate::kOverwrite);
    for (const int threads : {1, 2, 3}) {
      for (const int64_t m : {1, 2, 3, 5, 7}) {
        set_num_threads(threads);
        problem.m = m;
        problem.num_threads = threads;
        problem.cpu_products = threads == 2 ? CpuProducts::kAmxParts : CpuProducts::kLibrary;
        MatmulCase some(problem, MatmulInputs::kNormal);
        some.b.assign(all.b.to_doubles());
        const std::vector<double> rows = all.a.to_doubles();
        some.a.assign({rows.begin(), rows.begin() + m * problem.k});
        some.run(*prepare_matmul_cpu(problem), Accumulate::kOverwrite);
        const auto result = test::compare_bits(some.c.view(), all.c.view(), m * problem.n);
        EXPECT_TRUE(result.ok()) << result << " with " << m << " rows on " << threads << " threads";
      }
    }
  }
  set_num_threads(threads_before);
}

TEST(MatmulRef, MatchesAProductWrittenByHand) {
  // The expected result is [1 2; 3 4] [5 6; 7 8] = [19 22; 43 50] plus the bias (1, -1).
  const auto filled = [](const char* name, std::vector<double> values) {
    GuardedBuffer buffer(name, DType::kF64, static_cast<int64_t>(values.size()));
    buffer.assign(values);
    return buffer;
  };
  const MatmulProblem problem{.m = 2,
                              .n = 2,
                              .k = 2,
                              .a = DType::kF64,
                              .b = DType::kF64,
                              .c = DType::kF64,
                              .bias_dtype = DType::kF64,
                              .bias = MatmulBias::kRow};
  auto a = filled("ref/a", {1, 2, 3, 4}), b = filled("ref/b", {5, 6, 7, 8}),
       bias = filled("ref/bias", {1, -1});
  GuardedBuffer c("ref/c", DType::kF64, 4);
  MatmulArgs args{.a = a.view(), .b = b.view(), .bias = bias.view(), .c = c.view()};
  matmul_ref(problem, args);
  EXPECT_TRUE(test::compare(c, std::vector<double>{20, 21, 44, 49}, {}).ok());
  args.accumulate = Accumulate::kAdd;
  matmul_ref(problem, args);
  EXPECT_TRUE(test::compare(c, std::vector<double>{40, 42, 88, 98}, {}).ok());
  MatmulProblem transposed = problem;
  transposed.trans_a = transposed.trans_b = Transpose::kYes;
  args.accumulate = Accumulate::kOverwrite;
  matmul_ref(transposed, args);
  // The expected result is [1 3; 2 4] [5 7; 6 8] = [23 31; 34 46] plus the bias (1, -1).
  EXPECT_TRUE(test::compare(c, std::vector<double>{24, 30, 35, 45}, {}).ok());
}

TEST(MatmulCatalog, AsksForTheSameScratchAsTheKernel) {
  for (MatmulProblem problem : linear_layer(512, 768, 3072)) {
    problem.num_threads = 3;
    problem.isa = CpuIsa::kAmx;
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      problem.a = problem.c = dtype;
      problem.cpu_products = CpuProducts::kLibrary;  // must have no effect on select_kernel()
      const Selection selection = select_kernel(asked_of(problem, {.num_threads = 3, .isa = CpuIsa::kAmx}));
      ASSERT_NE(selection.row, nullptr);
      problem.cpu_products = preferred_cpu_products(problem);
      EXPECT_EQ(selection.row->implementation, dtype == DType::kF32 ? "matmul_cpu_amx" : "matmul_cpu_onednn");
      EXPECT_EQ(selection.scratch_bytes, matmul_scratch_bytes(problem));
    }
  }
}

}  // namespace
}  // namespace plimsoll
