// Checks that every op has a binding (the code that calls its kernel), and that the binding fits the kernel to which the op is lowered and
// the kernel's row in the catalog. The list of bindings is the same for all devices, so that this test needs no GPU.
#include "exec/ops/bindings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "graph/ops/ops.h"
#include "lowering/lowering.h"

namespace plimsoll {
namespace {

TEST(Bindings, EveryOpHasExactlyOne) {
  std::multiset<const OpSchema*> bound;
  for (const ListedBinding& binding : listed_cpu_bindings()) bound.insert(binding.op);
  for (const OpSchema* op : all_ops()) {
    EXPECT_EQ(bound.count(op), 1u) << "the op '" << op->name() << "' needs one row in exec/ops/bindings.inc";
  }
  EXPECT_EQ(bound.size(), all_ops().size());
}

// Expects that all kernels of the catalog to which an op can be lowered have functions of the type that the op's binding calls.
void expect_functions(const std::vector<ListedBinding>& bindings, std::span<const KernelFunction> functions,
                      bool on_gpu) {
  int checked = 0;
  for (const ListedBinding& binding : bindings) {
    if (binding.function == nullptr) continue;
    for (const KernelRow* row : kernel_rows_of(lowering_of(*binding.op).kernel)) {
      if ((row->backend == Backend::kCuda) != on_gpu) continue;
      const KernelFunction* function = find_function(functions, row->implementation);
      ASSERT_NE(function, nullptr) << row->implementation << " has no function that the binding of '"
                                   << binding.op->name() << "' could call";
      EXPECT_TRUE(function->type() == *binding.function)
          << row->implementation << " takes other arguments than the binding of '" << binding.op->name()
          << "' passes";
      ++checked;
    }
  }
  EXPECT_GE(checked, bindings.empty() ? 0 : 60);
}

TEST(Bindings, CallTheFunctionsOfTheRowsThatThePlanChoosesFrom) {
  expect_functions(listed_cpu_bindings(), cpu_functions(), false);
}

// Skipped in a build without CUDA, which has no functions for a GPU.
TEST(Bindings, CallTheFunctionsOfTheRowsForAGpu) {
  const std::vector<ListedBinding> bindings = listed_cuda_bindings();
  if (bindings.empty()) GTEST_SKIP() << "this build has no CUDA";
  EXPECT_EQ(bindings.size(), listed_cpu_bindings().size());
  expect_functions(bindings, cuda_functions(), true);
}

// Kernel families that choose the kernel function themselves must also have kernels for both devices. On a CPU the reference kernel is
// enough.
TEST(Bindings, EveryOpHasARowForEachDevice) {
  for (const OpSchema* op : all_ops()) {
    const std::vector<const KernelRow*> rows = kernel_rows_of(lowering_of(*op).kernel);
    const auto has_row = [&](bool on_gpu) {
      return std::ranges::any_of(
          rows, [&](const KernelRow* row) { return (row->backend == Backend::kCuda) == on_gpu; });
    };
    EXPECT_TRUE(has_row(false)) << "no row of the catalog computes '" << op->name() << "' on a CPU";
    EXPECT_TRUE(has_row(true)) << "no row of the catalog computes '" << op->name() << "' on a GPU";
  }
}

}  // namespace
}  // namespace plimsoll
