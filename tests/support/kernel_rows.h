// Runs a test once for every CPU implementation of a kernel. Each implementation is a row of the kernel catalog, so a new
// row is tested without a change of the test. Rows that no test runs are reported. The test executable of a kernel family
// lists the functions of its rows once:
//
//   #define PLIMSOLL_ROWS "kernels/layer_norm/layer_norm_catalog.inc"
//   const TestedRows kTestedRows{{
//   #include "kernels/catalog/cpu_functions.inc"
//   }};
//
// Its tests compare all rows that accept a problem with the reference implementation:
//
//   FastRows(normalize_fwd_ref).for_each(dtype, RowsProblem{.rows = T, .columns = C}, [&](const auto& normalize) {
//     normalize({x.view(), x_hat.view(), rstd.view(), T, C, eps});
//     ... compares x_hat with the result of the reference ...
//   });
//
// After all tests of the executable, each row that none of them ran is an error. Not thread-safe, because the list of rows
// and the selection of the instruction set (simd_target_cases.h) are global.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/cpu/cpu_features.h"
#include "device/cpu/parallel.h"
#include "kernels/catalog/catalog.h"
#include "kernels/catalog/kernel_functions.h"
#include "tests/support/simd_target_cases.h"

namespace plimsoll::test {

// The kernel functions that this test executable tests, and which implementations (rows of the kernel catalog)
// its tests have run so far.
struct TestedFunctions {
  std::vector<KernelFunction> functions;
  std::set<std::string_view> kernels;  // kernels whose implementations must all be run; empty: all kernels
  std::set<std::string_view> reached;

  static TestedFunctions& global() {
    static TestedFunctions tested;
    return tested;
  }
};

// At the end of the executable, reports the rows that no test has run. Nothing is reported if only some tests
// were selected (--gtest_filter), because these run fewer rows.
class EveryRowIsReached : public ::testing::Environment {
 public:
  void TearDown() override {
    if (GTEST_FLAG_GET(filter) != "*") return;
    const TestedFunctions& tested = TestedFunctions::global();
    for (const KernelFunction& function : tested.functions) {
      const KernelRow* row = find_kernel_row(function.implementation());
      ASSERT_NE(row, nullptr) << function.implementation();
      const bool is_of_executable = tested.kernels.empty() || tested.kernels.contains(row->kernel);
      EXPECT_TRUE(!is_of_executable || row->backend == Backend::kRef ||
                  tested.reached.contains(row->implementation))
          << "no test runs the row " << row->implementation << " (FastRows in tests/support/kernel_rows.h)";
    }
  }
};

// Adds the kernel functions of a family to the list of functions to test. If the tests of a family are divided
// among several executables, each executable names the kernels that it tests.
class TestedRows {
 public:
  explicit TestedRows(const std::vector<KernelFunction>& functions,
                      const std::set<std::string_view>& kernels = {}) {
    TestedFunctions& tested = TestedFunctions::global();
    if (tested.functions.empty()) ::testing::AddGlobalTestEnvironment(new EveryRowIsReached);
    tested.functions.insert(tested.functions.end(), functions.begin(), functions.end());
    tested.kernels.insert(kernels.begin(), kernels.end());
  }
};

// A callable object for the kernel function of one catalog row. A test calls it like the function.
template <typename Args>
class RowKernel {
 public:
  RowKernel(void (*function)(const Args&), int64_t scratch_bytes)
      : function_(function), scratch_bytes_(scratch_bytes) {}
  void operator()(const Args& args) const { function_(args); }
  // Returns the number of bytes of scratch memory that a plan reserves for this kernel and the size of this problem.
  int64_t scratch_bytes() const { return scratch_bytes_; }

 private:
  void (*function_)(const Args&);
  int64_t scratch_bytes_;
};

// The implementations (catalog rows) of one kernel, or of several kernels that a test runs one after the
// other. A kernel is identified by its reference function.
template <typename... Args>
class FastRows {
 public:
  explicit FastRows(void (*... references)(const Args&)) : kernels_{kernel_of(references)...} {}

  // Calls body(kernel...) for each instruction set of this CPU and for each row, except the reference, that
  // accepts a problem of this type and size. With several kernels, the first call gets the first row of each
  // kernel, the second call the second rows, and so on. A kernel with fewer rows starts again with its first
  // row.
  template <typename Body>
  void for_each(DType dtype, const FamilyProblem& family, const Body& body) const {
    for_each_on_best_target(dtype, family,
                            [&](const auto&... kernels) { for_each_simd_target([&] { body(kernels...); }); });
  }
  template <typename Body>
  void for_each(DType dtype, const Body& body) const {
    for_each(dtype, RowsProblem{}, body);
  }

  // Does the same as for_each(), but only with the fastest instruction set of this CPU, for tests that are
  // slow.
  template <typename Body>
  void for_each_on_best_target(DType dtype, const FamilyProblem& family, const Body& body) const {
    std::array<std::vector<const KernelRow*>, sizeof...(Args)> rows;
    std::array<Problem, sizeof...(Args)> problems;
    size_t most = 0;
    for (size_t k = 0; k < rows.size(); ++k) {
      problems[k] = {.kernel = kernels_[k],
                     .dtype = dtype,
                     .target = {.num_threads = num_threads(), .isa = cpu_isa()},
                     .family = family};
      for (const KernelRow* row : kernel_rows_of(kernels_[k])) {
        if (row->backend == Backend::kCpu && kernel_support(*row, problems[k]).ok) rows[k].push_back(row);
      }
      if (rows[k].empty()) return;
      most = std::max(most, rows[k].size());
    }
    for (size_t i = 0; i < most; ++i) {
      const auto call = [&]<size_t... kKernel>(std::index_sequence<kKernel...>) {
        std::string names;
        ((names += fmt::format(" {}", rows[kKernel][i % rows[kKernel].size()]->implementation)), ...);
        SCOPED_TRACE("kernel:" + names);
        body(kernel_in<Args>(*rows[kKernel][i % rows[kKernel].size()], problems[kKernel])...);
      };
      call(std::index_sequence_for<Args...>());
    }
  }

 private:
  template <typename OfOne>
  static std::string_view kernel_of(void (*reference)(const OfOne&)) {
    for (const KernelFunction& function : TestedFunctions::global().functions) {
      if (function.type() == typeid(void(const OfOne&)) && function.as<void(const OfOne&)>() == reference) {
        return find_kernel_row(function.implementation())->kernel;
      }
    }
    PLIMSOLL_CHECK(false, "the rows of the family have no such reference; TestedRows lists them");
  }

  template <typename OfOne>
  static RowKernel<OfOne> kernel_in(const KernelRow& row, const Problem& problem) {
    TestedFunctions& tested = TestedFunctions::global();
    const KernelFunction* function = find_function(tested.functions, row.implementation);
    PLIMSOLL_CHECK(function != nullptr, "the row {} has no function", row.implementation);
    tested.reached.insert(row.implementation);
    return {function->template as<void(const OfOne&)>(), row.scratch_bytes(problem)};
  }

  std::array<std::string_view, sizeof...(Args)> kernels_;
};

}  // namespace plimsoll::test
