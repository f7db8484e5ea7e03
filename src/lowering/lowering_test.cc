#include "lowering/lowering.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

TEST(Lowering, EveryOpHasALoweringToAKernelOfTheCatalog) {
  for (const OpSchema* op : all_ops()) {
    const Lowering& row = lowering_of(*op);
    EXPECT_EQ(row.op, op);
    EXPECT_FALSE(kernel_rows_of(row.kernel).empty())
        << "the op '" << op->name() << "' is lowered to the kernel '" << row.kernel
        << "', which the catalog does not have";
  }
  EXPECT_EQ(all_lowerings().size(), all_ops().size());
}

TEST(Lowering, EveryKernelOfTheCatalogIsReachedByAnOp) {
  std::set<std::string_view> reached;
  for (const Lowering& row : all_lowerings()) reached.insert(row.kernel);
  for (const KernelRow& row : kernel_rows()) {
    EXPECT_TRUE(reached.contains(row.kernel)) << "no op is lowered to '" << row.kernel << "', so that '"
                                              << row.implementation << "' is never used: delete its row";
  }
}

}  // namespace
}  // namespace plimsoll
