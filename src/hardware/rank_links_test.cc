#include "hardware/rank_links.h"

#include <gtest/gtest.h>

#include <set>

#include "base/check.h"

namespace plimsoll {
namespace {

std::string refused(const char* text) {
  try {
    parse_rank_links(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "accepted";
}

TEST(RankLinks, NamesAreParsedInAnyOrder) {
  EXPECT_EQ(parse_rank_links("nvlink4,ib400"), (RankLinks{.inside = "nvlink4", .between = "ib400"}));
  EXPECT_EQ(parse_rank_links("ib400,nvlink4"), (RankLinks{.inside = "nvlink4", .between = "ib400"}));
  EXPECT_EQ(parse_rank_links("eth100"), (RankLinks{.inside = "", .between = "eth100"}));
  EXPECT_EQ(parse_rank_links("pcie4").between, "");
}

TEST(RankLinks, UnknownAndContradictoryNamesAreRefused) {
  EXPECT_TRUE(
      refused("nvlink9").starts_with("--links nvlink9: the link 'nvlink9' is unknown; name a link inside"));
  EXPECT_NE(refused("").find("the link '' is unknown"), std::string::npos);
  EXPECT_NE(refused("nvlink4,").find("the link '' is unknown"), std::string::npos);
  EXPECT_EQ(
      refused("nvlink4,pcie5"),
      "--links nvlink4,pcie5: nvlink4 and pcie5 are both links inside a machine; give only one of the two");
  EXPECT_EQ(
      refused("ib400,eth100"),
      "--links ib400,eth100: ib400 and eth100 are both links between machines; give only one of the two");
}

TEST(RankLinks, EveryLinkHasAnOwnNameAndARate) {
  std::set<std::string_view> names;
  for (const NamedLink& link : named_links()) {
    EXPECT_TRUE(names.insert(link.name).second) << link.name;
    EXPECT_GT(link.gb_per_s, 0) << link.name;
    EXPECT_FALSE(link.source.empty()) << link.name;
    EXPECT_EQ(find_named_link(link.name), &link);
  }
  // The rate of ib400 is published per direction: 400 Gbit/s are 50 GB/s. That of NVLink 4 is published as 900 GB/s for both
  // directions together.
  EXPECT_EQ(find_named_link("ib400")->gb_per_s, 50);
  EXPECT_EQ(find_named_link("nvlink4")->gb_per_s, 450);
}

// Checks the number of hops: an all_reduce passes up and down a binary tree, whose depth is 7 for 128 machines and 2 for 3
// machines. Other operations use a ring, in which n machines make n - 1 hops.
TEST(RankLinks, HopsBetweenMachines) {
  EXPECT_EQ(network_hops(Collective::kAllReduce, 1), 0);
  EXPECT_EQ(network_hops(Collective::kAllReduce, 2), 2);
  EXPECT_EQ(network_hops(Collective::kAllReduce, 3), 4);
  EXPECT_EQ(network_hops(Collective::kAllReduce, 128), 14);
  EXPECT_EQ(network_hops(Collective::kAllGather, 1), 0);
  EXPECT_EQ(network_hops(Collective::kReduceScatter, 128), 127);
}

}  // namespace
}  // namespace plimsoll
