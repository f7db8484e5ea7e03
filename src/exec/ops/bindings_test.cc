// Checks that every op has a binding and that bindings, lowerings and rows of the catalog agree. The list of bindings is
// the same for all devices, so that this test needs no GPU.
#include "exec/ops/bindings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "graph/ops/ops.h"
#include "lowering/lowering.h"

namespace plimsoll {
namespace {

TEST(Bindings, EveryOpHasExactlyOne) {
  std::multiset<const OpSchema*> bound;
  for (const ListedBinding& binding : listed_bindings()) bound.insert(binding.op);
  for (const OpSchema* op : all_ops()) {
    EXPECT_EQ(bound.count(op), 1u) << "the op '" << op->name() << "' needs one row in exec/ops/bindings.inc";
  }
  EXPECT_EQ(bound.size(), all_ops().size());
}

// A binding calls the functions kernel_ref, kernel_cpu and kernel_cuda. The plan chooses between the rows of the
// kernel to which the op is lowered, so these rows must name the same three functions.
TEST(Bindings, CallTheKernelsThatThePlanChoosesFrom) {
  for (const ListedBinding& binding : listed_bindings()) {
    if (binding.kernel.empty()) continue;
    EXPECT_EQ(lowering_of(*binding.op).kernel, binding.kernel) << binding.op->name();
    std::set<std::string> rows, functions;
    for (const KernelRow* row : kernel_rows_of(binding.kernel)) rows.emplace(row->implementation);
    for (const char* backend : {"_cpu", "_cuda", "_ref"})
      functions.insert(std::string(binding.kernel) + backend);
    EXPECT_EQ(rows, functions) << binding.op->name();
  }
}

// Families that choose the function themselves must also have kernels for both devices. On a CPU the reference
// counts.
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
