// Checks that every row of the kernel catalog (one implementation of a kernel) has a benchmark: a plan that kernel_rows_bench
// runs chooses the row or can be forced to use it, or reason_not_benched() states why it is not run. Plans for GPUs are made as
// well, so that this test needs none.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bench/kernels/bench_row_words.h"
#include "bench/kernels/benched_cases.h"
#include "hardware/gpu_target.h"

namespace plimsoll {
namespace {

std::vector<DeviceOptions> devices() {
  std::vector<DeviceOptions> list{{.num_threads = 2, .isa = CpuIsa::kAmx}};
  for (const char* name : {"h100", "a100-40gb", "t4"}) {
    const std::optional<GpuTarget> gpu = find_gpu_target(name);
    EXPECT_TRUE(gpu.has_value()) << name;
    if (gpu) list.push_back({.kind = KernelDevice::kCuda, .num_threads = 2, .gpu = *gpu});
  }
  return list;
}

TEST(BenchedRows, WordsOfTheCommandLine) {
  EXPECT_EQ(read_bench_row_words({}).repetitions, 5);
  EXPECT_TRUE(read_bench_row_words({}).rows.empty());
  const BenchRowWords read = read_bench_row_words({"rms_norm", "--repetitions", "3", "matmul"});
  EXPECT_EQ(read.repetitions, 3);
  EXPECT_EQ(read.rows, (std::vector<std::string>{"rms_norm", "matmul"}));
  using Words = std::vector<std::string>;
  for (const auto& [words, reason] :
       {std::pair<Words, const char*>{{"rms_nrom"}, "'rms_nrom' is part of no name of a row"},
        {{"matmul", "--reps", "3"}, "unknown option '--reps'"},
        {{"--repetitions"}, "--repetitions needs a number"},
        {{"--repetitions", "many"}, "--repetitions many: give a whole number"},
        {{"--repetitions", "0"}, "--repetitions 0: give a whole number"},
        {{""}, "'' is part of no name"}}) {
    try {
      read_bench_row_words(words);
      ADD_FAILURE() << reason;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      EXPECT_TRUE(std::string(error.what()).starts_with(reason)) << error.what();
    }
  }
}

TEST(BenchedRows, AreAllRowsOfTheCatalog) {
  std::set<std::string_view> reached;
  for (const DeviceOptions& device : devices()) {
    for (const BenchedCase& benched : benched_cases(device)) {
      SCOPED_TRACE(benched.name);
      for (const BenchedRound& round : benched_rounds(build_plan(benched.request))) {
        PlanRequest request = benched.request;
        request.device.forced_kernels = round.forced;
        const Plan plan = build_plan(request);
        for (const KernelRow* row : round.rows) {
          reached.insert(row->implementation);
          EXPECT_TRUE(std::ranges::any_of(plan.programs, [row](const ProgramPlan& program) {
            return std::ranges::find(program.ops, row, &OpPlan::kernel) != program.ops.end();
          })) << row->implementation;
        }
      }
    }
  }
  for (const KernelRow& row : kernel_rows()) {
    const std::string_view reason = reason_not_benched(row);
    if (reason.empty()) {
      EXPECT_TRUE(reached.contains(row.implementation))
          << "no plan of bench/kernels/benched_cases.cc can use the row " << row.implementation;
    }
  }
}

}  // namespace
}  // namespace plimsoll
