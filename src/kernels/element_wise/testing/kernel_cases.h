// Parameters for tests of vectorised kernels: one and two threads, and sizes around the vector widths;
// tests/support/simd_target_cases.h has the instruction sets. For tests only. Not thread-safe: it changes the
// number of threads.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "device/cpu/parallel.h"
#include "kernels/element_wise/element_wise_catalog.h"
#include "tests/support/compare.h"
#include "tests/support/simd_target_cases.h"

namespace plimsoll::test {

struct RowsAndColumns {
  int64_t T, C;
  int64_t size() const { return T * C; }
};

// Returns shapes with odd sizes and shapes of real models. The last one consists of several blocks of rows (for sums) and of several chunks
// of elements (for threads).
inline std::vector<RowsAndColumns> kernel_shapes() {
  std::vector<RowsAndColumns> shapes;
  for (const int64_t T : {1, 2, 5, 33}) {
    for (const int64_t C : {1, 3, 8, 17, 384, 768, 1024}) shapes.push_back({T, C});
  }
  shapes.push_back({200, 771});
  return shapes;
}

inline std::vector<DType> fast_types() {
  return {DType::kF32, DType::kBF16};
}

// Returns a name for a tensor. It is the seed of the tensor's random values and appears in messages.
inline std::string tensor_name(std::string_view tensor, RowsAndColumns shape, DType dtype) {
  const ::testing::TestInfo* info = ::testing::UnitTest::GetInstance()->current_test_info();
  return fmt::format("{}.{}/{} {} [{}, {}]", info->test_suite_name(), info->name(), tensor, dtype_name(dtype),
                     shape.T, shape.C);
}

// Checks that a kernel gives the same bits with one and with two threads, and leaves the results of one thread in `outputs`. run() must
// write every output.
inline void run_with_one_and_two_threads(const std::vector<GuardedBuffer*>& outputs,
                                         const std::function<void()>& run) {
  const int threads_before = num_threads();
  std::vector<std::vector<double>> initial;
  initial.reserve(outputs.size());
  for (GuardedBuffer* output : outputs) initial.push_back(output->to_doubles());
  set_num_threads(2);
  run();
  std::vector<std::vector<double>> with_two;
  with_two.reserve(outputs.size());
  for (GuardedBuffer* output : outputs) with_two.push_back(output->to_doubles());
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i]->assign(initial[i]);
  set_num_threads(1);
  run();
  for (size_t i = 0; i < outputs.size(); ++i) {
    GuardedBuffer copy(outputs[i]->name(), outputs[i]->dtype(), outputs[i]->count());
    copy.assign(with_two[i]);
    EXPECT_TRUE(compare_bits(*outputs[i], copy).ok()) << outputs[i]->name() << ": threads change the result";
  }
  set_num_threads(threads_before);
}

// Returns scratch memory of exactly `bytes` bytes.
inline GuardedBuffer scratch_of(int64_t bytes) {
  return GuardedBuffer("scratch", DType::kU8, bytes);
}

// Returns the options for comparing two buffers with one error bound per element.
inline Limit limit_of(const std::vector<double>& bounds, Zeros zeros = Zeros::kSuspicious) {
  Limit limit;
  limit.per_element = bounds;
  limit.zeros = zeros;
  return limit;
}

// Checks d_input against central differences of loss(), a function of `input` (f64), at every element.
// `tolerance` covers the cubic term of the difference (step^2 * f'''/6) and the rounding of the loss (2^-52 *
// loss / step).
inline void expect_gradient(GuardedBuffer& input, const GuardedBuffer& d_input,
                            const std::function<double()>& loss, double tolerance = 1e-8) {
  constexpr double kStep = 1e-5;
  ASSERT_EQ(input.dtype(), DType::kF64);
  ASSERT_GE(input.count(), 1);
  for (int64_t i = 0; i < input.count(); ++i) {
    const double value = input.load(i);
    input.view().store(i, value + kStep);
    const double above = loss();
    input.view().store(i, value - kStep);
    const double below = loss();
    input.view().store(i, value);
    const double slope = (above - below) / (2.0 * kStep);
    EXPECT_NEAR(d_input.load(i), slope, tolerance * std::max(1.0, std::abs(slope)))
        << input.name() << " element " << i;
  }
}

// Returns the sum of weights[i] * values[i]: a loss whose gradient with respect to `values` is `weights`.
inline double weighted_sum(const GuardedBuffer& weights, const GuardedBuffer& values) {
  double sum = 0.0;
  for (int64_t i = 0; i < weights.count(); ++i) sum += weights.load(i) * values.load(i);
  return sum;
}

}  // namespace plimsoll::test
