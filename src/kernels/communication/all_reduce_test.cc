#include "kernels/communication/all_reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "device/comm/testing/thread_communicator.h"
#include "kernels/communication/communication_catalog.h"
#include "kernels/communication/testing/unit_roundoff.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

// Returns the numbers of elements of the tested tensors: an empty tensor, some smaller than kSmallTensorBytes, and some larger.
std::vector<int64_t> sizes() {
  return {3, 0, 1000, 1, 40'000, 17, 32'768};
}

std::vector<double> numbers_of(int rank) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::normal_distribution<double> normal;
  int64_t count = 0;
  for (const int64_t size : sizes()) count += size;
  std::vector<double> numbers(static_cast<size_t>(count));
  for (double& number : numbers) number = normal(random);
  return numbers;
}

AllReduceProblem problem_of(int num_ranks, DType dtype) {
  AllReduceProblem problem{.ranks = num_ranks};
  for (const int64_t size : sizes()) {
    const int64_t bytes = size * dtype_bytes(dtype);
    problem.largest_bytes = std::max(problem.largest_bytes, bytes);
    if (bytes < kSmallTensorBytes) problem.small_bytes += bytes;
  }
  return problem;
}

// The tensors of a rank, stored one after the other, and the results of a kernel on them.
template <typename Kernel>
std::vector<double> reduced(const Kernel& kernel, int64_t scratch_bytes, Communicator& communicator,
                            DType dtype) {
  const std::vector<double> numbers = numbers_of(communicator.rank());
  std::vector<std::byte> bytes(numbers.size() * static_cast<size_t>(dtype_bytes(dtype)));
  const View all{bytes.data(), dtype};
  for (size_t i = 0; i < numbers.size(); ++i) all.store(static_cast<int64_t>(i), numbers[i]);
  std::vector<ReducedTensor> tensors;
  int64_t at = 0;
  for (const int64_t size : sizes()) {
    tensors.push_back({.data = {bytes.data() + at * dtype_bytes(dtype), dtype}, .count = size});
    at += size;
  }
  std::vector<std::byte> scratch(static_cast<size_t>(scratch_bytes));
  kernel({.communicator = &communicator, .tensors = tensors, .scratch = {scratch.data(), DType::kU8}});
  std::vector<double> result;
  for (size_t i = 0; i < numbers.size(); ++i) result.push_back(all.load(static_cast<int64_t>(i)));
  return result;
}

void expect_sums(const std::vector<double>& found, int num_ranks, DType dtype) {
  std::vector<double> sums(found.size()), magnitudes(found.size());
  for (int rank = 0; rank < num_ranks; ++rank) {
    const std::vector<double> numbers = numbers_of(rank);
    for (size_t i = 0; i < numbers.size(); ++i) {
      std::byte rounded[8];
      const View one{rounded, dtype};
      one.store(0, numbers[i]);
      sums[i] += one.load(0);
      magnitudes[i] += std::abs(one.load(0));
    }
  }
  const double u = unit_roundoff(dtype);
  const double u_sums = dtype == DType::kF64 ? u : std::min(u, std::ldexp(1.0, -24));
  for (size_t i = 0; i < sums.size(); ++i) {
    // The error bound of all_reduce.h, plus the rounding of the sums that the reference computes in double precision.
    const double bound = (num_ranks - 1) * u_sums * magnitudes[i] * 1.01 + u * std::abs(sums[i]) * 1.01 +
                         num_ranks * std::ldexp(magnitudes[i], -53) + std::numeric_limits<double>::min();
    ASSERT_NEAR(found[i], sums[i], bound)
        << "element " << i << " of " << num_ranks << " ranks in " << dtype_name(dtype);
  }
}

TEST(AllReduce, SumsTheTensorsOfAllRanks) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    for (const int num_ranks : {1, 2, 3}) {
      const AllReduceProblem problem = problem_of(num_ranks, dtype);
      const auto check = [&](const auto& kernel, int64_t scratch_bytes) {
        std::vector<std::vector<double>> results(static_cast<size_t>(num_ranks));
        testing::run_on_ranks(num_ranks, [&](Communicator& communicator) {
          results[static_cast<size_t>(communicator.rank())] =
              reduced(kernel, scratch_bytes, communicator, dtype);
        });
        expect_sums(results.front(), num_ranks, dtype);
        for (const std::vector<double>& result : results) EXPECT_EQ(result, results.front());
      };
      check(all_reduce_ref, catalog_rows::all_reduce_ref_scratch(problem));
      FastRows(all_reduce_ref).for_each_on_best_target(dtype, problem, [&](const auto& kernel) {
        check(kernel, kernel.scratch_bytes());
      });
    }
  }
}

// Integers must be added exactly, even those above 2^24, which fp32 cannot represent.
TEST(AllReduce, SumsIntegers) {
  for (const int num_ranks : {1, 2, 3}) {
    const AllReduceProblem problem{.ranks = num_ranks, .largest_bytes = 8};
    const auto check = [&](const auto& kernel, int64_t scratch_bytes) {
      testing::run_on_ranks(num_ranks, [&](Communicator& ranks) {
        std::vector<int32_t> counts{16'777'217, -3 * ranks.rank()};
        const std::vector<ReducedTensor> tensors{{.data = {counts.data(), DType::kI32}, .count = 2}};
        std::vector<std::byte> scratch(static_cast<size_t>(scratch_bytes));
        kernel({.communicator = &ranks, .tensors = tensors, .scratch = {scratch.data(), DType::kU8}});
        EXPECT_EQ(counts,
                  (std::vector<int32_t>{num_ranks * 16'777'217, -3 * num_ranks * (num_ranks - 1) / 2}));
      });
    };
    check(all_reduce_ref, catalog_rows::all_reduce_ref_scratch(problem));
    FastRows(all_reduce_ref).for_each_on_best_target(DType::kI32, problem, [&](const auto& kernel) {
      check(kernel, kernel.scratch_bytes());
    });
  }
}

// Tests the sizes of slices: together, the slices of all ranks must cover the tensor, and scratch memory must hold the copies from all
// other ranks.
TEST(AllReduce, SlicesCoverATensor) {
  for (const int64_t count : {16'384, 16'385, 30'522 * 1024, 1'000'003}) {
    for (const int64_t ranks : {2, 3, 8}) {
      const int64_t size = slice_elements(count, ranks);
      EXPECT_EQ(size % 64, 0);
      EXPECT_GE(ranks * size, count);
      EXPECT_LT(ranks * size, count + ranks * 64);
      EXPECT_GE(peer_scratch_bytes_of(count, 4, ranks), (ranks - 1) * size * 4);
    }
  }
  EXPECT_EQ(peer_scratch_bytes_of(3, 2, 4), 256);
}

// Small tensors must be reduced together in one operation, because each operation has a fixed cost.
TEST(AllReduce, SendsSmallTensorsAtOnce) {
  const AllReduceProblem problem = problem_of(2, DType::kF32);
  testing::run_on_ranks(2, [&](testing::ThreadCommunicator& communicator) {
    reduced(all_reduce_cpu, catalog_rows::all_reduce_cpu_scratch(problem), communicator, DType::kF32);
    EXPECT_EQ(communicator.num_all_reduces,
              3);  // one operation for each of the two large tensors, and one for all small tensors
  });
}

}  // namespace
}  // namespace plimsoll::test
