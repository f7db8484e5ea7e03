#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "base/dtype.h"
#include "device/cpu/cpu_features.h"
#include "device/cpu/parallel.h"
#include "kernels/matmul/bf16_parts_amx.h"
#include "kernels/matmul/testing/matmul_case.h"

namespace plimsoll {
namespace {

using test::check_matmul;
using test::GuardedBuffer;
using test::linear_layer;
using test::LinearSizes;
using test::MatmulCase;
using test::MatmulInputs;

enum class TermsOf { kRows, kColumns };

// Returns the three bf16 parts, converted to fp32, of the element of a split block in row (or column) `at` with term number `term`.
std::array<float, kParts> parts_at(const std::byte* steps, TermsOf of, int64_t at, int64_t term) {
  const int64_t pair = term % 16, half = term % kPartsStepTerms / 16;
  const int64_t row = of == TermsOf::kRows ? at % 16 : pair;
  const int64_t word = of == TermsOf::kRows ? pair : at % 16;
  std::array<float, kParts> parts;
  for (int64_t part = 0; part < kParts; ++part) {
    const int64_t tile = term / kPartsStepTerms * 2 * kParts + part * 2 + at / 16;
    uint16_t bits = 0;
    std::memcpy(&bits, steps + tile * 1024 + row * 64 + word * 4 + half * 2, sizeof(bits));
    parts[static_cast<size_t>(part)] = bf16_to_f32(bits);
  }
  return parts;
}

// Splits a block and checks that the three parts of each number add up to it exactly, and that elements outside the matrix are zero.
void check_parts(TermsOf of, TermLayout term_layout, int64_t count, int64_t terms) {
  SCOPED_TRACE(fmt::format("{} of {} terms", count, terms));
  const bool apart = term_layout == TermLayout::kStrided;
  GuardedBuffer numbers("parts/numbers", DType::kF32, count * terms);
  GuardedBuffer steps("parts/steps", DType::kU8, parts_steps(terms) * kPartsStepBytes);
  numbers.fill_normal();
  const float* from = numbers.view().as<float>();
  auto* to = static_cast<std::byte*>(steps.view().data);
  const PartsSource source{.from = from,
                           .stride = apart ? count : terms,
                           .term_layout = term_layout,
                           .count = count,
                           .terms = terms};
  of == TermsOf::kRows ? split_rows_amx(source, to) : split_columns_amx(source, to);
  EXPECT_EQ(steps.broken_guard(), GuardedBuffer::kIntact);
  for (int64_t at = 0; at < kPartsBlock; ++at) {
    for (int64_t term = 0; term < parts_steps(terms) * kPartsStepTerms; ++term) {
      const bool inside = at < count && term < terms;
      const float want = inside ? from[apart ? term * count + at : at * terms + term] : 0.0f;
      const auto [first, second, third] = parts_at(to, of, at, term);
      ASSERT_EQ(first + (second + third), want) << at << ", term " << term;
      ASSERT_LE(std::abs(second), 0x1p-8f * std::abs(want));
      ASSERT_LE(std::abs(third), 0x1p-17f * std::abs(want));
    }
  }
}

TEST(Bf16Parts, AddUpToTheNumber) {
  if (cpu_isa() < CpuIsa::kAvx512Bf16) GTEST_SKIP() << "this CPU has no AVX512_BF16";
  for (const TermsOf of : {TermsOf::kRows, TermsOf::kColumns}) {
    for (const TermLayout term_layout : {TermLayout::kAdjacent, TermLayout::kStrided}) {
      for (const int64_t count : {1, 15, 16, 17, 32}) {
        for (const int64_t terms : {1, 16, 17, 32, 33, 100}) check_parts(of, term_layout, count, terms);
      }
    }
  }
}

// Matrix products on AMX tiles must keep the error bound of fp32 products. The sizes include matrices whose last block is incomplete in
// every dimension.
constexpr LinearSizes kTileSizes[] = {{1, 1, 1},      {3, 17, 33},   {33, 33, 33},   {64, 64, 64},
                                      {100, 130, 70}, {257, 16, 48}, {97, 24, 3072}, {150, 800, 40}};

MatmulProblem on_tiles(MatmulProblem problem) {
  problem.cpu_products = CpuProducts::kAmxParts;
  return problem;
}

TEST(MatmulCpuAmx, IsExactOnSmallIntegersAndWithinTheBoundOfFp32) {
  if (!may_use_amx_tiles()) GTEST_SKIP() << "this CPU has no AMX tiles, or the system grants none";
  for (const auto& [T, N, K] : kTileSizes) {
    for (const MatmulProblem& problem : linear_layer(T, N, K)) {
      check_matmul(on_tiles(problem), MatmulInputs::kSmallIntegers);
      // Products of fewer than 32 terms are not compared: their error may exceed the bound of fp32 products, as bf16_parts_amx.h states.
      if (problem.k >= 32) check_matmul(on_tiles(problem), MatmulInputs::kNormal);
    }
  }
}

TEST(MatmulCpuAmx, TakesEveryCombinationOfTransposesBiasAndWrites) {
  if (!may_use_amx_tiles()) GTEST_SKIP() << "this CPU has no AMX tiles, or the system grants none";
  for (const Transpose trans_a : {Transpose::kNo, Transpose::kYes}) {
    for (const Transpose trans_b : {Transpose::kNo, Transpose::kYes}) {
      for (const MatmulBias bias : {MatmulBias::kNone, MatmulBias::kRow}) {
        check_matmul(on_tiles({.m = 150,
                               .n = 70,
                               .k = 50,
                               .trans_a = trans_a,
                               .trans_b = trans_b,
                               .bias = bias,
                               .writes = MatmulWrites::kOverwriteOrAdd}),
                     MatmulInputs::kNormal);
      }
    }
  }
}

// The bits must be the same for any number of threads. The matrices are large enough to be computed in several blocks of columns and terms.
TEST(MatmulCpuAmx, TheNumberOfThreadsDoesNotChangeABit) {
  if (!may_use_amx_tiles()) GTEST_SKIP() << "this CPU has no AMX tiles, or the system grants none";
  const int threads_before = num_threads();
  for (MatmulProblem problem : linear_layer(300, 900, 1600)) {
    problem = on_tiles(problem);
    problem.isa = cpu_isa();
    problem.num_threads = threads_before;
    MatmulCase one(problem, MatmulInputs::kNormal);
    one.run(*prepare_matmul_cpu(problem), Accumulate::kOverwrite);
    set_num_threads(1);
    problem.num_threads = 1;
    MatmulCase two(problem, MatmulInputs::kNormal);
    two.run(*prepare_matmul_cpu(problem), Accumulate::kOverwrite);
    set_num_threads(threads_before);
    const auto result = test::compare_bits(one.c, two.c);
    EXPECT_TRUE(result.ok()) << result;
  }
}

}  // namespace
}  // namespace plimsoll
