#include <cmath>

#include "base/check.h"
#include "base/dtype.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/pack_pairs.h"
#include "kernels/matmul/split_tf32.h"

namespace plimsoll {

void check_matmul_operand(ConstView view, DType dtype, const char* name) {
  PLIMSOLL_CHECK(static_cast<bool>(view), "operand {} of the matrix product is null", name);
  PLIMSOLL_CHECK(view.dtype == dtype,
                 "operand {} must have the type of the prepared matrix product, but is {} instead of {}",
                 name, dtype_name(view.dtype), dtype_name(dtype));
}

void check_matmul_args(const MatmulProblem& problem, const MatmulArgs& args, int64_t scratch_bytes) {
  check_matmul_operand(args.a, problem.a, "A");
  check_matmul_operand(args.b, problem.b_operand == MatmulOperand::kPacked ? problem.a : problem.b, "B");
  check_matmul_operand(args.c, problem.c, "C");
  if (problem.bias == MatmulBias::kRow) check_matmul_operand(args.bias, problem.bias_dtype, "bias");
  PLIMSOLL_CHECK(static_cast<bool>(args.bias) == (problem.bias == MatmulBias::kRow),
                 "a bias must be passed if and only if the matrix product was prepared for one");
  PLIMSOLL_CHECK(std::ssize(args.scratch) >= scratch_bytes,
                 "the matrix product needs {} bytes of scratch memory, but has {}", scratch_bytes,
                 args.scratch.size());
  PLIMSOLL_CHECK(args.accumulate == Accumulate::kOverwrite || problem.writes == MatmulWrites::kOverwriteOrAdd,
                 "the matrix product was not prepared to add to its output");
}

void matmul_ref(const MatmulProblem& problem, const MatmulArgs& args) {
  PLIMSOLL_CHECK(problem.b_operand == MatmulOperand::kPlain,
                 "the reference does not support operands that were packed in advance");
  PLIMSOLL_CHECK(static_cast<bool>(args.a) && static_cast<bool>(args.b) && static_cast<bool>(args.c),
                 "matmul_ref: an operand is null");
  PLIMSOLL_CHECK(static_cast<bool>(args.bias) == (problem.bias == MatmulBias::kRow),
                 "a bias must be passed if and only if the problem has one");
  PLIMSOLL_CHECK(static_cast<bool>(args.addend) == (problem.writes == MatmulWrites::kAddend),
                 "an addend must be passed if and only if the problem has one");
  PLIMSOLL_CHECK(is_fp8(problem.a) == static_cast<bool>(args.a_scale) &&
                     is_fp8(problem.b) == static_cast<bool>(args.b_scale),
                 "a scale must be passed for each fp8 operand and for no other");
  const bool rounds_b = problem.a == DType::kBF16 && problem.b == DType::kF32;
  const auto a_at = [&](int64_t i, int64_t l) {
    return args.a.load(problem.trans_a == Transpose::kYes ? l * problem.m + i : i * problem.k + l);
  };
  const auto b_at = [&](int64_t l, int64_t j) {
    const double value =
        args.b.load(problem.trans_b == Transpose::kYes ? j * problem.k + l : l * problem.n + j);
    return rounds_b ? static_cast<double>(bf16_to_f32(f32_to_bf16(static_cast<float>(value)))) : value;
  };
  for (int64_t i = 0; i < problem.m; ++i) {
    for (int64_t j = 0; j < problem.n; ++j) {
      double sum = 0.0;
      for (int64_t l = 0; l < problem.k; ++l) sum += a_at(i, l) * b_at(l, j);
      if (args.a_scale) sum *= args.a_scale.load(0) * args.b_scale.load(0);
      if (args.bias) sum += args.bias.load(j);
      const int64_t index = i * problem.n + j;
      if (args.accumulate == Accumulate::kAdd) sum += args.c.load(index);
      if (args.addend) sum += args.addend.load(index);
      args.c.store(index, sum);
    }
  }
}

double matmul_error_bound(const MatmulProblem& problem, double abs_sum, double want) {
  const double terms = static_cast<double>(problem.k) + 2.0;
  const double u = 0x1p-24;
  const double sum_error = terms * u / (1.0 - terms * u) * abs_sum + terms * 0x1p-126;
  // The rounding error of C is relative to the computed sum, which may be larger than the exact one.
  const double store =
      problem.c == DType::kBF16 ? 0x1p-8 * ((want < 0 ? -want : want) + sum_error) + 0x1p-126 : 0.0;
  return sum_error + store;
}

double scaled_matmul_error_bound(const MatmulProblem& problem, double abs_sum, double want) {
  const double additions =
      uses_fast_accumulation(problem) ? static_cast<double>(problem.k) / 32.0 + 1.0 : 4.0;
  const double sum_error =
      additions * 0x1p-13 * abs_sum +
      matmul_error_bound({.m = 1, .n = 1, .k = problem.k, .c = DType::kF32}, abs_sum, want);
  const double store = problem.c == DType::kBF16 ? 0x1p-8 : problem.c == DType::kF16 ? 0x1p-11 : 0.0;
  return sum_error + store * (std::fabs(want) + sum_error);
}

void pack_pairs_ref(const float* b, int64_t k, int64_t n, Transpose transpose, const PairTiles& tiles,
                    BF16* packed) {
  const int64_t terms = (k + kPairTileTerms - 1) / kPairTileTerms * kPairTileTerms;
  const int64_t columns = (n + tiles.columns - 1) / tiles.columns * tiles.columns;
  for (int64_t i = 0; i < terms; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const bool inside = i < k && j < n;
      const float value = !inside ? 0.0f : transpose == Transpose::kYes ? b[j * k + i] : b[i * n + j];
      const int64_t tile =
          j / tiles.columns * tiles.column_tile_stride + i / kPairTileTerms * tiles.term_tile_stride;
      const int64_t pair = i % kPairTileTerms / 2;
      packed[tile + (pair * tiles.columns + j % tiles.columns) * 2 + i % 2] = BF16{f32_to_bf16(value)};
    }
  }
}

void split_tf32_ref(const SplitTf32Args& args) {
  PLIMSOLL_CHECK(args.x.dtype == DType::kF32 && args.out.dtype == DType::kF32,
                 "split_tf32: the operand and its parts must be f32");
  const bool along_rows = args.place == Tf32PartPlace::kAlongRows;
  const int64_t terms = along_rows ? args.columns : args.rows;
  const bool low_first = args.order == Tf32PartOrder::kLowHighHigh;
  for (int64_t i = 0; i < args.rows; ++i) {
    for (int64_t j = 0; j < args.columns; ++j) {
      const Tf32Parts parts = split_tf32(args.x.as<float>()[i * args.columns + j]);
      float* out = args.out.as<float>() + (along_rows ? i * 3 * terms + j : j * 3 * terms + i);
      out[0] = low_first ? parts.low : parts.high;
      out[terms] = low_first ? parts.high : parts.low;
      out[2 * terms] = parts.high;
    }
  }
}

}  // namespace plimsoll
