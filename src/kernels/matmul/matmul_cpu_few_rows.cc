// Matrix products of a few rows with a transposed B on the CPU, as in a decoding step: C[m, n] = A[m, k] B[n, k]^T with m <= kFewRows.
// Reading B takes most of their time, so B is read once, in the order of memory, and never converted to another layout.
#include <algorithm>

#include "base/check.h"
#include "device/cpu/parallel.h"
#include "device/cpu/simd_targets.h"
#include "kernels/element_wise/operands.h"
#include "kernels/matmul/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul/matmul_cpu_few_rows.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/element_wise/simd/vectors-inl.h"

#ifndef PLIMSOLL_MATMUL_FEW_ROWS_TYPES_
#define PLIMSOLL_MATMUL_FEW_ROWS_TYPES_
namespace plimsoll {
namespace {

// The number of rows of B per task. 32 rows of 768 numbers are 96 KiB, enough for the hardware to recognize the sequence of addresses and
// to prefetch it.
constexpr int64_t kTaskColumns = 32;

// A task computes rows first .. end - 1 of B, which are columns of C.
struct FewRowsTask {
  const MatmulProblem& problem;
  const MatmulArgs& args;
  int64_t first, end;
};

}  // namespace
}  // namespace plimsoll
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace {

// The number of dot products that are accumulated in registers at a time: 4 rows of A by 4 rows of B, or by 2 rows of B on instruction sets
// with 16 vector registers.
constexpr int kMostRows = 4;
#if HWY_TARGET <= HWY_AVX3
constexpr int kColumns = 4;
#else
constexpr int kColumns = 2;
#endif

// Loads a vector of elements of B as they are multiplied: rounded to bf16 if A is bf16 and B is fp32.
template <class TA, class TB, class Access>
HWY_INLINE F32Vec load_b(const Access& access, const TB* from) {
  const F32Tag d;
  const F32Vec value = access.load(d, from);
  if constexpr (sizeof(TA) < sizeof(TB)) {
    const hn::RebindToUnsigned<F32Tag> du;
    return hn::BitCast(d, hn::And(rounded_to_upper_half(d, value), hn::Set(du, 0xffff0000u)));
  } else {
    return value;
  }
}

// Writes the dot products of kRows rows of A with kCols rows of B to sums[kRows][kCols]. Each lane sums every lanes-th term by fused
// multiply-adds, and the lanes are then added up, so the bits of an element depend only on its own row and column. The following rows of B
// are prefetched.
template <int kRows, int kCols, class TA, class TB>
HWY_INLINE void dot_tile(const TA* a, const TB* b, int64_t k, float (&sums)[kMostRows][kColumns]) {
  const F32Tag d;
  F32Vec sum[kRows][kCols];
  HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (int j = 0; j < kCols; ++j) sum[r][j] = hn::Zero(d);
  }
  const auto step = [&](const auto& access, int64_t at) HWY_ATTR {
    F32Vec right[kCols];
    HWY_UNROLL(4)
    for (int j = 0; j < kCols; ++j) {
      hwy::Prefetch(b + (kCols + j) * k + at);
      right[j] = load_b<TA>(access, b + j * k + at);
    }
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) {
      const F32Vec left = access.load(d, a + r * k + at);
      HWY_UNROLL(4)
      for (int j = 0; j < kCols; ++j) sum[r][j] = hn::MulAdd(left, right[j], sum[r][j]);
    }
  };
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t at = 0;
  for (; at + lanes <= k; at += lanes) step(WholeVector{}, at);
  if (at < k) step(PartialVector{k - at}, at);
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < kCols; ++j) sums[r][j] = lanes_total(sum[r][j]);
  }
}

// Computes kCols columns of C, starting at column j.
template <int kCols, class TA, class TB>
void few_rows_columns(const FewRowsTask& task, int64_t j) {
  const MatmulProblem& problem = task.problem;
  const int64_t k = problem.k;
  const TA* a = elements<TA>(task.args.a);
  const TB* b = elements<TB>(task.args.b) + j * k;
  float sums[kMostRows][kColumns];
  for (int64_t row = 0; row < problem.m; row += kMostRows) {
    const int64_t rows = std::min<int64_t>(kMostRows, problem.m - row);
    if (rows == 1) dot_tile<1, kCols>(a + row * k, b, k, sums);
    if (rows == 2) dot_tile<2, kCols>(a + row * k, b, k, sums);
    if (rows == 3) dot_tile<3, kCols>(a + row * k, b, k, sums);
    if (rows == 4) dot_tile<4, kCols>(a + row * k, b, k, sums);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < kCols; ++c) {
        const int64_t at = (row + r) * problem.n + j + c;
        float value = sums[r][c];
        if (task.args.bias) value += static_cast<float>(task.args.bias.load(j + c));
        if (task.args.accumulate == Accumulate::kAdd) value += static_cast<float>(task.args.c.load(at));
        task.args.c.store(at, value);
      }
    }
  }
}

template <class TA, class TB>
void few_rows_of(const FewRowsTask& task) {
  int64_t j = task.first;
  for (; j + kColumns <= task.end; j += kColumns) few_rows_columns<kColumns, TA, TB>(task, j);
  for (; j < task.end; ++j) few_rows_columns<1, TA, TB>(task, j);
}

void few_rows_task(const FewRowsTask& task) {
  if (task.problem.a == DType::kF32) return few_rows_of<float, float>(task);
  if (task.problem.b == DType::kF32) return few_rows_of<BF16, float>(task);
  few_rows_of<BF16, BF16>(task);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
namespace {

HWY_EXPORT(few_rows_task);

class FewRowsMatmul final : public PreparedMatmul {
 public:
  explicit FewRowsMatmul(const MatmulProblem& problem)
      : problem_(problem), scratch_bytes_(matmul_scratch_bytes(problem)) {}
  void run(const MatmulArgs& args) override {
    check_matmul_args(problem_, args, scratch_bytes_);
    parallel_for((problem_.n + kTaskColumns - 1) / kTaskColumns, [&](int64_t task, int) {
      const int64_t first = task * kTaskColumns;
      HWY_DYNAMIC_DISPATCH(few_rows_task)
      ({problem_, args, first, std::min(first + kTaskColumns, problem_.n)});
    });
  }
  void pack_b(ConstView, std::span<std::byte>, std::span<std::byte>) override {
    PLIMSOLL_CHECK(false,
                   "matrix products of a few rows do not support a matrix B that was packed in advance");
  }
  std::string description() const override { return "dot products of a few rows"; }

 private:
  MatmulProblem problem_;
  int64_t scratch_bytes_ = 0;
};

}  // namespace

std::unique_ptr<PreparedMatmul> prepare_matmul_few_rows(const MatmulProblem& problem) {
  PLIMSOLL_CHECK(matmul_has_few_rows(problem),
                 "this kernel only computes matrix products of few rows (matmul_has_few_rows()), but this "
                 "product has {} rows",
                 problem.m);
  const bool takes_a = problem.a == DType::kF32 || problem.a == DType::kBF16;
  const bool takes_b = problem.b == problem.a || problem.b == DType::kF32;
  const bool takes_c = problem.c == DType::kF32 || problem.c == problem.a;
  PLIMSOLL_CHECK(takes_a && takes_b && takes_c,
                 "matrix products of few rows do not support operands of {} and {} with a result of {}",
                 dtype_name(problem.a), dtype_name(problem.b), dtype_name(problem.c));
  return std::make_unique<FewRowsMatmul>(problem);
}

}  // namespace plimsoll
#endif  // HWY_ONCE
