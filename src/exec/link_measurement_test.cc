#include "exec/link_measurement.h"

#include <gtest/gtest.h>

#include <mutex>

#include "device/comm/testing/thread_communicator.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr LinkBenchLimits kSmall{.smallest_bytes = 1024, .largest_bytes = 16 << 10, .seconds_per_size = 1};

TEST(LinkBench, SizesGrowToTheLargest) {
  EXPECT_EQ(measured_sizes({.smallest_bytes = 1024, .largest_bytes = 20000}),
            (std::vector<int64_t>{1024, 4096, 16384, 20000}));
  EXPECT_EQ(measured_sizes({.smallest_bytes = 1024, .largest_bytes = 4096}),
            (std::vector<int64_t>{1024, 4096}));
  EXPECT_EQ(measured_sizes({.smallest_bytes = 1024, .largest_bytes = 1024}), std::vector<int64_t>{1024});
  EXPECT_EQ(measured_sizes({}).size(), 10u) << "1 KiB to 256 MiB";
}

TEST(LinkBench, MedianAndSpreadOfTimes) {
  const LinkPoint point = summarize_times(7, {5, 1, 2, 4, 3});
  EXPECT_EQ(point.bytes, 7);
  EXPECT_EQ(point.median_ms, 3);
  EXPECT_DOUBLE_EQ(point.spread, 1.0 / 3) << "the quartiles are 2 and 4";
  EXPECT_EQ(point.num_runs, 5);
  EXPECT_EQ(summarize_times(7, {2}).spread, 0);
  EXPECT_EQ(summarize_times(7, {1, 2}).median_ms, 1.5);
}

TEST(LinkBench, TheSpreadIsKnownAfterEnoughRuns) {
  EXPECT_FALSE(is_spread_known({.median_ms = 1, .spread = 0, .num_runs = 7}));
  EXPECT_TRUE(is_spread_known({.median_ms = 1, .spread = 0.05, .num_runs = 8}));
  EXPECT_FALSE(is_spread_known({.median_ms = 1, .spread = 0.1, .num_runs = 16}));
  EXPECT_TRUE(is_spread_known({.median_ms = 1, .spread = 0.1, .num_runs = 25}));
}

TEST(LinkBench, MeasuresEveryOperationOnEveryNumberOfRanks) {
  for (const int num_ranks : {2, 3}) {
    std::mutex lock;
    std::vector<MeasuredLinks> of_ranks;
    testing::run_on_ranks(num_ranks, [&](Communicator& ranks) {
      const auto exchanger = gloo_exchanger(ranks, link_buffer_elements(kSmall, num_ranks));
      const MeasuredLinks links = measure_links(*exchanger, ranks, kSmall, [](const std::string&) {});
      const std::lock_guard guard(lock);
      of_ranks.push_back(links);
    });
    ASSERT_EQ(of_ranks.size(), static_cast<size_t>(num_ranks));
    for (const MeasuredLinks& links : of_ranks)
      EXPECT_EQ(links, of_ranks[0]) << "every rank has the same times";
    EXPECT_EQ(of_ranks[0].num_ranks, num_ranks);
    ASSERT_EQ(of_ranks[0].curves.size(), kCollectives.size());
    for (const auto& [collective, curve] : of_ranks[0].curves) {
      ASSERT_EQ(curve.size(), 3u) << collective_name(collective);
      for (const LinkPoint& point : curve) {
        EXPECT_GT(point.median_ms, 0);
        EXPECT_GE(point.num_runs, 3);
      }
      EXPECT_LE(curve.back().bytes, 16 << 10);
      EXPECT_GT(curve.back().bytes, (16 << 10) - 16 * num_ranks);
    }
  }
}

// A simulated implementation of collective operations whose results can be wrong and whose operations can take long.
class FaultyExchanger final : public LinkExchanger {
 public:
  explicit FaultyExchanger(Communicator& ranks, Collective wrong, double fixed_ms)
      : inner_(gloo_exchanger(ranks, 1 << 20)), wrong_(wrong), fixed_ms_(fixed_ms) {}
  LinkExchange exchange() const override { return LinkExchange::kGloo; }
  bool has(Collective collective) const override { return collective != Collective::kBroadcast; }
  void write(std::span<const float> values) override { inner_->write(values); }
  void read(std::span<float> values) override {
    inner_->read(values);
    // Makes two numbers wrong: one in each rank's part of the buffer.
    if (last_ != wrong_) return;
    values[values.size() / 4] += 1;
    values[values.size() / 4 * 3] += 1;
  }
  void run(Collective collective, int64_t count) override {
    last_ = collective;
    inner_->run(collective, count);
  }
  double run_ms(Collective collective, int64_t count) override {
    run(collective, count);
    return fixed_ms_;
  }

 private:
  std::unique_ptr<LinkExchanger> inner_;
  Collective wrong_;
  double fixed_ms_;
  Collective last_ = Collective::kBroadcast;
};

TEST(LinkBench, AWrongResultIsAnErrorThatNamesIt) {
  for (const Collective wrong :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather}) {
    std::mutex lock;
    std::vector<std::string> errors;
    testing::run_on_ranks(2, [&](Communicator& ranks) {
      FaultyExchanger exchanger(ranks, wrong, 1);
      try {
        measure_links(exchanger, ranks, {.largest_bytes = 1024, .seconds_per_size = 0.01},
                      [](const std::string&) {});
      } catch (const Error& error) {
        const std::lock_guard guard(lock);
        EXPECT_EQ(error.code(), ErrorCode::kDevice);
        errors.emplace_back(error.what());
      }
    });
    ASSERT_EQ(errors.size(), 2u);
    const std::string start =
        std::string(collective_name(wrong)) + " of 256 numbers through Gloo computes a wrong result: number ";
    for (const std::string& error : errors) EXPECT_TRUE(error.starts_with(start)) << error;
  }
}

// The simulated implementation reports that one run of the smallest size takes longer than the time limit.
TEST(LinkBench, TheTimeLimitLeavesOutLargerSizes) {
  testing::run_on_ranks(2, [&](Communicator& ranks) {
    FaultyExchanger exchanger(ranks, Collective::kBroadcast, 500);
    const MeasuredLinks links = measure_links(
        exchanger, ranks, {.largest_bytes = 1 << 20, .seconds_per_size = 0.3}, [](const std::string&) {});
    ASSERT_EQ(links.curves.size(), 3u) << "the exchange has no broadcast";
    for (const auto& [collective, curve] : links.curves) {
      ASSERT_EQ(curve.size(), 1u);
      EXPECT_EQ(curve[0].num_runs, 3);
    }
  });
}

}  // namespace
}  // namespace plimsoll
