// The operands, the reference result and the error limits of a matrix product. The tests of every CPU implementation use them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "device/cpu/cpu_features.h"
#include "device/cpu/parallel.h"
#include "kernels/matmul/matmul.h"
#include "tests/support/compare.h"

namespace plimsoll::test {

enum class MatmulInputs { kSmallIntegers, kNormal };

inline std::string describe_matmul(const MatmulProblem& p) {
  return fmt::format("{}x{}x{}{}{} {}*{}->{}{}{}{}", p.m, p.n, p.k, p.trans_a == Transpose::kYes ? " At" : "",
                     p.trans_b == Transpose::kYes ? " Bt" : "", dtype_name(p.a), dtype_name(p.b),
                     dtype_name(p.c), p.bias == MatmulBias::kRow ? " bias" : "",
                     p.writes == MatmulWrites::kOverwriteOrAdd ? " add" : "",
                     p.b_operand == MatmulOperand::kPacked ? " packed" : "");
}

// The operands of one matrix product, and the result that the reference computes from them. The error limits are computed from all of these.
struct MatmulCase {
  MatmulCase(const MatmulProblem& p, MatmulInputs inputs)
      : problem(p),
        name("matmul/" + describe_matmul(p)),
        a(name + "/a", p.a, p.m * p.k),
        b(name + "/b", p.b, p.k * p.n),
        bias(name + "/bias", p.bias_dtype, p.n),
        c(name + "/c", p.c, p.m * p.n),
        want(name + "/want", DType::kF64, p.m * p.n),
        scratch(name + "/scratch", DType::kU8, matmul_scratch_bytes(p)),
        packed(name + "/packed", DType::kU8,
               p.b_operand == MatmulOperand::kPacked ? matmul_packed_b_bytes(p) : 0) {
    if (inputs == MatmulInputs::kSmallIntegers) {
      a.fill_small_integers(3);
      b.fill_small_integers(3);
      bias.fill_small_integers(3);
    } else {
      a.fill_normal();
      b.fill_normal(0.01, 0.5);
      bias.fill_uniform();
    }
  }

  static std::span<std::byte> bytes_of(GuardedBuffer& buffer) {
    return {static_cast<std::byte*>(buffer.view().data), static_cast<size_t>(buffer.size_bytes())};
  }

  MatmulArgs args(View into, Accumulate accumulate) {
    MatmulArgs args{.a = a.view(),
                    .b = b.view(),
                    .bias = {},
                    .c = into,
                    .accumulate = accumulate,
                    .scratch = bytes_of(scratch)};
    if (problem.bias == MatmulBias::kRow) args.bias = bias.view();
    if (problem.b_operand == MatmulOperand::kPacked) args.b = {packed.view().data, problem.a};
    return args;
  }

  void run(PreparedMatmul& matmul, Accumulate accumulate) {
    scratch.poison();
    if (problem.b_operand == MatmulOperand::kPacked) {
      packed.poison();
      matmul.pack_b(b.view(), bytes_of(packed), bytes_of(scratch));
      scratch.poison();
    }
    matmul.run(args(c.view(), accumulate));
    EXPECT_EQ(scratch.broken_guard(), GuardedBuffer::kIntact) << name;
    EXPECT_EQ(packed.broken_guard(), GuardedBuffer::kIntact) << name;
  }

  void reference(Accumulate accumulate) {
    MatmulProblem plain = problem;
    plain.b_operand = MatmulOperand::kPlain;
    MatmulArgs reference_args = args(want.view(), accumulate);
    reference_args.b = b.view();
    matmul_ref(plain, reference_args);
  }

  // Returns the error limit of every element of C. `old` are the values of C before the product was added to it; it is empty if C was
  // overwritten.
  std::vector<double> limits(const std::vector<double>& old) const {
    std::vector<double> limits(static_cast<size_t>(problem.m * problem.n));
    for (int64_t i = 0; i < problem.m; ++i) {
      for (int64_t j = 0; j < problem.n; ++j) {
        double sum = problem.bias == MatmulBias::kRow ? std::abs(bias.load(j)) : 0.0;
        for (int64_t l = 0; l < problem.k; ++l) {
          sum += std::abs(a.load(problem.trans_a == Transpose::kYes ? l * problem.m + i : i * problem.k + l) *
                          b.load(problem.trans_b == Transpose::kYes ? j * problem.k + l : l * problem.n + j));
        }
        const auto index = static_cast<size_t>(i * problem.n + j);
        if (!old.empty()) sum += std::abs(old[index]);
        // The sum is increased by 1 % because rounding B to bf16 may increase its magnitude.
        limits[index] = matmul_error_bound(problem, sum * 1.01, want.load(static_cast<int64_t>(index)));
      }
    }
    return limits;
  }

  MatmulProblem problem;
  std::string name;
  GuardedBuffer a, b, bias, c, want, scratch, packed;
};

// Prepares the product and runs it, overwriting C and, if the problem allows it, adding to C. Compares each result with the reference.
inline void check_matmul(MatmulProblem problem, MatmulInputs inputs) {
  problem.num_threads = num_threads();
  problem.isa = cpu_isa();
  MatmulCase test(problem, inputs);
  SCOPED_TRACE(test.name);
  const std::unique_ptr<PreparedMatmul> matmul = prepare_matmul_cpu(problem);
  const auto compare_with_limits = [&](const std::vector<double>& old) {
    const std::vector<double> limits = test.limits(old);
    Limit limit{.shape = {problem.m, problem.n}};
    // Sums of small integers are exact, and many of them may be zero. By default, the comparison fails if more than half of the elements
    // are zero.
    if (inputs == MatmulInputs::kSmallIntegers) limit.zeros = Zeros::kExpected;
    if (inputs == MatmulInputs::kNormal || problem.c == DType::kBF16) limit.per_element = limits;
    const auto result = compare(test.c, test.want, limit);
    EXPECT_TRUE(result.ok()) << result << " [" << matmul->description() << "]";
  };
  test.run(*matmul, Accumulate::kOverwrite);
  test.reference(Accumulate::kOverwrite);
  compare_with_limits({});
  if (problem.writes != MatmulWrites::kOverwriteOrAdd) return;
  const std::vector<double> old = test.c.to_doubles();
  test.want.assign(old);
  test.run(*matmul, Accumulate::kAdd);
  test.reference(Accumulate::kAdd);
  compare_with_limits(old);
}

// Returns the three matrix products of the training of a linear layer y[T, N] = x[T, K] W[N, K]^T + bias.
inline std::vector<MatmulProblem> linear_layer(int64_t T, int64_t N, int64_t K) {
  return {{.m = T, .n = N, .k = K, .trans_b = Transpose::kYes, .bias = MatmulBias::kRow},
          {.m = T, .n = K, .k = N},
          {.m = N, .n = K, .k = T, .trans_a = Transpose::kYes, .writes = MatmulWrites::kOverwriteOrAdd}};
}

struct LinearSizes {
  int64_t T, N, K;
};

}  // namespace plimsoll::test
