#include "show/report/link_table.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(LinkTable, Sizes) {
  EXPECT_EQ(format_size(7), "7 B");
  EXPECT_EQ(format_size(1020), "1020 B");
  EXPECT_EQ(format_size(1024), "1 KiB");
  EXPECT_EQ(format_size(1536), "1536 B");
  EXPECT_EQ(format_size(int64_t{256} << 20), "256 MiB");
  EXPECT_EQ(format_size(int64_t{2048} << 30), "2048 GiB");
}

TEST(LinkTable, ShowsTimeSpreadAndBandwidthOfEachSize) {
  MeasuredLinks links{.exchange = LinkExchange::kMappedMemory, .num_ranks = 4};
  links.curves[Collective::kAllReduce] = {
      {.bytes = 1024, .median_ms = 0.02, .spread = 0.03, .num_runs = 64},
      {.bytes = int64_t{256} << 20, .median_ms = 1.25, .spread = 0.004, .num_runs = 9}};
  links.curves[Collective::kBroadcast] = {{.bytes = 4096, .median_ms = 0.5, .spread = 0, .num_runs = 3}};
  EXPECT_EQ(link_table(links, "NVIDIA H100"),
            "exchanges between 4 ranks by mapped memory, on NVIDIA H100\n"
            "\n"
            "all_reduce              time       +-   data GB/s    bus GB/s   runs\n"
            "           1 KiB     0.02 ms      3 %      0.0512      0.0768     64\n"
            "         256 MiB     1.25 ms    0.4 %         215         322      9\n"
            "\n"
            "broadcast               time       +-   data GB/s    bus GB/s   runs\n"
            "           4 KiB      0.5 ms      0 %     0.00819     0.00819      3\n"
            "\n"
            "time: median over the runs of the slowest rank; +-: half the distance between\n"
            "the quartiles, relative to the median; data GB/s: size / time; bus GB/s: bytes\n"
            "that each rank sends / time, as nccl-tests defines it. Every result was compared\n"
            "with the exact one before times counted.\n");
}

}  // namespace
}  // namespace plimsoll
