#include <gtest/gtest.h>

#include <functional>

#include "base/file_fault.h"
#include "run/caches.h"

namespace plimsoll {
namespace {

const Environment kEnvironment{{"XDG_CACHE_HOME", "/cache"}};

LinkCalibration calibration() {
  LinkCalibration result{.host = "a", .device = "Some CPU, avx2", .num_ranks = 4};
  for (const LinkExchange exchange :
       {LinkExchange::kGloo, LinkExchange::kNccl, LinkExchange::kNcclWithoutP2p}) {
    result.exchanges[exchange] = {.exchange = exchange, .num_ranks = 4, .date = "2026-11-27"};
    result.exchanges[exchange].curves[Collective::kAllReduce] = {{.bytes = 1024, .median_ms = 0.5}};
  }
  return result;
}

class LinkCache : public ::testing::Test {
 protected:
  void SetUp() override {
    make_folders(files_, "/cache/plimsoll/links");
    replace_file(files_, path_, link_calibration_json(calibration()));
  }
  LinkCalibration read(const std::string& word, const LinkCalibration& key,
                       const Environment& environment = kEnvironment) {
    return read_link_calibration(word, key, environment, files_, warnings_);
  }
  MemoryFileSystem files_;
  const std::string path_ = link_calibration_path(calibration(), kEnvironment);
  std::vector<std::string> warnings_;
};

TEST_F(LinkCache, IsReadForItsMachineDeviceAndNumberOfRanks) {
  EXPECT_TRUE(path_.starts_with("/cache/plimsoll/links/")) << path_;
  const LinkCalibration found = read("auto", calibration());
  EXPECT_TRUE(found.has_key_of(calibration()));
  EXPECT_EQ(found.exchanges.at(LinkExchange::kGloo), calibration().exchanges.at(LinkExchange::kGloo));
  for (const auto& change : std::vector<std::function<void(LinkCalibration&)>>{
           [](LinkCalibration& key) { key.host = "b"; }, [](LinkCalibration& key) { key.device = "other"; },
           [](LinkCalibration& key) { key.num_ranks = 2; },
           [](LinkCalibration& key) { key.num_hosts = 2; }}) {
    LinkCalibration key = calibration();
    change(key);
    EXPECT_TRUE(read("auto", key).empty());
  }
  EXPECT_TRUE(read("off", calibration()).empty());
  EXPECT_TRUE(read("auto", calibration(), {}).empty());
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(LinkCache, NcclIsThatOfTheEnvironment) {
  EXPECT_TRUE(read("auto", calibration()).exchanges.contains(LinkExchange::kNccl));
  EXPECT_FALSE(read("auto", calibration()).exchanges.contains(LinkExchange::kNcclWithoutP2p));
  Environment without = kEnvironment;
  without["NCCL_P2P_DISABLE"] = "1";
  EXPECT_FALSE(read("auto", calibration(), without).exchanges.contains(LinkExchange::kNccl));
  EXPECT_TRUE(read("auto", calibration(), without).exchanges.contains(LinkExchange::kNcclWithoutP2p));
  without["NCCL_P2P_DISABLE"] = "0";
  EXPECT_TRUE(read("auto", calibration(), without).exchanges.contains(LinkExchange::kNccl));
}

TEST_F(LinkCache, ANamedFileMayBeOfAnotherHostButNotOfOtherRanks) {
  LinkCalibration key = calibration();
  key.host = "b";
  EXPECT_FALSE(read(path_, key).empty());
  EXPECT_TRUE(warnings_.empty());
  key.num_ranks = 2;
  EXPECT_TRUE(read(path_, key).empty());
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("between 4 ranks on 1 machine with Some CPU, avx2, but this run has 2 ranks"),
            std::string::npos)
      << warnings_[0];
}

TEST_F(LinkCache, ADamagedFileIsAWarningInTheCacheAndAnErrorByName) {
  replace_file(files_, path_, "{");
  EXPECT_TRUE(read("auto", calibration()).empty());
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("; the rate between ranks is assumed"), std::string::npos) << warnings_[0];
  EXPECT_THROW(read(path_, calibration()), Error);
  EXPECT_THROW(read("/nowhere.json", calibration()), Error);
}

}  // namespace
}  // namespace plimsoll
