#include "hardware/link_calibration.h"

#include <gtest/gtest.h>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kKiB = 1024;

LinkCalibration calibration() {
  LinkCalibration result{.host = "a", .device = "Some CPU, avx2", .num_ranks = 4, .num_hosts = 1};
  MeasuredLinks& gloo = result.exchanges[LinkExchange::kGloo];
  gloo = {.exchange = LinkExchange::kGloo, .num_ranks = 4, .date = "2026-11-27"};
  gloo.curves[Collective::kAllReduce] = {
      {.bytes = kKiB, .median_ms = 0.125, .spread = 0.0625, .num_runs = 64},
      {.bytes = 1024 * kKiB, .median_ms = 2, .spread = 0.25, .num_runs = 8}};
  gloo.curves[Collective::kAllGather] = {{.bytes = kKiB, .median_ms = 0.25, .spread = 0, .num_runs = 3}};
  MeasuredLinks& nccl = result.exchanges[LinkExchange::kNcclWithoutP2p];
  nccl = {.exchange = LinkExchange::kNcclWithoutP2p, .num_ranks = 4, .date = "2026-11-28"};
  nccl.curves[Collective::kBroadcast] = {{.bytes = 7, .median_ms = 1, .spread = 0.5, .num_runs = 9}};
  return result;
}

std::string calibration_refusal(const std::string& text) {
  try {
    static_cast<void>(parse_link_calibration(text, "links.json"));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadData);
    return error.what();
  }
  return "not refused";
}

TEST(LinkCalibration, TextRoundTrips) {
  EXPECT_EQ(parse_link_calibration(link_calibration_json(calibration()), "memory"), calibration());
}

TEST(LinkCalibration, RefusesWhatItCannotUse) {
  const std::string text = link_calibration_json(calibration());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return changed;
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[]", "plimsoll bench --links writes one"},
      {with("\"schema_version\": 1", "\"schema_version\": 2"), "links.json"},
      {with("\"num_ranks\": 4", "\"num_ranks\": 1"), "'num_ranks' must be at least 2, but is 1"},
      {with("\"gloo\"", "\"pigeons\""), "'exchanges' has the unknown key 'pigeons'"},
      {with("\"all_gather\"", "\"gather\""), "'gather' is not the name of a collective operation"},
      {with("\"bytes\": 1048576", "\"bytes\": 1024"),
       "the sizes in the curve of all_reduce must increase, but 1024"},
      {with("\"median_ms\": 2.0", "\"median_ms\": 0.0"),
       "the time of all_reduce with 1048576 bytes must be a positive number"},
      {with("\"host\"", "\"hosts\""), "the key 'host' is missing"}};
  for (const auto& [changed, message] : cases)
    EXPECT_NE(calibration_refusal(changed).find(message), std::string::npos) << calibration_refusal(changed);
}

// The factors between data and sent bytes must equal those of nccl-tests, so that bandwidths can be compared with its results.
TEST(LinkCalibration, FactorsOfTheBusBandwidth) {
  EXPECT_EQ(bus_factor(Collective::kAllReduce, 4), 1.5);
  EXPECT_EQ(bus_factor(Collective::kReduceScatter, 4), 0.75);
  EXPECT_EQ(bus_factor(Collective::kAllGather, 4), 0.75);
  EXPECT_EQ(bus_factor(Collective::kBroadcast, 4), 1);
  EXPECT_EQ(bus_factor(Collective::kAllReduce, 2), 1);
  EXPECT_EQ(bus_factor(Collective::kAllReduce, 1), 0);
}

TEST(LinkCalibration, TimesBetweenAndBeyondTheMeasuredSizes) {
  const LinkCurve curve{{.bytes = 1000, .median_ms = 1}, {.bytes = 3000, .median_ms = 2}};
  EXPECT_EQ(interpolated_ms(curve, 1), 1);
  EXPECT_EQ(interpolated_ms(curve, 1000), 1);
  EXPECT_EQ(interpolated_ms(curve, 2000), 1.5);
  EXPECT_EQ(interpolated_ms(curve, 3000), 2);
  EXPECT_EQ(interpolated_ms(curve, 6000), 4);
}

TEST(LinkCalibration, TimesOfAnExchangeBySentBytes) {
  EXPECT_FALSE(exchange_ms({}, Collective::kAllReduce, 1)) << "nothing was measured";
  MeasuredLinks links{.num_ranks = 4};
  EXPECT_FALSE(exchange_ms(links, Collective::kAllReduce, 1));
  links.curves[Collective::kAllReduce] = {{.bytes = 1000, .median_ms = 1}, {.bytes = 2000, .median_ms = 2}};
  links.curves[Collective::kAllGather] = {{.bytes = 1000, .median_ms = 5}};
  // With 4 ranks, each rank sends 1.5 times the data in an all_reduce, so 3000 sent bytes correspond to the measured 2000 bytes
  // of data.
  EXPECT_EQ(exchange_ms(links, Collective::kAllReduce, 3000), 2);
  EXPECT_EQ(exchange_ms(links, Collective::kAllGather, 750), 5);
  EXPECT_EQ(exchange_ms(links, Collective::kReduceScatter, 3000), 2) << "as an all_reduce that sends as much";
}

TEST(LinkCalibration, LatencyAndRateOfACurve) {
  const LinkCalibration whole = calibration();
  const LinkCurve& curve = whole.exchanges.at(LinkExchange::kGloo).curves.at(Collective::kAllReduce);
  const LinkRate rate = link_rate(curve, Collective::kAllReduce, 4);
  EXPECT_EQ(rate.latency_ms, 0.125);
  EXPECT_DOUBLE_EQ(rate.gb_per_s, 1.5 * 1048576 / 2e6);
}

}  // namespace
}  // namespace plimsoll
