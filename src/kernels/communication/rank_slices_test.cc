#include "kernels/communication/reduce_scatter.h"

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

// The number of elements of a tensor and of one slice of it. With these sizes, the slices of some ranks are empty or smaller than the
// others.
struct Size {
  int64_t count;
  int64_t slice;
};
std::vector<Size> sizes(int num_ranks) {
  std::vector<Size> list{{3, 1}, {0, 0}, {1000, 1000}, {1, 1}, {40'000, 0}, {17, 0}, {32'768, 0}};
  for (Size& size : list) {
    const int64_t least = (size.count + num_ranks - 1) / num_ranks;
    if (size.slice == 0) size.slice = std::min(size.count, (least + 255) / 256 * 256);
    size.slice = std::max(size.slice, least);
  }
  return list;
}

std::vector<double> numbers_of(int rank, int num_ranks) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::normal_distribution<double> normal;
  int64_t count = 0;
  for (const Size& size : sizes(num_ranks)) count += size.count;
  std::vector<double> numbers(static_cast<size_t>(count));
  for (double& number : numbers) number = normal(random);
  return numbers;
}

AllReduceProblem slices_problem(int num_ranks, DType dtype) {
  AllReduceProblem problem{.ranks = num_ranks};
  for (const Size& size : sizes(num_ranks)) {
    const int64_t bytes = size.count * dtype_bytes(dtype);
    problem.largest_bytes = std::max(problem.largest_bytes, bytes);
    if (bytes < kSmallTensorBytes) problem.small_bytes += bytes;
  }
  return problem;
}

// The tensors of a rank, stored one after the other.
struct Tensors {
  std::vector<std::byte> bytes;
  std::vector<DividedTensor> list;
  View all;

  Tensors(const std::vector<double>& numbers, int num_ranks, DType dtype)
      : bytes(numbers.size() * static_cast<size_t>(dtype_bytes(dtype))), all{bytes.data(), dtype} {
    for (size_t i = 0; i < numbers.size(); ++i) all.store(static_cast<int64_t>(i), numbers[i]);
    int64_t at = 0;
    for (const Size& size : sizes(num_ranks)) {
      list.push_back({.data = {bytes.data() + at * dtype_bytes(dtype), dtype},
                      .count = size.count,
                      .slice = size.slice});
      at += size.count;
    }
  }
};

template <typename Kernel>
void run(const Kernel& kernel, int64_t scratch_bytes, Communicator& communicator, Tensors& tensors) {
  std::vector<std::byte> scratch(static_cast<size_t>(scratch_bytes));
  kernel({.communicator = &communicator, .tensors = tensors.list, .scratch = {scratch.data(), DType::kU8}});
}

// Calls check(index, rank) for each element. `index` is its index in the list of all elements, and `rank` is the rank whose slice contains
// it.
template <typename Check>
void for_each_owned(int num_ranks, const Check& check) {
  size_t begin = 0;
  for (const Size& size : sizes(num_ranks)) {
    for (int64_t i = 0; i < size.count; ++i)
      check(begin + static_cast<size_t>(i), static_cast<int>(i / size.slice));
    begin += static_cast<size_t>(size.count);
  }
}

void expect_sums(const std::vector<std::vector<double>>& results, int num_ranks, DType dtype) {
  std::vector<std::vector<double>> numbers;
  for (int rank = 0; rank < num_ranks; ++rank) numbers.push_back(numbers_of(rank, num_ranks));
  const double u = unit_roundoff(dtype);
  const double u_sums = dtype == DType::kF64 ? u : std::min(u, std::ldexp(1.0, -24));
  for_each_owned(num_ranks, [&](size_t i, int owner) {
    double sum = 0, magnitude = 0;
    for (const std::vector<double>& of_rank : numbers) {
      std::byte rounded[8];
      const View one{rounded, dtype};
      one.store(0, of_rank[i]);
      sum += one.load(0);
      magnitude += std::abs(one.load(0));
    }
    // The error bound of reduce_scatter.h, plus the rounding of the sums that the reference computes in double precision.
    const double bound = (num_ranks - 1) * u_sums * magnitude * 1.01 + u * std::abs(sum) * 1.01 +
                         num_ranks * std::ldexp(magnitude, -53) + std::numeric_limits<double>::min();
    ASSERT_NEAR(results[static_cast<size_t>(owner)][i], sum, bound)
        << "element " << i << " of " << num_ranks << " ranks in " << dtype_name(dtype);
  });
}

TEST(ReduceScatter, SumsTheSliceOfEachRank) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    for (const int num_ranks : {1, 2, 3}) {
      const AllReduceProblem problem = slices_problem(num_ranks, dtype);
      const auto check = [&](const auto& kernel, int64_t scratch_bytes) {
        std::vector<std::vector<double>> results(static_cast<size_t>(num_ranks));
        testing::run_on_ranks(num_ranks, [&](Communicator& communicator) {
          Tensors tensors(numbers_of(communicator.rank(), num_ranks), num_ranks, dtype);
          run(kernel, scratch_bytes, communicator, tensors);
          std::vector<double>& result = results[static_cast<size_t>(communicator.rank())];
          for (size_t i = 0; i < tensors.bytes.size() / static_cast<size_t>(dtype_bytes(dtype)); ++i)
            result.push_back(tensors.all.load(static_cast<int64_t>(i)));
        });
        expect_sums(results, num_ranks, dtype);
      };
      check(reduce_scatter_ref, catalog_rows::all_reduce_ref_scratch(problem));
      FastRows(reduce_scatter_ref).for_each_on_best_target(dtype, problem, [&](const auto& kernel) {
        check(kernel, kernel.scratch_bytes());
      });
    }
  }
}

TEST(AllGather, CopiesTheSliceOfEachRank) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
    for (const int num_ranks : {1, 2, 3}) {
      const AllReduceProblem problem = slices_problem(num_ranks, dtype);
      const auto check = [&](const auto& kernel, int64_t scratch_bytes) {
        std::vector<Tensors> results;
        for (int rank = 0; rank < num_ranks; ++rank)
          results.emplace_back(numbers_of(rank, num_ranks), num_ranks, dtype);
        std::vector<std::vector<std::byte>> before;
        for (const Tensors& tensors : results) before.push_back(tensors.bytes);
        testing::run_on_ranks(num_ranks, [&](Communicator& communicator) {
          run(kernel, scratch_bytes, communicator, results[static_cast<size_t>(communicator.rank())]);
        });
        const auto width = static_cast<size_t>(dtype_bytes(dtype));
        for_each_owned(num_ranks, [&](size_t i, int owner) {
          for (size_t byte = i * width; byte < (i + 1) * width; ++byte) {
            ASSERT_EQ(results.front().bytes[byte], before[static_cast<size_t>(owner)][byte]) << i;
          }
        });
        for (const Tensors& tensors : results) EXPECT_EQ(tensors.bytes, results.front().bytes);
      };
      check(all_gather_ref, 0);
      FastRows(all_gather_ref).for_each_on_best_target(DType::kF32, problem, [&](const auto& kernel) {
        check(kernel, kernel.scratch_bytes());
      });
    }
  }
}

// Small tensors must be exchanged together in one operation, because each operation has a fixed cost.
TEST(ReduceScatter, SendsSmallTensorsAtOnce) {
  const AllReduceProblem problem = slices_problem(2, DType::kF32);
  testing::run_on_ranks(2, [&](testing::ThreadCommunicator& communicator) {
    Tensors tensors(numbers_of(communicator.rank(), 2), 2, DType::kF32);
    run(reduce_scatter_cpu, catalog_rows::all_reduce_cpu_scratch(problem), communicator, tensors);
    EXPECT_EQ(communicator.num_reduce_scatters,
              3);  // one for each of the two large tensors, and one for all small tensors together
  });
}

}  // namespace
}  // namespace plimsoll::test
