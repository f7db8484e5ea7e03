#include "base/optimizer_table.h"

#include <gtest/gtest.h>

#include <iterator>
#include <set>
#include <string>

namespace plimsoll {
namespace {

// The names in the enumeration OptimizerNames of transformers 5.23 (training_args.py), in the same order. Plimsoll must know all
// of them.
constexpr std::string_view kTrainerNames[] = {"adamw_torch",
                                              "adamw_torch_fused",
                                              "adamw_torch_xla",
                                              "adamw_torch_npu_fused",
                                              "adafactor",
                                              "adamw_anyprecision",
                                              "adamw_torch_4bit",
                                              "adamw_torch_8bit",
                                              "ademamix",
                                              "sgd",
                                              "adagrad",
                                              "adamw_bnb_8bit",
                                              "adamw_8bit",
                                              "ademamix_8bit",
                                              "lion_8bit",
                                              "lion_32bit",
                                              "paged_adamw_32bit",
                                              "paged_adamw_8bit",
                                              "paged_ademamix_32bit",
                                              "paged_ademamix_8bit",
                                              "paged_lion_32bit",
                                              "paged_lion_8bit",
                                              "rmsprop",
                                              "rmsprop_bnb",
                                              "rmsprop_bnb_8bit",
                                              "rmsprop_bnb_32bit",
                                              "galore_adamw",
                                              "galore_adamw_8bit",
                                              "galore_adafactor",
                                              "galore_adamw_layerwise",
                                              "galore_adamw_8bit_layerwise",
                                              "galore_adafactor_layerwise",
                                              "lomo",
                                              "adalomo",
                                              "grokadamw",
                                              "schedule_free_radam",
                                              "schedule_free_adamw",
                                              "schedule_free_sgd",
                                              "apollo_adamw",
                                              "apollo_adamw_layerwise",
                                              "stable_adamw"};

TEST(OptimizerNames, EveryNameOfTrainerRunsOrIsRefusedWithAReasonAndANameThatRuns) {
  for (const std::string_view name : kTrainerNames) {
    EXPECT_NE(find_optimizer_name(name), nullptr) << name;
  }
  std::set<std::string_view> seen;
  for (const OptimizerName& row : optimizer_names()) {
    EXPECT_TRUE(seen.insert(row.name).second) << row.name << " stands twice";
    EXPECT_EQ(row.reason.empty(), row.is_here()) << row.name;
    if (row.is_here()) continue;
    const OptimizerName* nearest = find_optimizer_name(row.nearest);
    ASSERT_NE(nearest, nullptr) << row.name;
    EXPECT_TRUE(nearest->is_here()) << row.name << " points to " << row.nearest;
  }
  EXPECT_GE(seen.size(), std::size(kTrainerNames));
  EXPECT_EQ(find_optimizer_name("adamw_troch"), nullptr);
}

}  // namespace
}  // namespace plimsoll
